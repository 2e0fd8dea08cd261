#include "compiler/passes/layouts/layouts.hpp"

#include <algorithm>
#include <numeric>

#include "compiler/graph/data.hpp"

namespace kpu::passes {
namespace {

bool one_element(const graph::Value& value) { return value.elements() == 1; }

/// Operands of elementwise nodes that are broadcast from a lower rank follow the node only as constants.
bool broadcasts_freely(const Graph& graph, const Node& node, size_t rank) {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
        const graph::Value& value = graph.value(id);
        return value.shape.rank == rank || value.constant() || one_element(value);
    });
}

bool works_in_any_order(const Graph& graph, const Node& node) {
    const Traits& traits = node.spec().traits;
    const size_t rank = graph.value(node.outputs[0]).shape.rank;
    if (rank < 2 || !traits.any_order) return false;
    if (traits.elementwise) return broadcasts_freely(graph, node, rank);
    return traits.needs != Needs::reduced || node.attrs.integer("keepdims", 0) != 0;
}

}  // namespace

Perm identity(size_t rank) {
    Perm result(rank);
    std::iota(result.begin(), result.end(), 0);
    return result;
}

Perm compose(const Perm& a, const Perm& b) {
    Perm result;
    for (const int i : b) result.push_back(a[static_cast<size_t>(i)]);
    return result;
}

Layouts::Layouts(const Graph& graph, bool host_layout)
    : graph_(graph),
      roots_(graph.values.size()),
      relations_(graph.values.size()),
      free_(graph.nodes.size(), false),
      orders_(graph.nodes.size()),
      classes_(graph.values.size()),
      free_readers_(graph.values.size()),
      component_of_(graph.nodes.size(), -1) {
    relate();
    find_free_nodes();
    count_fixed_readers(host_layout);
    for (const Class& c : classes_) {
        const Cost cost = cost_of(c);
        cost_.moved += cost.moved;
        cost_.early += cost.early;
    }
}

void Layouts::relate() {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
        const graph::Value& value = graph_.value(id);
        roots_[id] = id;
        relations_[id] = identity(value.shape.rank);
        classes_[id].bits = value.elements() * static_cast<uint64_t>(bit_width(value.elem));
        classes_[id].costs = !value.constant();
        classes_[id].produced_order = code(id, relations_[id]);
    }
    for (const Node& node : graph_.nodes) {
        if (!is(node, "transpose")) continue;
        roots_[node.outputs[0]] = roots_[node.inputs[0]];
        relations_[node.outputs[0]] = compose(relations_[node.inputs[0]], perm_of(node));
    }
}

void Layouts::find_free_nodes() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        const Node& node = graph_.nodes[id];
        if (is(node, "transpose") || !works_in_any_order(graph_, node)) continue;
        free_[id] = true;
        orders_[id] = identity(graph_.value(node.outputs[0]).shape.rank);
        for (const ValueId output : node.outputs) classes_[output].producer = static_cast<int32_t>(id);
    }
}

bool Layouts::follows(NodeId id, size_t operand) const {
    const Node& node = graph_.nodes[id];
    if (node.spec().traits.vectors && operand > 0) return false;  // vectors along the axis
    const graph::Value& value = graph_.value(node.inputs[operand]);
    return value.shape.rank == graph_.value(node.outputs[0]).shape.rank;
}

void Layouts::count_fixed_readers(bool host_layout) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        const Node& node = graph_.nodes[id];
        if (is(node, "transpose")) continue;
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId operand = node.inputs[i];
            const bool follower = free_[id] && follows(id, i);
            wish(operand, identity(graph_.value(operand).shape.rank), 1, follower);
            if (follower) free_readers_[roots_[operand]].push_back(id);
        }
    }
    if (host_layout) {
        for (const graph::Port& port : graph_.inputs) classes_[port.value].produced = false;
    } else {
        for (const graph::Port& port : graph_.outputs)
            wish(port.value, identity(graph_.value(port.value).shape.rank), 1, false);
    }
}

/// Orders that differ only in where dimensions of size 1 stand have the same code.
uint64_t Layouts::code(ValueId root, const Perm& order) const {
    const Dims& shape = graph_.value(root).shape;
    uint64_t result = 1;
    for (const int d : order) {
        if (shape[static_cast<size_t>(d)] != 1) result = result << 4 | static_cast<uint64_t>(d);
    }
    return result;
}

