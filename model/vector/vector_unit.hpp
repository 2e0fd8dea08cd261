#pragma once

#include "model/vector/kernel_unit.hpp"

namespace kpu::model {

/// A vector unit (CSTL or VPU): everything that is neither a matrix product nor a transfer, and stores.
/// vector_unit.md.
class VectorUnit : public KernelUnit {
  public:
    using KernelUnit::KernelUnit;
    const char* kind() const override { return "vector_unit"; }

  protected:
    TaskPlan plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) override;

  private:
    TaskPlan plan_compute(const BoundTask& task) const;
    TaskPlan plan_store(const BoundTask& task) const;
    void walk_first_operand(const BoundTask& task, StreamSide& source) const;
};

}  // namespace kpu::model
