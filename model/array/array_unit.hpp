#pragma once

#include <optional>
#include <unordered_map>

#include "model/timing/systolic.hpp"
#include "model/unit/worker.hpp"

namespace kpu::model {

/// A systolic array (NMU): gemm, matmul and convolutions. array_unit.md.
class ArrayUnit : public Worker {
  public:
    using Worker::Worker;
    const char* kind() const override { return "array_unit"; }

  protected:
    void plan(Job& job) override;

  private:
    /// What every execution of a task has in common, in core cycles.
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
    void starve_uneven_folds(Job& job, Cycles starved, Cycles operands_in);
    /// A stream of at least `bytes` from `view` through a port of `port` bytes a cycle.
    void add_operand(Job& job, const values::RegionView& view, uint64_t bytes, Window window, uint32_t port);

    const Formula& formula_of(const execution::TaskInstance& task);

    /// Of each task met: loops repeat tasks.
    std::unordered_map<const BoundTask*, Formula> formulas_;
};

}  // namespace kpu::model
