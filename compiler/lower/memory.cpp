#include "compiler/lower/memory.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "compiler/lower/placement.hpp"
#include "compiler/lower/wishes.hpp"

namespace kpu::lower {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

bool is(const Node& node, std::string_view opcode) { return node.spec().name == opcode; }

bool ascending(const Node& slice) {
    const std::vector<int64_t>& steps = slice.attrs.find("steps")->ints;
    return std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step > 0; });
}

/// Rows of memory stay rows: the last dimension keeps its place.
bool keeps_rows(const Node& transpose) {
    const std::vector<int64_t>& perm = transpose.attrs.find("perm")->ints;
    return !perm.empty() && perm.back() == static_cast<int64_t>(perm.size()) - 1;
}

/// Makes nothing: its outputs are windows of its inputs' bytes, or the other way round.
bool renames(const Graph& graph, const Node& node) {
    if (graph.value(node.inputs[0]).constant()) return false;
    if (is(node, "transpose")) {
        const std::vector<int64_t>& perm = node.attrs.find("perm")->ints;
        return keeps_rows(node) && !std::is_sorted(perm.begin(), perm.end());  // the identity is a copy
    }
    return is(node, "reshape") || is(node, "split") || is(node, "concat") ||
           (is(node, "slice") && ascending(node));
}

bool dense(const Dims& shape, const Dims& strides) {
    int64_t expected = 1;
    for (size_t d = shape.rank; d-- > 0;) {
        if (shape[d] != 1 && strides[d] != expected) return false;
        expected *= shape[d];
    }
    return true;
}

/// Finds the view of every value, making storages as they are needed.
class Views {
  public:
    explicit Views(const Graph& graph)
        : graph_(graph), producers_(graph::producers(graph)), views_(graph.values.size()) {
        for (const graph::Port& port : graph.inputs) fixed_.push_back(port.value);
        for (const graph::Port& port : graph.outputs) fixed_.push_back(port.value);
        std::sort(fixed_.begin(), fixed_.end());
        for (NodeId n = 0; n < graph.nodes.size(); ++n) {
            if (is(graph.nodes[n], "concat")) find_sinks(graph.nodes[n]);
        }
    }

    /// Whether a concatenation's input can be written where the concatenation has it.
    bool sunk(const Node& concat, size_t input) const {
        const auto found = sinks_.find(concat.inputs[input]);
        return found != sinks_.end() && found->second.into == concat.outputs[0] &&
               found->second.input == input;
    }

    const View& view(ValueId value) {
        if (!views_[value]) views_[value] = make(value);
        return *views_[value];
    }
    std::vector<Storage>& storages() { return storages_; }

  private:
    struct Sink {
        ValueId into = 0;
        size_t input = 0;
        int64_t offset = 0;  ///< elements of the result's row-major shape along its axis
        size_t axis = 0;
    };

    void find_sinks(const Node& concat) {
        const size_t axis = axis_of(shape_of(graph_.value(concat.outputs[0])), concat.attrs);
        int64_t offset = 0;
        for (size_t i = 0; i < concat.inputs.size(); ++i) {
            const ValueId value = concat.inputs[i];
            const int32_t producer = producers_[value];
            const bool made = producer >= 0 && !renames(graph_, graph_.nodes[static_cast<size_t>(producer)]);
            const bool joined = producer >= 0 && is(graph_.nodes[static_cast<size_t>(producer)], "concat");
            const bool free =
                !std::binary_search(fixed_.begin(), fixed_.end(), value) && sinks_.count(value) == 0;
            if ((made || joined) && free) sinks_[value] = {concat.outputs[0], i, offset, axis};
            offset += shape_of(graph_.value(value))[axis];
        }
    }

    View make(ValueId value) {
        if (const auto sink = sinks_.find(value); sink != sinks_.end()) {
            View result = view(sink->second.into);
            result.offset += sink->second.offset * result.strides[sink->second.axis];
            return result;
        }
        const int32_t producer = producers_[value];
        if (producer >= 0) {
            const Node& node = graph_.nodes[static_cast<size_t>(producer)];
            if (renames(graph_, node) && !is(node, "concat")) return renamed(node, value);
        }
        return stored(value);
    }

