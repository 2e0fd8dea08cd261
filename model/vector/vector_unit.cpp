#include "model/vector/vector_unit.hpp"

#include <algorithm>

#include "isa/opcodes.hpp"
#include "isa/shapes.hpp"
#include "model/timing/vector.hpp"

namespace kpu::model {

namespace {

/// What a task reads of its first operand.
struct OperandWalk {
    values::Footprint pattern;
    uint32_t repeat = 1;
};

OperandWalk sliced(const values::RegionView& view, const BoundAttrs& attrs) {
    BoundRegion part = *view.region;
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
    return {values::footprint_of({&part, view.address + offset}), 1};
}

/// Which rows are gathered depends on values; time does not: as many rows from the first on.
OperandWalk gathered(const values::RegionView& view, const BoundRegion& indices, const BoundAttrs& attrs) {
    BoundRegion part = *view.region;
    part.dense = false;
    int64_t& rows = part.shape[axis_of(part.shape, attrs)];
    const int64_t size = std::max<int64_t>(rows, 1), wanted = indices.shape.product();
    rows = std::min(size, wanted);
    return {values::footprint_of({&part, view.address}), static_cast<uint32_t>((wanted + size - 1) / size)};
}

OperandWalk first_operand_walk(const execution::TaskInstance& instance) {
    const values::RegionView& view = instance.inputs[0];
    const BoundTask& task = *instance.task;
    const OperandRead reads = opcode(task.opcode).reads;
    if (reads == OperandRead::slice && view.region->elem != ElemType::i4) return sliced(view, task.attrs);
    if (reads == OperandRead::rows) return gathered(view, *instance.inputs[1].region, task.attrs);
    return {values::footprint_of(view), 1};
}

}  // namespace

void VectorUnit::plan(Job& job) {
    if (job.command->task->task->kind == proto::Task::COMPUTE) {
        plan_compute(job);
    } else {
        plan_store(job);
    }
}

void VectorUnit::plan_compute(Job& job) {
    const execution::TaskInstance& task = *job.command->task;
    const proto::Vector& parameters = place().engine_platform->vector();
    const timing::VectorTime time = timing::vector_time(parameters, *place().program, *task.task);
    TaskReport& report = job.command->report;
    report.steady = time.steady;
    report.drain = time.latency;
    report.work = time.work;
    report.passes = time.passes;
    report.peak_q16 = time.per_cycle << 16;
    job.overlap = true;
    job.occupancy = time.steady;
    // results of an opcode with several passes leave in the last one
    job.first_result = time.latency + time.steady / time.passes * (time.passes - 1);
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        auto operand = memory_stream(job, task.inputs[i], true, parameters.operand_bytes_per_cycle());
        StreamSide& source = operand->extension.request.source;
        operand->extension.request.pace_cycles = time.steady;
        if (i == 0) {
            const OperandWalk walk = first_operand_walk(task);
            source.pattern = walk.pattern;
            source.repeat = walk.repeat * time.passes;
        }
        job.operands.push_back({std::move(operand), time.steady});
    }
    for (const values::RegionView& output : task.outputs)
        job.results.push_back(memory_stream(job, output, false, parameters.result_bytes_per_cycle()));
}

void VectorUnit::plan_store(Job& job) {
    const execution::TaskInstance& task = *job.command->task;
    const proto::Vector& parameters = place().engine_platform->vector();
    const uint32_t port = std::min(parameters.operand_bytes_per_cycle(), parameters.result_bytes_per_cycle());
    plan_move(job, task.inputs[0], task.outputs[0], place().engine_platform->dma(), port);
}

}  // namespace kpu::model
