#pragma once
// Which channels of a network may be scaled together.
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::quantize {

/// Values between products whose channels, the last dimension, can be divided by one positive factor each: what stands
/// between makers and readers gives s times as much of operands that are s times as large. Element j of the last dimension
/// belongs to channel j % channels.
struct ChannelClass {
    int64_t channels = 1;
    std::vector<graph::ValueId> values;
    std::vector<graph::NodeId> makers;      ///< products; output channels of their weights and bias
    std::vector<graph::NodeId> readers;     ///< products; input channels of their weights
    std::vector<graph::ValueId> constants;  ///< vectors that are added, or compared with
    std::vector<graph::NodeId> bounds;      ///< clamps between 0 and a bound
};

/// Returns the classes with makers and readers. Nodes that are kept in a type, and what several nodes share,
/// are in none.
std::vector<ChannelClass> channel_classes(const graph::Graph& graph);

/// Returns the input channel of a product that the weight at [..., i, o] multiplies.
int64_t input_channel(const graph::Graph& graph, const graph::Node& product, int64_t i, int64_t o);

}  // namespace kpu::quantize
