#include "model/dma/dma_unit.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"
#include "model/unit/unit_module.hpp"

namespace kpu::model {

TaskPlan DmaUnit::plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) {
    if (task.computes()) throw InternalError("a DMA got a compute task");
    const bool of_engine = place().engine_platform != nullptr;
    const proto::Dma& parameters =
        of_engine ? place().engine_platform->dma() : place().platform->system_dma();
    uint32_t port = parameters.bytes_per_cycle();
    // a DDR <-> L1 transfer passes through a DMA of the engine as well
    if (partner_bytes_per_cycle != 0) port = std::min(port, partner_bytes_per_cycle);
    TaskPlan plan;
    plan_move(task, parameters, port, plan);
    return plan;
}

extern const UnitModule dma_unit_module;
const UnitModule dma_unit_module{{UnitKind::dma, UnitKind::sdma}, make_unit<DmaUnit>};

}  // namespace kpu::model
