#include "compiler/emit/masks.hpp"

#include <algorithm>

#include "compiler/graph/data.hpp"

namespace kpu::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// True if the node, given minus infinity, makes what it makes of a very low number.
bool absorbs(const Node& node) {
    const OfLow of_low = node.spec().traits.of_low;
    return of_low == OfLow::absorbed || of_low == OfLow::never_low;
}

bool is_positive_constant(const graph::Value& value) {
    if (!value.constant() || !is_float(value.elem) || value.quant) return false;
    const std::vector<double> numbers = graph::numbers(value);
    return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number > 0; });
}

/// True if a very low operand makes low results, and minus infinity minus infinity.
bool passes(const Graph& graph, const Node& node, ValueId id) {
    const auto found = std::find(node.inputs.begin(), node.inputs.end(), id);
    const auto at = static_cast<size_t>(found - node.inputs.begin());
    switch (node.spec().traits.of_low) {
        case OfLow::low:
            return operand_spec(node.spec().inputs, at).role != OperandRole::condition;
        case OfLow::low_of_first:
            return at == 0;
        case OfLow::low_if_positive:
            return at == 0 && is_positive_constant(graph.value(node.inputs[1]));
        default:
            return false;
    }
}

}  // namespace

std::vector<bool> masked_values(const Graph& graph) {
    std::vector<bool> masked(graph.values.size(), true), read(graph.values.size(), false);
    for (const graph::Port& port : graph.outputs) masked[port.value] = false;
    for (size_t n = graph.nodes.size(); n-- > 0;) {
        const Node& node = graph.nodes[n];
        const bool on = std::all_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return masked[id] && read[id]; });
        for (const ValueId id : node.inputs) {
            read[id] = true;
            masked[id] = masked[id] && (absorbs(node) || (on && passes(graph, node, id)));
        }
    }
    for (ValueId id = 0; id < masked.size(); ++id) masked[id] = masked[id] && read[id];
    return masked;
}

bool is_never_low(const Node& node) { return node.spec().traits.of_low == OfLow::never_low; }

}  // namespace kpu::compiler
