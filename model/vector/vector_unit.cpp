#include "model/vector/vector_unit.hpp"

#include <algorithm>

#include "model/timing/vector.hpp"

namespace kpu::model {

void VectorUnit::plan(Job& job) {
    if (job.command->task->task->kind == proto::Task::COMPUTE) {
        plan_compute(job);
    } else {
        plan_store(job);
    }
}

void VectorUnit::plan_compute(Job& job) {
    const control::TaskInstance& task = *job.command->task;
    const proto::Vector& parameters = place().engine_platform->vector();
    const timing::VectorTime time = timing::vector_time(parameters, *place().program, *task.task);
    TaskReport& report = job.command->report;
    report.steady = time.steady;
    report.drain = time.latency;
    report.work = time.elements;
    report.passes = time.passes;
    report.peak_q16 = uint64_t{parameters.lanes()} << 16;
    job.overlap = true;
    job.occupancy = time.steady;
    // results of an opcode with several passes leave in the last one
    job.first_result = time.latency + time.steady / time.passes * (time.passes - 1);
    for (size_t i = 0; i < task.inputs.size(); ++i) {
        auto operand = memory_stream(job, task.inputs[i], true, parameters.operand_bytes_per_cycle());
        operand->extension.request.pace_cycles = time.steady;
        if (i == 0) operand->extension.request.source.repeat = time.passes;
        job.operands.push_back({std::move(operand), time.steady});
    }
    if (task.outputs.size() == 1) {
        job.result = memory_stream(job, task.outputs[0], false, parameters.result_bytes_per_cycle());
    }
}

void VectorUnit::plan_store(Job& job) {
    const control::TaskInstance& task = *job.command->task;
    const proto::Vector& parameters = place().engine_platform->vector();
    const uint32_t port = std::min(parameters.operand_bytes_per_cycle(), parameters.result_bytes_per_cycle());
    plan_move(job, task.inputs[0], task.outputs[0], place().engine_platform->dma(), port);
}

}  // namespace kpu::model
