#pragma once
// What a program says of its operations.
#include <map>
#include <string>

#include "compiler/emit/lower.hpp"
#include "compiler/emit/masks.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {

class OpRecords {
  public:
    OpRecords(builder::Program& program, const graph::Graph& graph, const MemoryPlan& memory)
        : program_(program), graph_(graph), memory_(memory), masked_(masked_values(graph)) {}
    /// The number by which tasks name the operation. Strips are one operation: its tiles are those of the first one.
    uint32_t add(const PlannedOp& op);
    /// What the host calls a value: an input or output, or another view of an input's bytes.
    const std::string& host_name(graph::ValueId id) const;

  private:
    uint32_t add_new(const PlannedOp& op);
    /// The attributes of the anchor; its type as `precision`; its work as `macs`; how many `strips` it is cut into; each constant operand as `weight
    /// NAME`: element type, shape, scales; `masks`: minus infinity stands for what is very low.
    void add_attributes(const PlannedOp& op, proto::Op& message) const;
    bool only_masks(const PlannedOp& op) const;

    builder::Program& program_;
    const graph::Graph& graph_;
    const MemoryPlan& memory_;
    std::vector<bool> masked_;                 ///< by value
    std::map<std::string, uint32_t> striped_;  ///< numbers of operations that are cut, by name
};

}  // namespace kpu::compiler
