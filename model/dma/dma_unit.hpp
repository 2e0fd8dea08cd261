#pragma once

#include "model/unit/formula_unit.hpp"

namespace kpu::model {

/// A DMA channel, of an engine (L2 <-> L1) or of the system (DDR <-> L2, DDR <-> L1): one transfer at a time.
/// dma_unit.md.
class DmaUnit : public FormulaUnit {
  public:
    using FormulaUnit::FormulaUnit;
    const char* kind() const override { return "dma_unit"; }

  protected:
    TaskPlan plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) override;
};

}  // namespace kpu::model
