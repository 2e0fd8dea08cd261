#include "model/array/array_unit.hpp"

#include <algorithm>

#include "model/timing/systolic.hpp"

namespace kpu::model {

namespace {

/// Walks over a region that read or write `accesses` of its elements.
uint32_t walks(uint64_t accesses, const values::RegionView& view) {
    const auto elements = static_cast<uint64_t>(view.region->shape.product());
    if (elements == 0) return 1;
    return static_cast<uint32_t>(std::clamp<uint64_t>((accesses + elements - 1) / elements, 1, UINT32_MAX));
}

}  // namespace

void ArrayUnit::plan(Job& job) {
    const control::TaskInstance& task = *job.command->task;
    const proto::SystolicArray& parameters = place().engine_platform->array();
    const auto array =
        timing::array_for(parameters, task.inputs[0].region->elem, task.inputs[1].region->elem);
    const timing::GemmShape shape = timing::gemm_shape(*place().program, *task.task);
    const timing::SystolicTime time = timing::systolic_time(array, shape);

    TaskReport& report = job.command->report;
    report.fill = time.weight_load + time.fill;
    report.steady = time.steady;
    report.drain = time.drain;
    report.work = shape.macs();
    report.peak_q16 = array.peak_q16();
    report.processing_elements = array.rows * array.cols;
    job.overlap = array.timing == proto::SystolicArray::physical;
    job.result_after_operands = time.folds <= 1;
    job.first_result = time.first_result;

    for (size_t i = 0; i < task.inputs.size(); ++i) {
        auto operand = memory_stream(job, task.inputs[i], true, parameters.operand_bytes_per_cycle());
        StreamRequest& request = operand->extension.request;
        request.pace_cycles = time.steady;
        if (i < 2) request.source.repeat = walks(i == 0 ? time.a_reads : time.b_reads, task.inputs[i]);
        job.operands.push_back(std::move(operand));
    }
    job.result = memory_stream(job, task.outputs[0], false, parameters.result_bytes_per_cycle());
    job.result->extension.request.destination.repeat = walks(time.writes, task.outputs[0]);
}

}  // namespace kpu::model
