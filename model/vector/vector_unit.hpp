#pragma once

#include "model/unit/formula_unit.hpp"
#include "model/vector/kernel_cost.hpp"

namespace kpu::model {

/// A vector unit (CSTL or VPU): everything that is neither a matrix product nor a transfer, and stores.
/// vector_unit.md.
class VectorUnit : public FormulaUnit {
  public:
    using FormulaUnit::FormulaUnit;
    const char* kind() const override { return "vector_unit"; }

  protected:
    TaskPlan plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) override;
    TaskPlan plan_execution(const TaskCommand& command) override;

  private:
    TaskPlan plan_compute(const BoundTask& task) const;
    TaskPlan plan_store(const BoundTask& task) const;
    void plan_kernel_streams(const TaskCommand& command, const KernelCost& cost, TaskPlan& plan) const;
    std::vector<KernelBufferPlace> places_of(const TaskCommand& command) const;
    void walk_first_operand(const BoundTask& task, StreamSide& source) const;
};

}  // namespace kpu::model
