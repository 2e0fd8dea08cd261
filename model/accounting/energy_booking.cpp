#include "model/accounting/energy_booking.hpp"

#include <algorithm>

namespace kpu::model {

using traces::Component;

template <class Any>
void EnergyBooking::book(Any& action, uint64_t count, Cycles from, Cycles to, uint32_t op) {
    if (count == 0) return;
    if (!action.id) action.id = ledger_.prices().find(action.component, action.name);
    ledger_.book(*action.id, count, from, to, op);
}

namespace {

/// How many of a planned action an execution took.
uint64_t count_of(const EnergyAction& action, const TaskPlan& plan, const TaskReport& report) {
    if (action.basis == EnergyAction::Basis::task) return action.count;
    const auto own =
        static_cast<uint64_t>(double(report.own_cycles) * double(plan.unit_cycles_q16) / 65536.0);
    const uint64_t all = own * plan.processing_elements, active = std::min(action.count, all);
    return action.basis == EnergyAction::Basis::active ? active : all - active;
}

}  // namespace

void EnergyBooking::completed(const TaskCommand& command) {
    const TaskReport& report = command.report;
    const TaskPlan& plan = *command.plan;
    const uint32_t op = command.task->task->op;
    book(instr_, 1, report.start, report.start, op);
    for (const EnergyAction& action : plan.energy)
        book(action, count_of(action, plan, report), report.start, report.end, op);
    for (const StreamUse& use : report.streams) stream(use, op, plan.moves());
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
