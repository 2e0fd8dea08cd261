// A graph in the orders of dimensions that layouts.hpp chose.
#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/passes/layouts/layouts.hpp"

namespace kpu::passes {
namespace {

class LayoutRewriter {
  public:
    LayoutRewriter(Graph& graph, const Layouts& layouts, bool host_layout)
        : graph_(graph), layouts_(layouts), host_layout_(host_layout), arrays_(graph.values.size()) {
        for (const graph::Value& value : graph.values) {
            shapes_.push_back(value.shape);
            quants_.push_back(value.quant);
        }
    }

    void run() {
        for (ValueId id = 0; id < shapes_.size(); ++id) {
            if (graph_.value(id).constant()) arrays_[id].stored.push_back({identity(shapes_[id].rank), id});
        }
        for (graph::Port& port : graph_.inputs) place_input(port);
        for (NodeId id = 0; id < graph_.nodes.size(); ++id) place_node(id);
        for (graph::Port& port : graph_.outputs) place_output(port);
        for (Array& array : arrays_) charge_vanished(array);
        graph_.nodes = std::move(nodes_);
        graph::remove_unused(graph_);
    }

  private:
    struct Stored {
        Perm order;  ///< dimension i of the value is dimension order[i] of the class
        ValueId value;
    };
    /// A class of values (layouts.hpp): the orders in which it exists.
    struct Array {
        std::vector<Stored> stored;
        std::vector<Node> transposes;  ///< transposes of the old graph, not used yet to name new ones
        int32_t maker = -1;            ///< in nodes_
        int32_t reader = -1;
    };

    Array& array_of(ValueId value) { return arrays_[layouts_.root(value)]; }

    /// Gives a value that is there another order of dimensions.
    void reorder(ValueId id, const Perm& order) {
        graph::Value& value = graph_.value(id);
        value.shape = graph::permuted(shapes_[id], order);
        value.quant = reordered(quants_[id], order);
    }

    static BoundQuant reordered(BoundQuant quant, const Perm& order) {
        if (quant && quant.kind != proto::Quant::PER_TENSOR)
            quant.axis = graph::inverse(order)[static_cast<size_t>(quant.axis)];
        return quant;
    }

    /// Returns the value that holds what `value` was, in this order of its dimensions.
    ValueId get(ValueId value, const Perm& order) {
        const Perm wanted = compose(layouts_.relation(value), order);
        Array& array = array_of(value);
        for (const Stored& s : array.stored) {
            if (s.order == wanted) return s.value;
        }
        if (array.stored.empty()) throw InternalError("layouts: a value is read before it is made");
        const Stored from = array.stored[0];
        const Perm perm = compose(graph::inverse(from.order), wanted);
        if (std::is_sorted(perm.begin(), perm.end())) return from.value;
        array.stored.push_back({wanted, transposed(array, from.value, perm)});
        return array.stored.back().value;
    }

    ValueId transposed(Array& array, ValueId from, const Perm& perm) {
        const graph::Value source = graph_.value(from);
        const BoundQuant quant = reordered(source.quant, perm);
        const Dims shape = graph::permuted(source.shape, perm);
        if (source.constant()) {
            graph::Data data =
                graph::permuted(source.data, graph::element_bytes(source.elem), source.shape, perm);
            return graph_.add_constant(source.name, source.elem, shape, std::move(data), quant);
        }
        // one that only moves dimensions of size 1 becomes a reshape in simplify
        graph::NodeOptions options;
        options.elem = source.elem;
        options.quant = quant;
        options.output = source.name;
        std::vector<graph::Source> absorbed;
        if (!array.transposes.empty()) {
            options.source = array.transposes.back().source;
            absorbed = array.transposes.back().absorbed;
            array.transposes.pop_back();
        } else {
            options.source = {source.name + "/transpose", "Transpose"};
        }
        const std::vector<int64_t> list(perm.begin(), perm.end());
        nodes_.push_back(
            graph_.make_node("transpose", {from}, graph::attributes({graph::ints("perm", list)}), options));
        nodes_.back().absorbed = std::move(absorbed);
        return nodes_.back().outputs[0];
    }

    void place_input(graph::Port& port) {
        const ValueId id = port.value;
        const Perm order = host_layout_ ? layouts_.wanted_order(id) : identity(shapes_[id].rank);
        reorder(id, order);
        set_host_order(port, order);
        arrays_[id].stored.push_back({order, id});
    }

    /// Sets the host's order: dimension i of the port's value is dimension order[i] of what it was.
    static void set_host_order(graph::Port& port, const Perm& order) {
        const Perm host = port.perm.empty() ? identity(order.size()) : port.perm;
        port.perm = compose(graph::inverse(order), host);
        if (std::is_sorted(port.perm.begin(), port.perm.end())) port.perm.clear();
    }

