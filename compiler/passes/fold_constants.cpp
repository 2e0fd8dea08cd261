// Nodes whose operands are all constants are executed now.
#include <algorithm>

#include "compiler/graph/execute.hpp"
#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

uint64_t bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
    uint64_t sum = 0;
    for (const ValueId id : values)
        sum += graph::data_bytes(graph.value(id).elem, graph.value(id).elements());
    return sum;
}

bool foldable(const Graph& graph, const Node& node, uint64_t limit) {
    const auto constant = [&](ValueId id) { return graph.value(id).constant(); };
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), constant)) return false;
    const uint64_t made = bytes_of(graph, node.outputs);
    return made <= limit || made <= bytes_of(graph, node.inputs);
}

void fold(Graph& graph, Node& node, values::ComputeBackend& backend) {
    std::vector<graph::Data> operands;
    for (const ValueId id : node.inputs) operands.push_back(graph.value(id).data);
    // the bytes stay where they are, perhaps in a mapped file
    std::vector<graph::Data> results = is(node, "reshape") ? std::vector<graph::Data>{operands.at(0)}
                                                           : execute_node(graph, node, operands, backend);
    for (size_t o = 0; o < results.size(); ++o) graph.value(node.outputs[o]).data = std::move(results[o]);
    node.inputs.clear();
    node.outputs.clear();
}

}  // namespace

void fold_constants(Graph& graph, const Options& options) {
    const bool in_floats = is_float(options.precision);
    for (Node& node : graph.nodes) {
        if (is(node, "dequantize") && !in_floats) continue;  // the model's own steps, which int8 keeps
        if (foldable(graph, node, options.largest_folded)) fold(graph, node, options.backend);
    }
    graph::remove_unused(graph);
}

}  // namespace kpu::passes
