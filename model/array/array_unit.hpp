#pragma once

#include <optional>
#include <unordered_map>

#include "model/timing/systolic.hpp"
#include "model/worker/worker.hpp"

namespace kpu::model {

/// A systolic array (NMU): gemm, matmul and convolutions. array_unit.md.
class ArrayUnit : public Worker {
  public:
    using Worker::Worker;
    const char* kind() const override { return "array_unit"; }

  protected:
    void plan(Job& job) override;

  private:
    /// Cycles after the begin in which the array takes an operand.
    struct Window {
        Cycles from, to;
    };
    void starve_uneven_folds(Job& job, Cycles starved, Cycles operands_in);
    /// A stream of at least `bytes` from `view` through a port of `port` bytes a cycle.
    void add_operand(Job& job, const values::RegionView& view, uint64_t bytes, Window window, uint32_t port);

    /// timing::starved_operands_in of each task met, in cycles of the array: it takes time, and loops repeat
    /// tasks.
    std::unordered_map<const BoundTask*, std::optional<Cycles>> starved_;
};

}  // namespace kpu::model
