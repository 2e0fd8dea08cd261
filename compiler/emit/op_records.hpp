#pragma once
// Records of a program about its operations.
#include <vector>

#include "compiler/emit/emission.hpp"
#include "compiler/emit/masks.hpp"

namespace kpu::compiler {

class OpRecords {
  public:
    explicit OpRecords(Emission& emission) : out_(emission), masked_(masked_values(emission.graph)) {}
    /// Adds the record that tasks name by PlannedOp::number. Strips are one operation: its tiles are those of the first one.
    void add(const PlannedOp& op);

  private:
    void add_new(const PlannedOp& op);
    /// The attributes of the anchor; its type as `precision`; its work as `macs`; how many `strips` it is cut into; each constant operand as `weight
    /// NAME`: element type, shape, scales; `masks`: minus infinity stands for what is very low.
    void add_attributes(const PlannedOp& op, proto::Op& message) const;
    bool only_masks(const PlannedOp& op) const;

    Emission& out_;
    std::vector<bool> masked_;  ///< indexed by value
};

}  // namespace kpu::compiler
