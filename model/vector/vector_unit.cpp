#include "model/vector/vector_unit.hpp"

#include <algorithm>

#include "isa/footprint.hpp"
#include "isa/opcodes.hpp"
#include "isa/shapes.hpp"
#include "model/timing/vector.hpp"
#include "model/unit/unit_module.hpp"
#include "values/kernel/task.hpp"

namespace kpu::model {

namespace {

/// What a task reads of its first operand, from the operand's begin on.
struct OperandWalk {
    Footprint pattern;
    uint32_t repeat = 1;
};

OperandWalk sliced(const BoundRegion& region, const BoundAttrs& attrs) {
    BoundRegion part = region;
    part.dense = false;
    int64_t first = 0;
    const std::vector<SliceRange> ranges = slice_ranges(part.shape, attrs);
    for (size_t d = 0; d < part.shape.rank; ++d) {
        const SliceRange& range = ranges[d];
        const int64_t lowest = range.step > 0 ? range.first : range.first + (range.count - 1) * range.step;
        first += lowest * part.strides[d];
        part.shape[d] = range.count;
        part.strides[d] *= std::abs(range.step);
    }
    const uint64_t offset = static_cast<uint64_t>(first) * static_cast<uint64_t>(bit_width(part.elem)) / 8;
    return {footprint_of(part, offset), 1};
}

/// Which rows are gathered depends on values; time does not: as many rows from the first on.
OperandWalk gathered(const BoundRegion& region, const BoundRegion& indices, const BoundAttrs& attrs) {
    BoundRegion part = region;
    part.dense = false;
    int64_t& rows = part.shape[axis_of(part.shape, attrs)];
    const int64_t size = std::max<int64_t>(rows, 1), wanted = indices.shape.product();
    rows = std::min(size, wanted);
    return {footprint_of(part, 0), static_cast<uint32_t>((wanted + size - 1) / size)};
}

}  // namespace

TaskPlan VectorUnit::plan(const BoundTask& task, uint32_t) {
    return task.computes() ? plan_compute(task) : plan_store(task);
}

TaskPlan VectorUnit::plan_compute(const BoundTask& task) const {
    const proto::Vector& parameters = place().engine_platform->vector();
    const timing::VectorTime time = timing::vector_time(parameters, *place().program, task);
    TaskPlan plan;
    plan.steady = time.steady;
    plan.drain = time.latency;
    plan.work = time.work;
    plan.peak_q16 = time.per_cycle << 16;
    plan.overlap = true;
    plan.occupancy = time.steady;
    // results of an opcode with several passes leave in the last one
    plan.first_result = time.latency + time.steady / time.passes * (time.passes - 1);
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        PlannedStream operand = memory_stream(task, input(i), true, parameters.operand_bytes_per_cycle());
        operand.request.pace_cycles = time.steady;
        operand.due = time.steady;
        if (i == 0) {
            walk_first_operand(task, operand.request.source);
            operand.request.source.repeat *= time.passes;
        }
        plan.operands.push_back(operand);
    }
    for (size_t i = 0; i < task.outputs.size(); ++i)
        plan.results.push_back(memory_stream(task, output(i), false, parameters.result_bytes_per_cycle()));
    const OpcodeSpec& spec = opcode(task.opcode);
    const ElemType type = region_of(task, spec.work == WorkCount::operands ? input(0) : output(0)).elem;
    plan.energy = {
        {traces::Component::vector, std::string(energy_action(spec, type)), plan.work * time.passes}};
    return plan;
}

/// Runs the kernel on copies of its operands, to know its time: what it leaves in memory, the task's completion
/// computes again.
TaskPlan VectorUnit::plan_execution(const TaskCommand& given) {
    const BoundTask& task = *given.task->task;
    const kernel::Code& code = *task.launch->code;
    values::kernel::LaunchData data = values::kernel::launch_data(*given.memory, task, given.task->inputs,
                                                                  given.task->outputs, given.task->loops);
    KernelCost cost(code, *place().engine_platform, places_of(given), place().kernel_cycles);
    values::kernel::run_launch(code, data.grid, data.scalars, data.storage(), {UINT64_MAX, nullptr, &cost});
    const proto::Vector& parameters = place().engine_platform->vector();
    TaskPlan plan;
    plan.steady = cost.busy();
    plan.uneven = cost.waited();
    plan.drain = plan.first_result = parameters.pipeline_latency_cycles();
    plan.work = cost.useful();
    plan.peak_q16 = uint64_t{parameters.lanes()} << 16;
    plan.occupancy = plan.steady;
    plan_kernel_streams(given, cost, plan);
    constexpr std::pair<kernel::CostClass, const char*> actions[] = {
        {kernel::CostClass::integer, "op.i32"},
        {kernel::CostClass::floating, "op.f32"},
        {kernel::CostClass::special, "op.transcendental"},
        {kernel::CostClass::permute, "op.i32"},
        {kernel::CostClass::reduce, "op.f32"},
        {kernel::CostClass::atomic, "op.i32"}};
    for (const auto& [cost_class, action] : actions)
        plan.energy.push_back({traces::Component::vector, action, cost.operations(cost_class)});
    return plan;
}

