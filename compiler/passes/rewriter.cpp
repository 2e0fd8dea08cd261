#include "compiler/passes/rewriter.hpp"

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu::passes {

Rewriter::Rewriter(Graph& g)
    : graph(g), producers_(graph::producers(g)), users_(graph::users(g)), output_uses_(g.values.size(), 0) {
    for (const graph::Port& port : g.outputs) ++output_uses_[port.value];
}

bool Rewriter::read_only_by(ValueId id, NodeId node) const {
    const std::vector<NodeId>& readers = users_[id];
    return !is_output(id) && !readers.empty() &&
           std::all_of(readers.begin(), readers.end(), [node](NodeId reader) { return reader == node; });
}

void Rewriter::grow() {
    producers_.resize(graph.values.size(), -1);
    users_.resize(graph.values.size());
    output_uses_.resize(graph.values.size(), 0);
}

void Rewriter::link(NodeId id) {
    grow();
    for (const ValueId operand : graph.nodes[id].inputs) users_[operand].push_back(id);
    for (const ValueId output : graph.nodes[id].outputs) producers_[output] = static_cast<int32_t>(id);
}

void Rewriter::unlink(NodeId id) {
    for (const ValueId operand : graph.nodes[id].inputs) {
        std::vector<NodeId>& readers = users_[operand];
        readers.erase(std::find(readers.begin(), readers.end(), id));
    }
    for (const ValueId output : graph.nodes[id].outputs) producers_[output] = -1;
}

ValueId Rewriter::add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs,
                      graph::NodeOptions options) {
    const ValueId result = graph.add_node(opcode, std::move(operands), std::move(attrs), std::move(options));
    link(static_cast<NodeId>(graph.nodes.size() - 1));
    return result;
}

ValueId Rewriter::add_constant(std::string name, ElemType elem, const Dims& shape, graph::Data data,
                               BoundQuant quant) {
    const ValueId id = graph.add_constant(std::move(name), elem, shape, std::move(data), std::move(quant));
    grow();
    return id;
}

void Rewriter::replace_node(NodeId id, std::string_view opcode, std::vector<ValueId> operands,
                            BoundAttrs attrs) {
    unlink(id);
    Node& node = graph.nodes[id];
    node.opcode = kernels::find_spec(opcode).value();
    node.inputs = std::move(operands);
    node.attrs = std::move(attrs);
    link(id);
}

void Rewriter::replace(ValueId from, ValueId to) {
    for (const NodeId reader : users_[from]) {
        std::vector<ValueId>& operands = graph.nodes[reader].inputs;
        *std::find(operands.begin(), operands.end(), from) = to;  // once for each time it is listed
        users_[to].push_back(reader);
    }
    users_[from].clear();
    for (graph::Port& port : graph.outputs) {
        if (output_uses_[from] == 0) break;
        if (port.value != from) continue;
        port.value = to;
        --output_uses_[from];
        ++output_uses_[to];
    }
}

void Rewriter::remove(NodeId id) {
    unlink(id);
    graph.nodes[id].inputs.clear();
    graph.nodes[id].outputs.clear();
}

void Rewriter::finish() {
    sort_nodes(graph);
    graph::remove_unused(graph);
}

void sort_nodes(Graph& graph) {
    enum : uint8_t { unseen, open, placed };
    const std::vector<int32_t> makers = graph::producers(graph);
    std::vector<uint8_t> state(graph.nodes.size(), unseen);
    std::vector<std::pair<size_t, size_t>> stack;  // node, next operand
    std::vector<Node> ordered;
    ordered.reserve(graph.nodes.size());
    for (size_t root = 0; root < graph.nodes.size(); ++root) {
        if (state[root] != unseen) continue;
        stack.emplace_back(root, 0);
        state[root] = open;
        while (!stack.empty()) {
            auto& [node, operand] = stack.back();
            if (operand == graph.nodes[node].inputs.size()) {
                state[node] = placed;
                ordered.push_back(std::move(graph.nodes[node]));
                stack.pop_back();
                continue;
            }
            const int32_t maker = makers[graph.nodes[node].inputs[operand++]];
            if (maker < 0 || state[static_cast<size_t>(maker)] == placed) continue;
            if (state[static_cast<size_t>(maker)] == open) throw InternalError("graph: a cycle");
            state[static_cast<size_t>(maker)] = open;
            stack.emplace_back(maker, 0);
        }
    }
    graph.nodes = std::move(ordered);
}

namespace {
void absorb_source(Node& into, const graph::Source& source) {
    const auto same = [&](const graph::Source& other) { return other.name == source.name; };
    if (source.name.empty() || same(into.source)) return;
    if (std::none_of(into.absorbed.begin(), into.absorbed.end(), same)) into.absorbed.push_back(source);
}
}  // namespace

void absorb(Node& into, const Node& from) {
    absorb_source(into, from.source);
    for (const graph::Source& source : from.absorbed) absorb_source(into, source);
}

}  // namespace kpu::passes
