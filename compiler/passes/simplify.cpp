// Removes what changes nothing: identities, doubled nodes, views of views.
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>

#include "base/diagnostics.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// Returns a key: nodes of one key compute the same.
std::string key_of(const Graph& graph, const Node& node) {
    std::string key = fmt::format("{} {}", node.opcode, fmt::join(node.inputs, ","));
    for (const BoundAttr& attr : node.attrs.list) {
        key += fmt::format(" {}:{}:{:a}:{}:{}:{}:{}", attr.name, attr.integer, attr.real,
                           fmt::join(attr.ints, ","), fmt::join(attr.reals, ","), attr.text,
                           static_cast<int>(attr.type));
    }
    for (const ValueId output : node.outputs) {
        const graph::Value& value = graph.value(output);
        key += fmt::format(" {}:{}", static_cast<int>(value.elem), static_cast<int>(value.quant.kind));
    }
    return key;
}

bool same_results(const Graph& graph, const Node& a, const Node& b) {
    for (size_t o = 0; o < a.outputs.size(); ++o) {
        if (!same_quant(graph.value(a.outputs[o]).quant, graph.value(b.outputs[o]).quant)) return false;
    }
    return true;
}

/// Merges nodes that compute the same. In order, so that what reads merged values merges too.
void merge_doubles(Rewriter& rewriter) {
    Graph& graph = rewriter.graph;
    std::map<std::string, NodeId> first;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!rewriter.alive(id)) continue;
        const auto [at, fresh] = first.emplace(key_of(graph, graph.nodes[id]), id);
        if (fresh || !same_results(graph, graph.nodes[at->second], graph.nodes[id])) continue;
        absorb(graph.nodes[at->second], graph.nodes[id]);
        const std::vector<ValueId> kept = graph.nodes[at->second].outputs, gone = graph.nodes[id].outputs;
        for (size_t o = 0; o < gone.size(); ++o) rewriter.replace(gone[o], kept[o]);
        rewriter.remove(id);
    }
}

/// Removes the makers of values that nobody needs any more; they went into `into` (-1: nowhere).
void sweep(Rewriter& rewriter, std::vector<ValueId> unread, int32_t into) {
    while (!unread.empty()) {
        const ValueId value = unread.back();
        unread.pop_back();
        const int32_t maker = rewriter.producer_id(value);
        if (maker < 0 || maker == into) continue;
        const Node node = rewriter.graph.nodes[static_cast<size_t>(maker)];
        const auto unneeded = [&](ValueId id) {
            return rewriter.users(id).empty() && !rewriter.is_output(id);
        };
        if (!std::all_of(node.outputs.begin(), node.outputs.end(), unneeded)) continue;
        if (into >= 0) absorb(rewriter.graph.nodes[static_cast<size_t>(into)], node);
        rewriter.remove(static_cast<NodeId>(maker));
        unread.insert(unread.end(), node.inputs.begin(), node.inputs.end());
    }
}

}  // namespace

void apply_rules(Rewriter& rewriter, const std::vector<Rule>& rules) {
    std::deque<NodeId> waiting;
    for (NodeId id = 0; id < rewriter.graph.nodes.size(); ++id) waiting.push_back(id);
    // far more than any terminating set of rules needs
    uint64_t left = 1000 + 200 * uint64_t{rewriter.graph.nodes.size()};
    while (!waiting.empty()) {
        const NodeId id = waiting.front();
        waiting.pop_front();
        if (left-- == 0) throw InternalError("passes: rules do not come to an end");
        if (!rewriter.alive(id)) continue;
        const std::vector<ValueId> outputs = rewriter.graph.nodes[id].outputs;
        std::vector<NodeId> near;
        for (const ValueId output : outputs)
            near.insert(near.end(), rewriter.users(output).begin(), rewriter.users(output).end());
        const size_t before = rewriter.graph.nodes.size();
        bool changed = false;
        for (const Rule rule : rules) changed = changed || rule(rewriter, id);
        if (!changed) continue;
        for (size_t added = before; added < rewriter.graph.nodes.size(); ++added)
            waiting.push_back(static_cast<NodeId>(added));
        waiting.push_back(id);
        waiting.insert(waiting.end(), near.begin(), near.end());
    }
}

void replace_by(Rewriter& rewriter, NodeId id, ValueId value) {
    const Node node = rewriter.graph.nodes[id];
    rewriter.replace(node.outputs[0], value);
    rewriter.remove(id);
    const int32_t maker = rewriter.producer_id(value);
    if (maker >= 0) absorb(rewriter.graph.nodes[static_cast<size_t>(maker)], node);
    sweep(rewriter, node.inputs, maker);
}

void become(Rewriter& rewriter, NodeId id, std::string_view opcode, std::vector<ValueId> operands,
            BoundAttrs attrs) {
    const std::vector<ValueId> before = rewriter.graph.nodes[id].inputs;
    rewriter.replace_node(id, opcode, std::move(operands), std::move(attrs));
    sweep(rewriter, before, static_cast<int32_t>(id));
}

void simplify(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    merge_doubles(rewriter);
    std::vector<Rule> rules = arithmetic_rules;
    for (const std::vector<Rule>* more : {&view_rules, &product_rules})
        rules.insert(rules.end(), more->begin(), more->end());
    apply_rules(rewriter, rules);
    rewriter.finish();
}

}  // namespace kpu::passes
