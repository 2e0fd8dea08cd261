#include "compiler/quantize/channel_classes.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

int64_t last_extent(const Value& value) {
    return value.shape.rank == 0 ? 1 : value.shape[value.shape.rank - 1U];
}

bool is_scalar_zero(const Value& value) {
    const std::vector<double> numbers = graph::numbers(value);
    return std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; });
}

class Finder {
  public:
    explicit Finder(const Graph& graph)
        : graph_(graph),
          users_(graph::users(graph)),
          parents_(graph.values.size()),
          of_(graph.values.size()) {
        std::iota(parents_.begin(), parents_.end(), ValueId{0});
        for (ValueId id = 0; id < of_.size(); ++id) of_[id].channels = last_extent(graph.value(id));
        for (const auto* ports : {&graph.inputs, &graph.outputs}) {
            for (const graph::Port& port : *ports) pin(port.value);
        }
    }

    std::vector<ChannelClass> run() {
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) visit(n);
        std::vector<ChannelClass> found;
        for (ValueId id = 0; id < of_.size(); ++id) {
            if (is_moving(id)) of_[root(id)].values.push_back(id);
        }
        for (ValueId id = 0; id < of_.size(); ++id) {
            if (root(id) != id || pinned_.count(id) > 0) continue;
            ChannelClass& one = of_[id];
            if (one.channels > 1 && !one.makers.empty() && !one.readers.empty())
                found.push_back(std::move(one));
        }
        return found;
    }

  private:
    bool is_moving(ValueId id) const {
        return is_float(graph_.value(id).elem) && !graph_.value(id).constant();
    }
    ValueId root(ValueId id) {
        while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
        return id;
    }
    void pin(ValueId id) { pinned_[root(id)] = true; }
    void pin_all(const Node& node) {
        for (const auto* list : {&node.inputs, &node.outputs}) {
            for (const ValueId id : *list) pin(id);
        }
    }
    void unite(ValueId a, ValueId b) {
        const ValueId from = root(a), to = root(b);
        if (from == to) return;
        parents_[from] = to;
        if (pinned_.count(from) > 0) pinned_[to] = true;
        ChannelClass &one = of_[to], &other = of_[from];
        one.channels = std::gcd(one.channels, other.channels);
        const auto move = [](auto& list, auto& more) { list.insert(list.end(), more.begin(), more.end()); };
        move(one.makers, other.makers);
        move(one.readers, other.readers);
        move(one.constants, other.constants);
        move(one.bounds, other.bounds);
    }

    void visit(NodeId n) {
        const Node& node = graph_.nodes[n];
        const Traits& traits = node.spec().traits;
        const bool together = traits.homogeneous == Homogeneous::together;
        const bool plain = node.kept == ElemType::none && node.outputs.size() == 1;
        if (plain && graph::is_product(node.spec())) return visit_product(n);
        if (plain && node.spec().name == "clamp") return visit_clamp(n);
        if (plain && together && traits.elementwise) return visit_join(node);
        if (plain && (node.spec().name == "mul" || node.spec().name == "div")) return visit_factor(node);
        if (plain && together && traits.needs == Needs::reduced) return visit_along_others(node);
        if (plain && is_homogeneous(node)) return unite(node.inputs[0], node.outputs[0]);
        pin_all(node);
    }

    /// True if f(s x) = s f(x) for s > 0, each channel alone.
    bool is_homogeneous(const Node& node) const {
        const Dims &x = graph_.value(node.inputs[0]).shape, &y = graph_.value(node.outputs[0]).shape;
        if (node.spec().traits.homogeneous != Homogeneous::first || x.rank == 0 || y.rank == 0 ||
            !is_moving(node.inputs[0]))
            return false;
        const bool same_channels = x.rank == y.rank && x[x.rank - 1U] == y[y.rank - 1U];
        switch (node.spec().traits.needs) {
            case Needs::place:  // further operands are factors of elements
                return node.inputs.size() == 1 || (graph_.value(node.inputs[1]).constant() && x == y);
            case Needs::resized:
                return same_channels;
            case Needs::padded:
                return same_channels && (node.attrs.word("mode", "constant") != "constant" ||
                                         node.attrs.real("constant_value", 0) == 0);
            case Needs::permuted: {
                const BoundAttr* perm = node.attrs.find("perm");
                return perm != nullptr && perm->ints.back() == x.rank - 1;
            }
            case Needs::sliced:
                return same_channels && !names_last(node, x.rank);
            default:
                return true;
        }
    }
    static bool names_last(const Node& node, int rank) {
        const BoundAttr* axes = node.attrs.find("axes");
        return axes == nullptr || std::any_of(axes->ints.begin(), axes->ints.end(), [rank](int64_t axis) {
                   return axis == -1 || axis == rank - 1;
               });
    }

    void visit_along_others(const Node& node) {
        if (names_last(node, graph_.value(node.inputs[0]).shape.rank)) return pin_all(node);
        unite(node.inputs[0], node.outputs[0]);
    }

    void visit_product(NodeId n) {
        const Node& node = graph_.nodes[n];
        const Value& weights = graph_.value(node.inputs[1]);
        const bool conv = node.spec().traits.needs == Needs::window && !node.spec().transposed;
        const bool matrix = node.spec().traits.needs == Needs::matrix && weights.shape.rank == 2;
        if (!(conv || matrix) || !is_own(node.inputs[1]) || !is_moving(node.inputs[0])) return pin_all(node);
        of_[root(node.inputs[0])].readers.push_back(n);
        of_[root(node.outputs[0])].makers.push_back(n);
        if (node.inputs.size() < 3) return;
        const Value& bias = graph_.value(node.inputs[2]);
        const bool vector = is_own(node.inputs[2]) &&
                            bias.elements() == static_cast<uint64_t>(last_extent(bias)) &&
                            last_extent(bias) == last_extent(weights);
        if (!vector) pin(node.outputs[0]);
    }

    /// True for a constant that can be changed for this node alone.
    bool is_own(ValueId id) const {
        const Value& value = graph_.value(id);
        return value.constant() && value.elem == ElemType::f32 && !value.quant && !value.blocks &&
               users_[id].size() == 1;
    }

    void visit_clamp(NodeId n) {
        const Node& node = graph_.nodes[n];
        if (node.attrs.real("min_val", -1) != 0 || !(node.attrs.real("max_val", 0) > 0)) return pin_all(node);
        unite(node.inputs[0], node.outputs[0]);
        of_[root(node.outputs[0])].bounds.push_back(n);
    }

    void visit_join(const Node& node) {
        const Value& out = graph_.value(node.outputs[0]);
        for (const ValueId id : node.inputs) {
            const Value& value = graph_.value(id);
            if (value.constant() && is_scalar_zero(value)) continue;
            if (!value.constant() && !is_moving(id)) return pin_all(node);  // integers that are computed
            if (last_extent(value) != last_extent(out) || (value.constant() && !is_own(id)))
                return pin_all(node);
        }
        for (const ValueId id : node.inputs) {
            if (is_moving(id)) {
                unite(id, node.outputs[0]);
            } else if (!is_scalar_zero(graph_.value(id))) {
                of_[root(node.outputs[0])].constants.push_back(id);
            }
        }
    }

    /// Refuses a factor for each channel, or for all: it is none of a class.
    void visit_factor(const Node& node) {
        const ValueId a = node.inputs[0], b = node.inputs[1], out = node.outputs[0];
        const uint64_t most = graph_.value(out).elements();
        const auto is_whole = [&](ValueId id) {
            return is_moving(id) && graph_.value(id).elements() == most &&
                   last_extent(graph_.value(id)) == last_extent(graph_.value(out));
        };
        const bool first = is_whole(a), second = is_whole(b) && node.spec().name == "mul";
        if (first == second) return pin_all(node);
        pin(first ? b : a);
        unite(first ? a : b, out);
    }

    const Graph& graph_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<ValueId> parents_;
    std::vector<ChannelClass> of_;    ///< for each value: of the class whose root it is
    std::map<ValueId, bool> pinned_;  ///< roots of what stays as it is
};

}  // namespace

std::vector<ChannelClass> channel_classes(const Graph& graph) { return Finder(graph).run(); }

int64_t input_channel(const Graph& graph, const Node& product, int64_t i, int64_t o) {
    if (product.spec().traits.needs != Needs::window) return i;
    const Dims& weights = graph.value(product.inputs[1]).shape;
    const int64_t inputs = last_extent(graph.value(product.inputs[0])), outputs = weights[weights.rank - 1U];
    const int64_t in_group = weights[weights.rank - 2U], groups = inputs / in_group;
    return o / (outputs / groups) * in_group + i;
}

}  // namespace kpu::quantize
