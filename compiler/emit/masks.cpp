#include "compiler/emit/masks.hpp"

#include <algorithm>

#include "compiler/graph/data.hpp"

namespace kpu::compiler {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

bool is_any(const Node& node, std::initializer_list<std::string_view> opcodes) {
    return std::find(opcodes.begin(), opcodes.end(), node.spec().name) != opcodes.end();
}

/// True if the node, given minus infinity, makes what it makes of a very low number.
bool absorbs(const Node& node) {
    return is_any(node, {"softmax", "exp", "sigmoid", "relu", "tanh", "clamp", "hard_sigmoid"});
}

bool is_positive_constant(const graph::Value& value) {
    if (!value.constant() || !is_float(value.elem) || value.quant) return false;
    const std::vector<double> numbers = graph::numbers(value);
    return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number > 0; });
}

/// True if a very low operand makes low results, and minus infinity minus infinity.
bool passes(const Graph& graph, const Node& node, ValueId id) {
    if (node.spec().op_class == OpcodeClass::view) return true;
    if (is_any(node, {"add", "max", "min", "maxpool", "reduce_max", "cast"})) return true;
    const size_t at =
        static_cast<size_t>(std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin());
    if (is_any(node, {"where"})) return at > 0;
    if (is_any(node, {"sub"})) return at == 0;
    if (is_any(node, {"mul", "div"})) return at == 0 && is_positive_constant(graph.value(node.inputs[1]));
    return false;
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

bool is_never_low(const Node& node) { return is_any(node, {"softmax", "exp", "sigmoid", "relu"}); }

}  // namespace kpu::compiler