/// Operands where they are, workgroup memory behind what the program uses of L1.
std::vector<KernelBufferPlace> VectorUnit::places_of(const TaskCommand& given) const {
    const BoundTask& task = *given.task->task;
    std::vector<KernelBufferPlace> places;
    uint64_t free =
        place().engine < place().program->l1_bytes.size() ? place().program->l1_bytes[place().engine] : 0;
    size_t next = 0;
    for (const kernel::CodeBuffer& buffer : task.launch->code->buffers) {
        if (buffer.is_workgroup()) {
            const uint64_t bytes = uint64_t{buffer.count} * kernel::storage_bits(buffer.type) / 8;
            places.push_back({free, bytes});
            free += bytes;
            continue;
        }
        const BoundLaunch::Operand& operand = task.launch->operands[next++];
        const values::RegionView& view = operand.input >= 0
                                             ? given.task->inputs[static_cast<size_t>(operand.input)]
                                             : given.task->outputs[static_cast<size_t>(operand.output)];
        places.push_back({view.address, view.region->extent});
    }
    return places;
}

/// What the kernel read and wrote of each operand moves between L1 and the unit while it runs.
void VectorUnit::plan_kernel_streams(const TaskCommand& given, const KernelCost& cost, TaskPlan& plan) const {
    const proto::Vector& parameters = place().engine_platform->vector();
    const BoundTask& task = *given.task->task;
    const auto limit = [](StreamSide& side, uint64_t bytes) {
        const uint64_t whole = std::max<uint64_t>(side.pattern.total_bytes(), 1);
        if (side.pattern.dims == 0) side.pattern.run_bytes = std::min(side.pattern.run_bytes, bytes);
        side.repeat = static_cast<uint32_t>(std::min<uint64_t>((bytes + whole - 1) / whole, UINT32_MAX));
    };
    size_t next = 0;
    for (uint32_t b = 0; b < task.launch->code->buffers.size(); ++b) {
        if (task.launch->code->buffers[b].is_workgroup()) continue;
        const BoundLaunch::Operand& bound = task.launch->operands[next++];
        if (bound.input >= 0 && cost.bytes_read(b) > 0) {
            PlannedStream operand = memory_stream(task, input(static_cast<size_t>(bound.input)), true,
                                                  parameters.operand_bytes_per_cycle());
            limit(operand.request.source, cost.bytes_read(b));
            operand.request.pace_cycles = operand.due = plan.steady + plan.uneven;
            plan.operands.push_back(operand);
        }
        if (bound.output >= 0 && cost.bytes_written(b) > 0) {
            PlannedStream result = memory_stream(task, output(static_cast<size_t>(bound.output)), false,
                                                 parameters.result_bytes_per_cycle());
            limit(result.request.destination, cost.bytes_written(b));
            plan.results.push_back(result);
        }
    }
}

void VectorUnit::walk_first_operand(const BoundTask& task, StreamSide& source) const {
    const BoundRegion& region = region_of(task, input(0));
    const OperandRead reads = opcode(task.opcode).reads;
    OperandWalk walk{source.pattern, 1};
    if (reads == OperandRead::slice && region.elem != ElemType::i4) walk = sliced(region, task.attrs);
    if (reads == OperandRead::rows) walk = gathered(region, region_of(task, input(1)), task.attrs);
    source.pattern = walk.pattern;
    source.repeat = walk.repeat;
}

TaskPlan VectorUnit::plan_store(const BoundTask& task) const {
    const proto::Vector& parameters = place().engine_platform->vector();
    TaskPlan plan;
    plan_move(task, place().engine_platform->dma(),
              std::min(parameters.operand_bytes_per_cycle(), parameters.result_bytes_per_cycle()), plan);
    return plan;
}

extern const UnitModule vector_unit_module;
const UnitModule vector_unit_module{{UnitKind::cstl, UnitKind::vpu}, make_unit<VectorUnit>};

}  // namespace kpu::model
