#include "model/dma/dma_unit.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::model {

void DmaUnit::plan(Job& job) {
    const execution::TaskInstance& task = *job.command->task;
    if (task.task->kind == proto::Task::COMPUTE) throw InternalError("a DMA got a compute task");
    const bool of_engine = place().engine_platform != nullptr;
    const proto::Dma& parameters =
        of_engine ? place().engine_platform->dma() : place().platform->system_dma();
    uint32_t port = parameters.bytes_per_cycle();
    // a DDR <-> L1 transfer passes through a DMA of the engine as well
    if (job.command->partner != traces::no_unit) port = std::min(port, job.command->partner_bytes_per_cycle);
    plan_move(job, task.inputs[0], task.outputs[0], parameters, port);
}

}  // namespace kpu::model