Layouts::Cost Layouts::cost_of(const Class& c) const {
    Cost cost;
    if (!c.costs) return cost;
    uint64_t other = 0, early = 0;
    for (const Wish& w : c.wishes) {
        if (c.produced && w.order == c.produced_order) continue;
        ++other;
        early += w.free_readers > 0 ? 1 : 0;
    }
    if (!c.produced && other > 0) {  // the host makes one of them
        --other;
        early -= early > 0 ? 1 : 0;
    }
    cost.moved = other * c.bits;
    cost.early = early * c.bits;
    return cost;
}

void Layouts::wish(ValueId value, const Perm& order, int readers, bool free) {
    const ValueId root = roots_[value];
    std::vector<Wish>& wishes = classes_[root].wishes;
    const Perm of_class = compose(relations_[value], order);
    const uint64_t wanted = code(root, of_class);
    auto at = std::find_if(wishes.begin(), wishes.end(), [&](const Wish& w) { return w.order == wanted; });
    if (at == wishes.end()) at = wishes.insert(wishes.end(), Wish{wanted, 0, 0, of_class});
    at->readers += static_cast<uint32_t>(readers);
    if (free) at->free_readers += static_cast<uint32_t>(readers);
    if (at->readers == 0) wishes.erase(at);
}

Perm Layouts::node_order(const Edge& edge, const Perm& order) const {
    return compose(graph::inverse(relations_[edge.value]), order);
}

std::vector<Layouts::Edge> Layouts::edges(NodeId id) const {
    const Node& node = graph_.nodes[id];
    std::vector<Edge> result;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (follows(id, i)) result.push_back({node.inputs[i], false});
    }
    for (const ValueId output : node.outputs) result.push_back({output, true});
    return result;
}

void Layouts::set_order(NodeId id, const Perm& order) {
    const std::vector<Edge> around = edges(id);
    std::vector<ValueId> touched;
    for (const Edge& edge : around) touched.push_back(roots_[edge.value]);
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (const ValueId root : touched) {
        const Cost cost = cost_of(classes_[root]);
        cost_.moved -= cost.moved;
        cost_.early -= cost.early;
    }
    for (const Edge& edge : around) {
        if (edge.made) {
            classes_[edge.value].produced_order = code(edge.value, order);
        } else {
            wish(edge.value, orders_[id], -1, true);
            wish(edge.value, order, 1, true);
        }
    }
    orders_[id] = order;
    for (const ValueId root : touched) {
        const Cost cost = cost_of(classes_[root]);
        cost_.moved += cost.moved;
        cost_.early += cost.early;
    }
}

/// The numbers of a reduction along several axes are summed up in the same order as before.
bool Layouts::allowed(NodeId id, const Perm& order) const {
    const Node& node = graph_.nodes[id];
    if (node.spec().traits.needs != Needs::reduced) return true;
    const Perm places = graph::inverse(order);
    std::vector<int64_t> axes = ints_of(node, "axes");
    for (int64_t& axis : axes) axis = static_cast<int64_t>(from_front(axis, order.size()));
    std::sort(axes.begin(), axes.end());
    int last = -1;
    for (const int64_t axis : axes) {
        const int place = places[static_cast<size_t>(axis)];
        if (place < last) return false;
        last = place;
    }
    return true;
}

bool Layouts::try_orders(const std::vector<std::pair<NodeId, Perm>>& orders) {
    std::vector<std::pair<NodeId, Perm>> before;
    for (const auto& [node, order] : orders) {
        if (!allowed(node, order)) return false;
    }
    const Cost old = cost_;
    for (const auto& [node, order] : orders) {
        before.emplace_back(node, orders_[node]);
        set_order(node, order);
    }
    if (cost_ < old) return true;
    for (const auto& [node, order] : before) set_order(node, order);
    return false;
}

/// Orders in which one of the arrays around the node would need no transpose.
std::vector<Perm> Layouts::candidates(NodeId id) const {
    std::vector<Perm> result;
    const auto propose = [&](const Edge& edge, const Perm& of_class) {
        Perm order = node_order(edge, of_class);
        if (order != orders_[id] && std::find(result.begin(), result.end(), order) == result.end())
            result.push_back(std::move(order));
    };
    for (const Edge& edge : edges(id)) {
        const ValueId root = roots_[edge.value];
        const Class& c = classes_[root];
        if (!edge.made && c.produced)
            propose(edge, c.producer < 0 ? relations_[root] : orders_[static_cast<size_t>(c.producer)]);
        for (const Wish& w : c.wishes) propose(edge, w.example);
    }
    return result;
}