    View stored(ValueId id) {
        const graph::Value& value = graph_.value(id);
        Storage storage;
        storage.name = value.name;
        storage.elem = value.elem;
        storage.bytes = std::max<uint64_t>(1, packed_bytes(value.elem, value.elements()));
        storages_.push_back(std::move(storage));
        return {static_cast<uint32_t>(storages_.size() - 1), 0, row_major(shape_of(value))};
    }

    View renamed(const Node& node, ValueId value) {
        const View from = view(node.inputs[0]);
        const Dims x = shape_of(graph_.value(node.inputs[0])), y = shape_of(graph_.value(value));
        View result = from;
        if (is(node, "reshape")) {
            result.strides = row_major(y);
        } else if (is(node, "transpose")) {
            const std::vector<int64_t>& perm = node.attrs.find("perm")->ints;
            for (size_t d = 0; d < perm.size(); ++d)
                result.strides[d] = from.strides[static_cast<size_t>(perm[d])];
        } else if (is(node, "slice")) {
            const std::vector<SliceRange> ranges = slice_ranges(x, node.attrs);
            for (size_t d = 0; d < x.rank; ++d) {
                result.offset += ranges[d].first * from.strides[d];
                result.strides[d] = from.strides[d] * ranges[d].step;
            }
        } else {  // split
            const size_t axis = axis_of(x, node.attrs);
            for (const ValueId output : node.outputs) {
                if (output == value) break;
                result.offset += shape_of(graph_.value(output))[axis] * from.strides[axis];
            }
        }
        return result;
    }

    const Graph& graph_;
    std::vector<int32_t> producers_;
    std::vector<ValueId> fixed_;  ///< inputs and outputs of the graph, sorted
    std::map<ValueId, Sink> sinks_;
    std::vector<std::optional<View>> views_;
    std::vector<Storage> storages_;
};

Node copy_of(Graph& graph, ValueId value, const graph::Source& source) {
    std::vector<int64_t> perm;
    for (int64_t d = 0; d < shape_of(graph.value(value)).rank; ++d) perm.push_back(d);
    graph::NodeOptions options;
    options.source = source;
    options.output = graph.value(value).name + ".copy";
    options.quant = graph.value(value).quant;
    return graph.make_node("transpose", {value}, graph::attributes({graph::ints("perm", std::move(perm))}),
                           std::move(options));
}

class Planner {
  public:
    Planner(const Graph& graph, GroupList groups, const Room& room, const MappingWishes& wishes)
        : graph_(graph), wishes_(wishes), views_(graph), room_(room) {
        plan_.groups = std::move(groups.ranges);
        plan_.internal = std::move(groups.internal);
    }

    MemoryPlan run() {
        plan_.views.resize(graph_.values.size());
        for (const graph::Port& port : graph_.inputs) keep(port.value).input = true;
        for (ValueId id = 0; id < graph_.values.size(); ++id) {
            if (!graph_.value(id).constant() && !plan_.internal[id]) plan_.views[id] = views_.view(id);
        }
        find_lifetimes();
        for (const graph::Port& port : graph_.outputs) {
            if (!graph_.value(port.value).constant()) keep(port.value).output = true;
        }
        plan_.storages = views_.storages();
        find_wishes();
        count_traffic();
        place(plan_, wished_, room_);
        return std::move(plan_);
    }

  private:
    Storage& keep(ValueId value) { return views_.storages()[views_.view(value).storage]; }

