#pragma once
// A QDQ model without its conversions, and what they say of its values.
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/plan.hpp"

namespace kpu::quantize {

inline bool is_named(const graph::Node& node, std::string_view name) { return node.spec().name == name; }

/// Meaning of the conversions of a model for a value that they stood around.
enum class Steps : uint8_t {
    none,     ///< floats
    exact,    ///< each number is a step
    allowed,  ///< floats, but all that reads them rounds them to the same steps
};

struct Stripped {
    graph::Graph graph;
    std::vector<Steps> steps;  ///< indexed by value; which ones: plan.quants
    Plan plan;                ///< quants and given, only_saturates of marks; the modes are still to be chosen
    std::vector<bool> marks;  ///< for each node: a clamp that stands for a quantize node
};

/// Rounding belongs to the place where the model quantizes, not to the tensor: each quantize node becomes a clamp, its
/// mark, and what else reads its operand reads floats.
Stripped strip_conversions(const graph::Graph& graph);

}  // namespace kpu::quantize