    void place_output(graph::Port& port) {
        const ValueId id = port.value;
        const Perm own = identity(shapes_[id].rank);
        if (!host_layout_ || graph_.value(id).constant()) {
            port.value = get(id, own);
            return;
        }
        const Stored& made = array_of(id).stored.at(0);
        port.value = made.value;
        set_host_order(port, compose(graph::inverse(layouts_.relation(id)), made.order));
    }

    void place_node(NodeId id) {
        Node node = std::move(graph_.nodes[id]);
        if (is(node, "transpose")) {
            array_of(node.inputs[0]).transposes.push_back(std::move(node));
            return;
        }
        const bool free = layouts_.free(id);
        const Perm order = free ? layouts_.order(id) : Perm{};
        if (free) adapt_attributes(node, order);
        const std::vector<ValueId> before = node.inputs;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const bool follows = free && follows_order(node, i);
            node.inputs[i] = follows ? get(before[i], order) : operand(node, before[i], order);
        }
        const auto place = static_cast<int32_t>(nodes_.size());
        for (const ValueId operand : before) {
            if (array_of(operand).reader < 0) array_of(operand).reader = place;
        }
        for (const ValueId output : node.outputs) {
            const Perm made = free ? order : identity(shapes_[output].rank);
            if (free) reorder(output, made);
            arrays_[output].stored.push_back({made, output});
            arrays_[output].maker = place;
        }
        nodes_.push_back(std::move(node));
    }

    bool follows_order(const Node& node, size_t operand) const {
        const bool vector = node.spec().traits.vectors && operand > 0;
        return !vector && shapes_[node.inputs[operand]].rank == shapes_[node.outputs[0]].rank;
    }

    /// Returns an operand that stays in its own order; constants that are broadcast get all dimensions, and
    /// follow.
    ValueId operand(const Node& node, ValueId id, const Perm& order) {
        const size_t rank = shapes_[id].rank;
        const bool broadcast = !order.empty() && is_elementwise(node) && graph_.value(id).constant() &&
                               graph_.value(id).elements() != 1;
        if (!broadcast || std::is_sorted(order.begin(), order.end())) return get(id, identity(rank));
        const graph::Value source = graph_.value(id);
        Dims whole;
        while (whole.rank + rank < order.size()) whole[whole.rank++] = 1;
        for (const int64_t size : source.shape) whole[whole.rank++] = size;
        BoundQuant quant = source.quant;
        if (quant && quant.kind != proto::Quant::PER_TENSOR)
            quant.axis += static_cast<int>(order.size() - rank);
        graph::Data data = graph::permuted(source.data, graph::element_bytes(source.elem), whole, order);
        return graph_.add_constant(source.name, source.elem, graph::permuted(whole, order), std::move(data),
                                   reordered(quant, order));
    }

    /// Adapts axis, axes, pads, sizes and scales to the dimensions of X.
    void adapt_attributes(Node& node, const Perm& order) const {
        const Perm places = graph::inverse(order);
        const auto moved = [&](int64_t axis) {
            return static_cast<int64_t>(places[from_front(axis, order.size())]);
        };
        for (BoundAttr& attr : node.attrs.list) {
            if (attr.name == "axis") attr.integer = moved(attr.integer);
            if (attr.name == "axes") {
                for (int64_t& axis : attr.ints) axis = moved(axis);
                if (node.spec().traits.needs == Needs::reduced) std::sort(attr.ints.begin(), attr.ints.end());
            }
            if (attr.name == "sizes") attr.ints = permuted(attr.ints, order);
            if (attr.name == "scales" && !attr.reals.empty()) attr.reals = permuted(attr.reals, order);
            if (attr.name == "pads") {
                const std::vector<int64_t> old = attr.ints;
                for (size_t i = 0; i < order.size(); ++i) {
                    const auto from = static_cast<size_t>(order[i]);
                    attr.ints[i] = old[from];
                    attr.ints[i + order.size()] = old[from + order.size()];
                }
            }
        }
    }

    template <typename T>
    static std::vector<T> permuted(const std::vector<T>& of, const Perm& order) {
        std::vector<T> result;
        for (const int d : order) result.push_back(of[static_cast<size_t>(d)]);
        return result;
    }

    /// Transposes that are no longer there count to the node beside them.
    void charge_vanished(const Array& array) {
        const int32_t into = array.maker >= 0 ? array.maker : array.reader;
        if (into < 0) return;
        for (const Node& gone : array.transposes) absorb(nodes_[static_cast<size_t>(into)], gone);
    }

    Graph& graph_;
    const Layouts& layouts_;
    bool host_layout_;
    std::vector<Dims> shapes_;  ///< shapes of the old graph
    std::vector<BoundQuant> quants_;
    std::vector<Array> arrays_;  ///< indexed by root
    std::vector<Node> nodes_;
};

}  // namespace

void rewrite_layouts(Graph& graph, const Layouts& layouts, bool host_layout) {
    LayoutRewriter(graph, layouts, host_layout).run();
}

}  // namespace kpu::passes