    /// Group of each node; nodes that only rename count to the next group.
    std::vector<uint32_t> group_of() const {
        std::vector<uint32_t> result(graph_.nodes.size(), 0);
        uint32_t group = 0;
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            while (group < plan_.groups.size() && n >= plan_.groups[group].last) ++group;
            result[n] = group;
        }
        return result;
    }

    void find_lifetimes() {
        const std::vector<uint32_t> groups = group_of();
        std::vector<Storage>& storages = views_.storages();
        for (Storage& storage : storages) storage.first = std::numeric_limits<uint32_t>::max();
        const auto touch = [&](ValueId id, uint32_t group) {
            if (graph_.value(id).constant() || plan_.internal[id]) return;
            Storage& storage = storages[plan_.views[id].storage];
            storage.first = std::min(storage.first, group);
            storage.last = std::max(storage.last, group);
        };
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            if (renames(graph_, graph_.nodes[n])) continue;
            for (const ValueId id : graph_.nodes[n].inputs) touch(id, groups[n]);
            for (const ValueId id : graph_.nodes[n].outputs) touch(id, groups[n]);
        }
        for (Storage& storage : storages) {
            if (storage.input || storage.first > storage.last) storage.first = 0;
        }
    }

    void count_traffic() {
        for (const NodeRange& group : plan_.groups) {
            for (NodeId n = group.first; n < group.last; ++n) {
                for (const auto* list : {&graph_.nodes[n].inputs, &graph_.nodes[n].outputs}) {
                    for (const ValueId id : *list) {
                        const graph::Value& value = graph_.value(id);
                        if (value.constant() || plan_.internal[id]) continue;
                        plan_.storages[plan_.views[id].storage].traffic +=
                            packed_bytes(value.elem, value.elements());
                    }
                }
            }
        }
    }

    /// What a group makes for others goes where its operation's wish says.
    void find_wishes() {
        wished_.assign(plan_.storages.size(), Home::none);
        if (wishes_.empty()) return;
        for (const NodeRange& group : plan_.groups) {
            for (NodeId n = group.first; n < group.last; ++n) {
                const Home wish = wishes_.output_of(graph_.nodes[group.first]);
                for (const ValueId id : graph_.nodes[n].outputs) {
                    if (!plan_.internal[id] && wish != Home::none) wished_[plan_.views[id].storage] = wish;
                }
            }
        }
    }
    const Graph& graph_;
    const MappingWishes& wishes_;
    std::vector<Home> wished_;  ///< by storage
    Views views_;
    Room room_;
    MemoryPlan plan_;
};

}  // namespace

GroupList groups_of(const Graph& graph) {
    GroupList result;
    const std::vector<Node>& nodes = graph.nodes;
    for (NodeId n = 0; n < nodes.size();) {
        NodeId last = n + 1;
        while (nodes[n].group != 0 && last < nodes.size() && nodes[last].group == nodes[n].group) ++last;
        if (last > n + 1 || !renames(graph, nodes[n])) result.ranges.push_back({n, last});
        n = last;
    }
    result.internal.assign(graph.values.size(), false);
    const std::vector<std::vector<NodeId>> users = graph::users(graph);
    std::vector<bool> output(graph.values.size(), false);
    for (const graph::Port& port : graph.outputs) output[port.value] = true;
    for (const NodeRange& group : result.ranges) {
        for (NodeId n = group.first; n < group.last; ++n) {
            for (const ValueId id : nodes[n].outputs) {
                const auto inside = [&](NodeId user) { return user >= group.first && user < group.last; };
                // what nobody reads of a kernel is its own memory
                const bool scratch = kernels::find(nodes[n].opcode) != nullptr;
                result.internal[id] = !output[id] && (scratch || !users[id].empty()) &&
                                      std::all_of(users[id].begin(), users[id].end(), inside);
            }
        }
    }
    return result;
}

void insert_copies(Graph& graph) {
    std::vector<Node> nodes = std::move(graph.nodes);
    graph.nodes.clear();
    Graph whole = graph;
    whole.nodes = nodes;
    Views views(whole);
    for (Node& node : nodes) {
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId value = node.inputs[i];
            bool copy = is(node, "concat") && !views.sunk(node, i);
            if (is(node, "reshape") && !graph.value(value).constant() && value < whole.values.size())
                copy = !dense(shape_of(graph.value(value)), views.view(value).strides);
            if (!copy) continue;
            graph.nodes.push_back(copy_of(graph, value, node.source));
            node.inputs[i] = graph.nodes.back().outputs[0];
        }
        graph.nodes.push_back(std::move(node));
    }
}

MemoryPlan plan_memory(const Graph& graph, GroupList groups, const Room& room, const MappingWishes& wishes) {
    return Planner(graph, std::move(groups), room, wishes).run();
}

}  // namespace kpu::lower
