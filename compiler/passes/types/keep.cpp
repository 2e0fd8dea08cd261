// Nodes that are kept in a float type of their own: casts where types meet.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/passes/match.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

/// True if it has the product of narrow factors whose sums stay f32.
bool has_wide_sums(const Graph& graph, const Node& node, ElemType narrow, const graph::Supports& supports) {
    const std::string_view form = node.spec().traits.sums_form;
    if (!graph::is_product(node.spec()) || form.empty() || !is_float(narrow)) return false;
    std::vector<ElemType> types{narrow, narrow};
    if (node.inputs.size() == 3) {
        if (!graph.value(node.inputs[2]).constant()) return false;
        types.push_back(ElemType::f32);
    }
    return graph::is_supported(supports, form, types, {ElemType::f32});
}

class Keeper {
  public:
    Keeper(Graph& graph, ElemType precision, const graph::Supports& supports)
        : rewriter_(graph), precision_(precision), supports_(supports), held_(graph.values.size(), false) {}

    std::vector<bool> run() {
        const size_t count = rewriter_.graph.nodes.size();
        bool any = false;
        for (const graph::Port& port : rewriter_.graph.inputs) {
            if (only_kept(port.value)) hold_input(port.value);
        }
        for (size_t n = 0; n < count; ++n) {
            const bool kept = is_kept(rewriter_.graph.nodes[n]);  // of which floats are perhaps only read
            any = hold(static_cast<NodeId>(n)) || kept || any;
        }
        if (any) {
            for (size_t n = 0; n < count; ++n) fit_operands(static_cast<NodeId>(n));
            sort_nodes(rewriter_.graph);
        }
        held_.resize(rewriter_.graph.values.size(), false);
        return std::move(held_);
    }

  private:
    graph::Value& value(ValueId id) { return rewriter_.graph.value(id); }
    bool is_kept(const Node& node) const { return node.kept != ElemType::none && node.kept != precision_; }
    bool is_float_node(const Node& node) {
        return std::any_of(node.outputs.begin(), node.outputs.end(),
                           [this](ValueId id) { return is_plain_float(value(id)); });
    }

    /// True if nodes that are kept in f32 alone read a value of that type, perhaps seen through views.
    bool only_kept(ValueId id) {
        const std::vector<NodeId>& users = rewriter_.users(id);
        if (!is_plain_float(value(id)) || value(id).elem != ElemType::f32 || rewriter_.is_output(id))
            return false;
        return !users.empty() && std::all_of(users.begin(), users.end(), [this](NodeId user) {
            const Node& node = rewriter_.graph.nodes[user];
            if (is_kept(node)) return node.kept == ElemType::f32;
            return node.spec().traits.reorders &&
                   graph::takes_floats(rewriter_.graph, node, ElemType::f32, supports_) &&
                   only_kept(node.outputs[0]);
        });
    }

    /// It is read as the host gives it.
    void hold_input(ValueId id) {
        held_[id] = true;
        for (const NodeId user : rewriter_.users(id)) {
            Node& node = rewriter_.graph.nodes[user];
            if (is_kept(node)) continue;
            node.kept = ElemType::f32;
            hold_input(node.outputs[0]);
        }
    }

    /// Gives the results of a kept node their type.
    bool hold(NodeId id) {
        if (!is_kept(rewriter_.graph.nodes[id]) || !is_float_node(rewriter_.graph.nodes[id])) return false;
        if (!graph::takes_floats(rewriter_.graph, rewriter_.graph.nodes[id], rewriter_.graph.nodes[id].kept,
                                 supports_))
            accumulate(id);
        for (const ValueId out : rewriter_.graph.nodes[id].outputs) {
            if (!is_plain_float(value(out))) continue;
            value(out).elem = rewriter_.graph.nodes[id].kept;
            held_[out] = true;
        }
        return true;
    }

    /// Accumulates a product of narrow factors whose sums are f32: what a device without f32 products can do.
    void accumulate(NodeId id) {
        const Node node = rewriter_.graph.nodes[id];
        rewriter_.replace_node(id, node.spec().traits.sums_form, node.inputs, node.attrs);
        sums_.insert(id);
    }

    /// Casts operands that have another type than the node reads; constants get a copy.
    void fit_operands(NodeId id) {
        Node node = rewriter_.graph.nodes[id];
        if (node.spec().name == "cast") return;
        const bool floats = is_float_node(node) || is_kept(node);
        const ElemType wanted = floats && is_kept(node) ? node.kept : precision_;
        bool changed = false;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ElemType elem = sums_.count(id) > 0 ? (i < 2 ? precision_ : ElemType::f32) : wanted;
            const ValueId fitting = in_type(node.inputs[i], elem, node.source);
            changed = changed || fitting != node.inputs[i];
            node.inputs[i] = fitting;
        }
        if (changed) rewriter_.replace_node(id, node.spec().name, node.inputs, node.attrs);
    }

    ValueId in_type(ValueId id, ElemType elem, const graph::Source& source) {
        if (!is_plain_float(value(id))) return id;
        const ElemType has = held_[id] ? value(id).elem : precision_;
        if (has == elem) return id;
        const auto [found, is_new] = casts_.emplace(std::make_pair(id, elem), ValueId{0});
        if (!is_new) return found->second;
        if (value(id).constant()) {
            const graph::Value from = value(id);
            found->second = rewriter_.add_constant(from.name, elem, from.shape, rounded(from, elem));
        } else {
            found->second = rewriter_.add("cast", {id}, {}, {source, value(id).name, elem, {}});
        }
        held_.resize(rewriter_.graph.values.size(), false);
        held_[found->second] = true;
        return found->second;
    }

    Rewriter rewriter_;
    ElemType precision_;
    const graph::Supports& supports_;
    std::vector<bool> held_;
    std::set<NodeId> sums_;  ///< kept products whose sums alone are wide
    std::map<std::pair<ValueId, ElemType>, ValueId> casts_;
};

}  // namespace

bool can_keep(const Graph& graph, const Node& node, ElemType kept, ElemType precision,
              const graph::Supports& supports) {
    if (graph::takes_floats(graph, node, kept, supports)) return true;
    return kept == ElemType::f32 && has_wide_sums(graph, node, precision, supports);
}

void check_kept(const Graph& graph, ElemType precision, const graph::Supports& supports) {
    for (const Node& node : graph.nodes) {
        const bool floats = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [&](ValueId id) { return is_plain_float(graph.value(id)); });
        if (node.kept == ElemType::none || !floats || can_keep(graph, node, node.kept, precision, supports))
            continue;
        throw UserError(
            fmt::format("`{}` cannot be kept in {}: the device has no {} on it. Fix: leave it out, "
                        "or choose another type or device.",
                        node.source.name, name_of(node.kept), node.spec().name));
    }
}

std::vector<bool> hold_kept(Graph& graph, ElemType precision, const graph::Supports& supports) {
    check_kept(graph, precision, supports);
    return Keeper(graph, precision, supports).run();
}

}  // namespace kpu::passes
