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
    TaskPlan plan_product(const Product& product) override;

  private:
    /// Place of an operand or of the result.
    struct Operand {
        ElemType elem = ElemType::none;
        uint64_t elements = 0;
        StreamSide side;
        OperandRef ref;  ///< whose address of an iteration the side begins at; none: it has its own
    };
    /// Work of the array: a task, or a product of a kernel's statement.
    struct Work {
        uint32_t op = traces::background_op;
        timing::GemmShape shape;
        std::vector<Operand> inputs;
        Operand result;
    };
    /// Cost of a product, in core cycles.
    struct Formula {
        timing::SystolicArray array;
        timing::SystolicTime time;
        uint64_t macs = 0, peak_q16 = 1;
        std::optional<Cycles> starved_operands_in;  ///< operands that starve in a physical array
    };
    /// Cycles after the begin in which the array takes an operand.
    struct Window {
        Cycles from, to;
    };
    Operand operand_of(const BoundTask& task, OperandRef ref) const;
    TaskPlan plan(const Work& work) const;
    Formula formula_of(const Work& work) const;
    void plan_operands(const Work& work, const Formula& formula, TaskPlan& plan) const;
    void plan_result(const Work& work, const Formula& formula, TaskPlan& plan) const;
    void plan_energy(const Work& work, TaskPlan& plan) const;
    MacWork mac_work(ElemType a, ElemType b) const;
    static void starve_uneven_folds(TaskPlan& plan, Cycles starved, Cycles operands_in);
    /// Adds a stream of at least `bytes` from the operand through a port of `port` bytes a cycle.
    void add_operand(const Work& work, const Operand& operand, uint64_t bytes, Window window, uint32_t port,
                     TaskPlan& plan) const;
    uint32_t port(uint32_t bytes_per_array_cycle) const;
};

}  // namespace kpu::model
