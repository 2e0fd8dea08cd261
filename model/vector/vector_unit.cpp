#include "model/vector/vector_unit.hpp"

#include <algorithm>

#include "isa/footprint.hpp"
#include "isa/opcodes.hpp"
#include "isa/shapes.hpp"
#include "model/timing/vector.hpp"
#include "model/unit/unit_module.hpp"

namespace kpu::model {

namespace {

/// Reads of a task from its first operand, from the operand's begin on.
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

/// Returns the walk of a gather. Which rows are gathered depends on values; time does not: as many rows from
/// the first on.
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

void VectorUnit::walk_first_operand(const BoundTask& task, StreamSide& source) const {
    const BoundRegion& region = region_of(task, input(0));
    const OperandRead reads = opcode(task.opcode).reads;
    OperandWalk walk{source.pattern, 1};
    if (reads == OperandRead::slice && !shares_bytes(region.elem)) walk = sliced(region, task.attrs);
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
