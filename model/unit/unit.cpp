#include "model/unit/unit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/diagnostics.hpp"
#include "model/memory/memory_config.hpp"

namespace kpu::model {

namespace {

/// A unit's operand and result buffers are filled and emptied in blocks of 16 cycles of the narrower port,
/// and hold as many as hide the latency of L1, in core cycles, at the unit's own rate: two or more.
void use_blocks(StreamRequest& request, const proto::Sram& l1, uint64_t latency) {
    constexpr uint32_t block_cycles = 16, most = max_window / 2;
    const uint32_t unit = request.port_bytes_per_cycle, sram = l1.bytes_per_cycle();
    const uint64_t hidden = (latency + block_cycles - 1) / block_cycles;
    const uint64_t blocks = (unit + uint64_t{sram} - 1) / sram * std::max<uint64_t>(2, 1 + hidden);
    request.burst_bytes = block_cycles * std::min(unit, sram);
    request.max_outstanding = static_cast<uint32_t>(std::min<uint64_t>(blocks, most));
    request.buffer_bytes = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{request.burst_bytes} * request.max_outstanding, UINT32_MAX));
}

void point_at(StreamSide& side, const BoundRegion& region) {
    side.is_memory = true;
    side.level = region.level;
    side.engine = region.engine;
    side.pattern = kpu::footprint_of(region, 0);
}

uint64_t address_of(const execution::TaskInstance& task, OperandRef operand) {
    switch (operand.list) {
        case OperandRef::List::inputs:
            return task.inputs[operand.index].address;
        case OperandRef::List::outputs:
            return task.outputs[operand.index].address;
        case OperandRef::List::none:
            break;
    }
    return 0;
}

}  // namespace

traces::Cause dominant_limiter(const StreamResult& result, traces::Cause fallback) {
    std::array<Cycles, traces::cause_count> time{};
    for (size_t i = 0; i < result.limiters.size(); ++i) {
        const Cycles to = i + 1 < result.limiters.size() ? result.limiters[i + 1].from : result.end;
        const auto cause = static_cast<size_t>(result.limiters[i].cause);
        if (to > result.limiters[i].from) time[cause] += to - result.limiters[i].from;
    }
    traces::Cause best = fallback;
    Cycles most = 0;
    for (size_t i = 0; i < time.size(); ++i) {
        const auto cause = static_cast<traces::Cause>(i);
        if (time[i] > most && traces::group_of(cause) == "stalled") {
            most = time[i];
            best = cause;
        }
    }
    return best;
}

Unit::Unit(const sc_core::sc_module_name& name, const UnitPlace& place)
    : sc_module(name), command("command", place.command_ports), stream("stream", *this), place_(place) {
    for (CommandTargetSocket& socket : command) socket.bind(*this);
    SC_METHOD(woken);
    sensitive << wake_;
    dont_initialize();
}

tlm::tlm_sync_enum Unit::nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                         sc_core::sc_time&) {
    TaskCommand* received = payload.get_extension<TaskCommand>();
    if (phase != tlm::BEGIN_REQ || received == nullptr)
        throw InternalError("a unit got something that is not a command");
    received->report.clear();
    received->report.start = now_cycle();
    reach(received->task->inputs);
    reach(received->task->outputs);
    received->memory = &memory_;
    start(*received);
    return tlm::TLM_ACCEPTED;
}

void Unit::b_transport(tlm::tlm_generic_payload&, sc_core::sc_time&) {
    throw InternalError("commands are non-blocking");
}

/// Levels of operands that the unit has not touched yet: it asks for them through its memory socket.
void Unit::reach(const std::vector<values::RegionView>& operands) {
    for (const values::RegionView& operand : operands) {
        const BoundRegion& region = *operand.region;
        const size_t place =
            region.level == Level::l1 ? size_t{2} + region.engine : static_cast<size_t>(region.level);
        if (place < reached_.size() && reached_[place]) continue;
        if (place >= reached_.size()) reached_.resize(place + 1, false);
        memory_.set(region.level, region.engine, &stream.direct_memory(region.level, region.engine));
        reached_[place] = true;
    }
}

std::unique_ptr<StreamTransaction> Unit::post(const PlannedStream& planned, TaskCommand& task_command,
                                              void* context, Cycles pace_cycles) {
    std::unique_ptr<StreamTransaction> transaction = take_transaction();
    StreamExtension& extension = transaction->extension;
    StreamRequest& request = extension.request;
    request = planned.request;
    request.task = task_command.serial;
    request.source.pattern.address += address_of(*task_command.task, planned.source);
    request.destination.pattern.address += address_of(*task_command.task, planned.destination);
    if (pace_cycles != never) request.pace_cycles = pace_cycles;
    transaction->context = context;
    stream.post(*transaction);
    task_command.report.streams.push_back(
        {&request, extension.progress != nullptr ? extension.progress : &extension.result, false,
         planned.due});
    return transaction;
}

