#include "model/accounting/energy_booking.hpp"

#include <algorithm>

#include "isa/opcodes.hpp"

namespace kpu::model {

using traces::Component;

namespace {

/// The type that a MAC is priced as.
ElemType mac_type(ElemType a, ElemType b) {
    return a == ElemType::i8 && b == ElemType::i4 ? ElemType::i4 : a;
}

}  // namespace

EnergyBooking::EnergyBooking(traces::EnergyLedger& ledger) : ledger_(ledger) {
    for (int type = 0; type < elem_type_count; ++type) {
        macs_.push_back({Component::array, "mac." + std::string(name_of(static_cast<ElemType>(type)))});
    }
}

void EnergyBooking::book(Action& action, uint64_t count, Cycles from, Cycles to, uint32_t op) {
    if (count == 0) return;
    if (!action.id) action.id = ledger_.prices().find(action.component, action.name);
    ledger_.book(*action.id, count, from, to, op);
}

void EnergyBooking::completed(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const BoundTask& task = *command.task->task;
    book(instr_, 1, report.start, report.start, task.op);
    if (task.unit == UnitKind::nmu) {
        array_work(command);
    } else if (!report.mover) {
        vector_work(command);
    }
    for (const StreamUse& use : report.streams) stream(use, task.op, report.mover);
}

void EnergyBooking::array_work(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const auto& inputs = command.task->inputs;
    const uint32_t op = command.task->task->op;
    const ElemType type = mac_type(inputs[0].region->elem, inputs[1].region->elem);
    book(macs_[static_cast<size_t>(type)], report.work, report.start, report.end, op);
    const auto unit_cycles = static_cast<double>(report.unit_cycles_q16);
    const uint64_t all =
        static_cast<uint64_t>(double(report.own_cycles) * unit_cycles / 65536.0) * report.processing_elements;
    // at rate r an element does r MACs in a cycle in which it is active
    const auto active = static_cast<uint64_t>(double(report.work) * double(report.processing_elements) *
                                              unit_cycles / double(report.peak_q16));
    book(shift_, std::min(active, all), report.start, report.end, op);
    book(idle_, all - std::min(active, all), report.start, report.end, op);
}

void EnergyBooking::vector_work(const TaskCommand& command) {
    const BoundTask& task = *command.task->task;
    const TaskReport& report = command.report;
    const OpcodeSpec& spec = opcode(task.opcode);
    const bool reads = spec.work == WorkCount::operands;
    const ElemType type = (reads ? command.task->inputs : command.task->outputs).at(0).region->elem;
    const std::string_view name = energy_action(spec, type);
    auto found = vector_ops_.find(name);
    if (found == vector_ops_.end())
        found = vector_ops_.try_emplace(name, Action{Component::vector, std::string(name)}).first;
    book(found->second, report.work * report.passes, report.start, report.end, task.op);
}

void EnergyBooking::side(const StreamSide& side, uint64_t accesses, bool read, const StreamResult& result,
                         uint32_t op) {
    if (!side.is_memory) return;
    switch (side.level) {
        case Level::l1:
            book(read ? l1_read_ : l1_write_, accesses, result.start, result.end, op);
            break;
        case Level::l2:
            book(read ? l2_read_ : l2_write_, accesses, result.start, result.end, op);
            break;
        case Level::ddr:
            book(read ? dram_read_ : dram_write_, accesses, result.start, result.end, op);
            book(phy_burst_, accesses, result.start, result.end, op);
            break;
    }
}

void EnergyBooking::stream(const StreamUse& use, uint32_t op, bool mover) {
    const StreamResult& result = *use.result;
    const StreamRequest& request = *use.request;
    side(request.source, result.source_accesses, true, result, op);
    side(request.destination, result.destination_accesses, false, result, op);
    book(activate_, result.dram_activates, result.start, result.end, op);
    book(link_byte_, result.bytes * result.links, result.start, result.end, op);
    if (!mover) return;
    book(descriptor_, 1, result.start, result.start, op);
    const uint64_t group = traces::dma_beat_group_bytes(request.burst_bytes);
    book(dma_burst_, (result.bytes + group - 1) / group, result.start, result.end, op);
}

void EnergyBooking::dram_background(const DramCounters& all, Cycles end) {
    const auto add = [&](const char* action, uint64_t count) {
        if (count == 0) return;
        ledger_.add(ledger_.prices().find(Component::dram, action), count, 0, end, traces::background_op);
    };
    add("refresh", all.refreshes);
    add("activate", all.activates - all.charged_activates);
    const auto in_state = [&](dram::RankState state) { return all.rank_times[static_cast<size_t>(state)]; };
    using dram::RankState;
    add("state.active", in_state(RankState::active) + in_state(RankState::refreshing));
    add("state.precharged", in_state(RankState::precharged));
    add("state.active_power_down", in_state(RankState::active_power_down));
    add("state.precharge_power_down", in_state(RankState::precharge_power_down));
    add("state.self_refresh", in_state(RankState::self_refresh));
}

}  // namespace kpu::model
