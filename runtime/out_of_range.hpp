#pragma once
// What the results of a run say about the types that they were computed in.
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "isa/bound_program.hpp"
#include "runtime/host_tensors.hpp"
#include "traces/stats.hpp"
#include "traces/writers.hpp"
#include "values/compute.hpp"

namespace kpu::runtime {

/// Results that left the range of their type, by operation. Steps of integers count beside their range; not below it where
/// it begins at 0, nor in operations with a Clip: that is how relu and clamp are computed then.
class OutOfRange {
  public:
    OutOfRange(const BoundProgram& program, const std::vector<values::Executor::Results>& results,
               std::vector<InputRange> inputs);
    void fill_in(traces::StatSet& stats) const;
    /// Fills in rows of operations, in the order of the program.
    void fill_in(std::vector<traces::OpRow>& rows) const;
    /// Returns one line that names the operation with most of what no mask explains, and what helps; empty:
    /// there is nothing to say.
    std::string warning() const;

  private:
    struct Row {
        uint32_t op = 0;
        ElemType elem = ElemType::none;
        bool steps = false;  ///< quantised
        double low = 0, high = 0;
        uint64_t made = 0, count = 0;
        uint64_t unexplained = 0;  ///< part of these that is not only minus infinity for a softmax
        bool tells() const;
    };
    Row& row_of(uint32_t op, const BoundRegion& y);
    std::string what(const Row& row) const;
    std::string help(const Row& row) const;
    std::string input_warning() const;

    const BoundProgram& program_;
    std::vector<Row> rows_;
    std::map<std::tuple<uint32_t, ElemType, bool>, size_t>
        places_;  ///< rows by operation, type and whether it is quantised
    std::vector<InputRange> inputs_;
    bool compiled_ = false;
};

}  // namespace kpu::runtime
