#pragma once

#include <memory>
#include <string>

#include "analysis/pair_case.hpp"

namespace kpu::analysis {

/// Decides with isl whether any two unordered instances of a pair touch a common byte, whatever the loop
/// counts. Work is bounded by operations of isl, not by time, so that the answer is the same on every
/// machine.
class PairProver {
  public:
    static constexpr uint64_t operations_per_pair = 100'000;
    static constexpr uint64_t operations_of_a_proof = 4'000;  ///< usual
    static constexpr uint64_t operations_in_all =
        200'000'000;  ///< ResNet-50 in f32 on tile32 spends 70 million

    PairProver(const BoundProgram& program, const execution::ScheduleOrder& order);
    ~PairProver();

    /// `overlap`: the witness is the first in the order of variables_of(). `unknown`: reason() says why.
    Verdict prove(const PairCase& pair, Witness& witness);
    const std::string& reason() const { return reason_; }
    /// True if all the operations allowed were spent: every further answer is `unknown`.
    bool exhausted() const;

  private:
    struct Context;
    const BoundProgram& program_;
    const execution::ScheduleOrder& order_;
    std::unique_ptr<Context> context_;
    std::string reason_;
};

}  // namespace kpu::analysis