void Unit::note_completed(TaskCommand& task_command, const StreamTransaction& transaction) {
    std::vector<StreamUse>& uses = task_command.report.streams;
    const auto use = std::find_if(uses.rbegin(), uses.rend(), [&](const StreamUse& known) {
        return known.request == &transaction.extension.request;
    });
    if (use != uses.rend()) use->result = &transaction.extension.result;
}

void Unit::answer_free(TaskCommand& task_command) {
    task_command.freed = true;
    answer(task_command, tlm::END_REQ);
}

void Unit::answer_complete(TaskCommand& task_command) { answer(task_command, tlm::BEGIN_RESP); }

void Unit::answer(TaskCommand& task_command, tlm::tlm_phase phase) {
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    command[task_command.port]->nb_transport_bw(*task_command.payload, phase, delay);
}

void Unit::woken() {
    due_ = never;
    place_.errors->guard([&] { wake(); });
}

void Unit::wake_at(Cycles cycle) {
    if (cycle == due_) return;
    due_ = cycle;
    wake_.cancel();
    if (cycle == never) return;
    wake_.notify(sc_core::sc_time::from_value(place_.core.edge(cycle) - sc_core::sc_time_stamp().value()));
}

std::unique_ptr<StreamTransaction> Unit::take_transaction() {
    if (spare_.empty()) return std::make_unique<StreamTransaction>();
    std::unique_ptr<StreamTransaction> transaction = std::move(spare_.back());
    spare_.pop_back();
    transaction->extension.result.clear();
    transaction->extension.progress = nullptr;
    return transaction;
}

const BoundRegion& Unit::region_of(const BoundTask& task, OperandRef operand) const {
    const auto& list = operand.list == OperandRef::List::inputs ? task.inputs : task.outputs;
    return place_.program->regions[list.at(operand.index)];
}

StreamSide Unit::region_side(const BoundTask& task, OperandRef operand) const {
    StreamSide memory;
    point_at(memory, region_of(task, operand));
    return memory;
}

/// Returns the latency of the own engine's L1, in core cycles.
uint64_t Unit::l1_latency(bool read) const {
    const proto::Sram& l1 = place_.engine_platform->l1();
    const double cycles = read ? l1.read_latency_cycles() : l1.write_latency_cycles();
    const proto::Clock& clock = place_.platform->clock();
    return static_cast<uint64_t>(
        std::ceil(clock.has_sram_mhz() ? cycles * clock.core_mhz() / clock.sram_mhz() : cycles));
}

PlannedStream Unit::memory_stream(const BoundTask& task, OperandRef operand, bool read,
                                  uint32_t port_bytes_per_cycle) const {
    PlannedStream planned = port_stream(task.op, region_side(task, operand), read, port_bytes_per_cycle);
    (read ? planned.source : planned.destination) = operand;
    return planned;
}

PlannedStream Unit::port_stream(uint32_t op, const StreamSide& memory, bool read,
                                uint32_t port_bytes_per_cycle) const {
    PlannedStream planned;
    StreamRequest& request = planned.request;
    request.unit = place_.unit;
    request.op = op;
    request.port_bytes_per_cycle = port_bytes_per_cycle;
    if (place_.engine_platform != nullptr)
        use_blocks(request, place_.engine_platform->l1(), l1_latency(read));
    (read ? request.destination : request.source).engine = place_.engine;
    (read ? request.source : request.destination) = memory;
    return planned;
}

void Unit::use_dma(StreamRequest& request, const proto::Dma& dma) {
    request.burst_bytes = dma.burst_bytes();
    request.max_outstanding = dma.max_outstanding_bursts();
    request.buffer_bytes = 0;
    request.descriptor_cycles = dma.descriptor_cycles();
    request.row_cycles = dma.row_cycles();
    request.priority = static_cast<uint8_t>(dma.priority());
}

void Unit::plan_move(const BoundTask& task, const proto::Dma& dma, uint32_t port_bytes_per_cycle,
                     TaskPlan& plan) const {
    PlannedStream planned = memory_stream(task, input(0), true, port_bytes_per_cycle);
    StreamRequest& request = planned.request;
    point_at(request.destination, region_of(task, output(0)));
    planned.destination = output(0);
    use_dma(request, dma);
    plan.course = TaskPlan::Course::stream;
    plan.work = request.source.pattern.total_bytes();
    plan.peak_q16 = uint64_t{port_bytes_per_cycle} << 16;
    plan.operands.push_back(planned);
}

}  // namespace kpu::model
