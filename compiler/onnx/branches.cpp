// If: the branch that is known at import, or both of them and a choice between their results.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/importer.hpp"
#include "compiler/passes/match.hpp"

namespace kpu::onnx {
namespace {

const GraphModel& branch_of(const NodeModel& node, std::string_view name) {
    const Attribute* branch = node.find(name);
    if (branch == nullptr || branch->graph == nullptr) throw Unsupported("it lacks a branch");
    return *branch->graph;
}

/// Says what nodes [first, end) of a graph cost.
std::string cost_of(const graph::Graph& graph, size_t first, size_t end) {
    uint64_t macs = 0;
    for (size_t n = first; n < end; ++n) {
        const graph::Node& node = graph.nodes[n];
        if (node.spec().macs == nullptr) continue;
        macs += node.spec().macs(graph.value(node.inputs[0]).shape, graph.value(node.inputs[1]).shape,
                                 graph.value(node.outputs[0]).elements(), node.attrs);
    }
    return fmt::format("{} operation{} ({} multiply-accumulates)", end - first, end - first == 1 ? "" : "s",
                       macs);
}

/// True if two constants are the same; large ones are not looked at.
bool same_constant(const Operand& a, const Operand& b) {
    constexpr int64_t most = 4096;
    if (!a.constant() || !b.constant()) return false;
    if (a.tensor != nullptr && a.tensor == b.tensor) return true;
    if (elements_of(a.shape) > most) return false;
    const Known one = a.known ? *a.known : known_of(*a.tensor),
                other = b.known ? *b.known : known_of(*b.tensor);
    return one.ints == other.ints && one.reals == other.reals;
}

/// Says why results of the branches cannot be chosen from while the network runs; empty: they can.
std::string unlike(const Operand& a, const Operand& b) {
    if (a.items != nullptr || b.items != nullptr) return "is a sequence";
    if (a.count || b.count) return "has a length that depends on data";
    if (a.type != b.type)
        return fmt::format("is {} in one branch and {} in the other", name_of(a.type), name_of(b.type));
    if (a.type == Type::undefined) return "is absent";
    if (a.shape != b.shape)
        return fmt::format("is {} in one branch and {} in the other", text_of(a.shape), text_of(b.shape));
    return "";
}

/// Returns `a` where the condition holds, else `b`.
Operand selected(Call& call, ValueId condition, Operand a, Operand b, const std::string& name) {
    if ((a.value && a.value == b.value) || same_constant(a, b)) return a;
    const ValueId x = call.value(a, name), y = call.value(b, name);
    const BoundQuant &steps = call.graph.value(x).quant, &others = call.graph.value(y).quant;
    if (!passes::same_quant(steps, others))
        Call::refuse(fmt::format(
            "its output `{}` has other quantisation steps in one branch than in the other", name));
    return call.operand(call.emit("where", {condition, x, y}, {}, call.elem(x), steps), a.type);
}

}  // namespace

/// Imports what a branch makes for each result of the node.
std::vector<Operand> Importer::import_branch(const NodeModel& node, const GraphModel& branch, Scope inner) {
    add_tensors(inner, branch);
    import_nodes(branch.nodes, inner);
    if (branch.outputs.size() < node.outputs.size())
        throw Unsupported("its branch makes fewer results than it has");
    std::vector<Operand> results;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
        const Operand* result = inner.find(branch.outputs[i].name);
        if (result == nullptr)
            throw Unsupported(fmt::format("its branch lacks `{}`", branch.outputs[i].name));
        results.push_back(*result);
    }
    return results;
}

void Importer::import_if(const NodeModel& node, Scope& scope, const graph::Source& source) {
    std::string lost;
    Call call(graph_, node, last_opset, source, operands(node, scope, lost));
    if (!lost.empty())
        throw Unsupported(fmt::format("not looked at: `{}` before it cannot be imported", lost));
    if (!call.in(0).constant()) return import_both(call, scope);
    const bool taken = call.number_of(0, "condition") != 0;
    const std::vector<Operand> results = import_branch(
        node, branch_of(node, taken ? "then_branch" : "else_branch"), scope.inside(source.name + "/"));
    for (size_t i = 0; i < results.size(); ++i) define(scope, node.outputs[i], results[i]);
}

/// Imports both branches, which are computed whatever the condition is.
void Importer::import_both(Call& call, Scope& scope) {
    const NodeModel& node = call.node;
    ValueId condition = call.value(0);
    const std::vector<std::string> inputs = inputs_behind(condition);
    bindable_.insert(inputs.begin(), inputs.end());  // until it is done
    if (call.type(0) != Type::boolean || elements_of(call.shape(0)) != 1)
        throw Unsupported("its condition is not one truth value");
    std::vector<Operand> results[2];
    std::string costs;
    for (const char* name : {"then_branch", "else_branch"}) {
        const size_t first = graph_.nodes.size();
        std::vector<Operand>& made = results[costs.empty() ? 0 : 1];
        made = import_branch(node, branch_of(node, name),
                             scope.inside(fmt::format("{}/{}/", call.source.name, name)));
        for (const Operand& result : made) {
            if (!result.lost.empty())
                throw Unsupported(
                    fmt::format("its condition is computed, so both branches have to be, and `{}` of "
                                "its {} cannot be imported",
                                result.lost, name));
        }
        costs += fmt::format("{}{} in its {}", costs.empty() ? "" : " and ",
                             cost_of(graph_, first, graph_.nodes.size()), name);
    }
    condition = call.reshape(condition, {});
    for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        const Operand &a = results[0][i], &b = results[1][i];
        if (const std::string reason = unlike(a, b); !reason.empty())
            throw Unsupported(
                fmt::format("its condition is computed, so both branches have to be, but its output `{}` {}",
                            node.outputs[i], reason));
        const size_t first = graph_.values.size();
        Operand result = selected(call, condition, a, b, node.outputs[i]);
        if (result.value && *result.value >= first && !graph_.taken(scope.prefix + node.outputs[i]))
            graph_.rename(*result.value, scope.prefix + node.outputs[i]);
        define(scope, node.outputs[i], std::move(result));
    }
    for (const std::string& name : inputs) bindable_.erase(name);
    note(fmt::format(
        "node `{}` (If): its condition is computed{}, so both branches are, {}, and the results of one "
        "are selected.{}",
        call.source.name, inputs.empty() ? "" : fmt::format(" from {}", quoted_list(inputs)), costs,
        inputs.empty() ? "" : fmt::format(" Fix: give {} where the value is known.", bind_options(inputs))));
}

/// Returns the inputs of the model that a value is computed from.
std::vector<std::string> Importer::inputs_behind(graph::ValueId value) const {
    const std::vector<int32_t> makers = graph::producers(graph_);
    std::vector<bool> seen(graph_.values.size(), false);
    std::vector<graph::ValueId> open{value};
    while (!open.empty()) {
        const graph::ValueId next = open.back();
        open.pop_back();
        if (seen[next]) continue;
        seen[next] = true;
        if (makers[next] < 0) continue;
        const graph::Node& maker = graph_.nodes[static_cast<size_t>(makers[next])];
        open.insert(open.end(), maker.inputs.begin(), maker.inputs.end());
    }
    std::vector<std::string> names;
    for (const graph::Port& port : graph_.inputs) {
        if (seen[port.value]) names.push_back(port.name);
    }
    return names;
}

}  // namespace kpu::onnx
