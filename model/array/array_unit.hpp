#pragma once

#include <optional>

#include "model/timing/systolic.hpp"
#include "model/unit/formula_unit.hpp"

namespace kpu::model {

/// A systolic array (NMU): gemm, matmul and convolutions. array_unit.md.
class ArrayUnit : public FormulaUnit {
  public:
    using FormulaUnit::FormulaUnit;
    const char* kind() const override { return "array_unit"; }

  protected:
    TaskPlan plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) override;

  private:
    /// What a product costs, in core cycles.
    struct Formula {
        timing::SystolicArray array;
        timing::SystolicTime time;
        uint64_t macs = 0, peak_q16 = 1;
        std::optional<Cycles> starved_operands_in;  ///< of a physical array
    };
    /// Cycles after the begin in which the array takes an operand.
    struct Window {
        Cycles from, to;
    };
    Formula formula_of(const BoundTask& task) const;
    void plan_operands(const BoundTask& task, const Formula& formula, TaskPlan& plan) const;
    void plan_result(const BoundTask& task, const Formula& formula, TaskPlan& plan) const;
    void plan_energy(const BoundTask& task, TaskPlan& plan) const;
    MacWork mac_work(ElemType a, ElemType b) const;
    static void starve_uneven_folds(TaskPlan& plan, Cycles starved, Cycles operands_in);
    /// A stream of at least `bytes` from the operand through a port of `port` bytes a cycle.
    void add_operand(const BoundTask& task, OperandRef operand, uint64_t bytes, Window window, uint32_t port,
                     TaskPlan& plan) const;
    uint32_t port(uint32_t bytes_per_array_cycle) const;
};

}  // namespace kpu::model