bool Layouts::improve(NodeId id) {
    for (const Perm& order : candidates(id)) {
        if (try_orders({{id, order}})) return true;
    }
    return false;
}

std::vector<std::pair<NodeId, Perm>> Layouts::spread(NodeId from, const Perm& order,
                                                     const Component& component) const {
    std::map<NodeId, Perm> found{{from, order}};
    std::vector<NodeId> waiting{from};
    while (!waiting.empty()) {
        const NodeId id = waiting.back();
        waiting.pop_back();
        const Perm own = found.at(id);
        const auto pass_on = [&](NodeId other, const Perm& of_class, ValueId root) {
            if (found.count(other) > 0 || component_of_[other] != component_of_[from]) return;
            for (const Edge& edge : edges(other)) {
                if (roots_[edge.value] != root) continue;
                found.emplace(other, node_order(edge, of_class));
                waiting.push_back(other);
                return;
            }
        };
        for (const Edge& edge : edges(id)) {
            const ValueId root = roots_[edge.value];
            const Perm of_class = class_order(edge, own);
            if (edge.made) {
                for (const NodeId reader : free_readers_[root]) pass_on(reader, of_class, root);
            } else if (classes_[root].producer >= 0) {
                pass_on(static_cast<NodeId>(classes_[root].producer), of_class, root);
            }
        }
    }
    std::vector<std::pair<NodeId, Perm>> result;
    for (const NodeId id : component) {
        const auto at = found.find(id);
        if (at != found.end() && at->second != orders_[id]) result.emplace_back(id, at->second);
    }
    return result;
}

/// Tries orders that edges of the component ask for, those of the largest arrays.
bool Layouts::improve(const Component& component) {
    constexpr size_t most_tries = 24;
    struct Try {
        uint64_t bits;
        NodeId node;
        Perm order;
    };
    std::vector<Try> tries;
    for (const NodeId id : component) {
        const uint64_t bits = classes_[graph_.nodes[id].outputs[0]].bits;
        for (Perm& order : candidates(id)) tries.push_back({bits, id, std::move(order)});
    }
    std::stable_sort(tries.begin(), tries.end(), [](const Try& a, const Try& b) { return a.bits > b.bits; });
    bool better = false;
    for (size_t i = 0; i < tries.size() && i < most_tries && cost_.moved > 0; ++i)
        better = try_orders(spread(tries[i].node, tries[i].order, component)) || better;
    return better;
}

/// Returns free nodes that read each other's results.
std::vector<Layouts::Component> Layouts::components() const {
    std::vector<NodeId> parent(graph_.nodes.size());
    std::iota(parent.begin(), parent.end(), 0);
    const auto top = [&](NodeId id) {
        while (parent[id] != id) id = parent[id] = parent[parent[id]];
        return id;
    };
    for (ValueId root = 0; root < classes_.size(); ++root) {
        if (classes_[root].producer < 0) continue;
        for (const NodeId reader : free_readers_[root])
            parent[top(reader)] = top(static_cast<NodeId>(classes_[root].producer));
    }
    std::map<NodeId, Component> groups;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
        if (free_[id]) groups[top(id)].push_back(id);
    }
    std::vector<Component> result;
    for (auto& [first, nodes] : groups) result.push_back(std::move(nodes));
    return result;
}

void Layouts::search() {
    if (cost_.moved == 0) return;
    const std::vector<Component> all = components();
    for (size_t c = 0; c < all.size(); ++c) {
        for (const NodeId id : all[c]) component_of_[id] = static_cast<int32_t>(c);
    }
    // each change lowers the cost, so this ends; the limit keeps strange graphs from taking long
    bool better = true;
    for (int round = 0; round < 8 && better && cost_.moved > 0; ++round) {
        better = false;
        for (const Component& component : all) better = improve(component) || better;
        for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
            if (free_[id] && cost_.moved > 0) better = improve(id) || better;
        }
    }
}

Perm Layouts::wanted_order(ValueId input) const {
    const std::vector<Wish>& wishes = classes_[input].wishes;
    const auto fewer = [](const Wish& a, const Wish& b) { return a.readers < b.readers; };
    const auto most = std::max_element(wishes.begin(), wishes.end(), fewer);
    return most == wishes.end() ? relations_[input] : most->example;
}

}  // namespace kpu::passes
