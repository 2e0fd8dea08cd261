#pragma once
// The parts of a network whose precision is chosen one by one.
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/target/target.hpp"

namespace kpu::precision {

/// A product with what follows it up to the next products, or what no product leads to.
struct Layer {
    std::string name, type;  ///< name of its first operation
    std::vector<graph::NodeId> nodes;
    uint64_t macs = 0;
    double narrow_cycles = 0,
           wide_cycles = 0;          ///< cycles of the arrays at peak, conversions of a wide layer included
    ElemType wide = ElemType::none;  ///< the next type that the device has for all of it; none: there is none
    bool sums_only = false;          ///< wide f32 are the sums alone: the device has no products of f32
    bool kept = false;               ///< kept by the user: it is not chosen
};

/// Returns the layers of a float graph that is to be compiled in `precision`, in its order. Nodes without
/// floats are in none.
std::vector<Layer> layers_of(const graph::Graph& graph, ElemType precision, const compiler::Target& target);

}  // namespace kpu::precision
