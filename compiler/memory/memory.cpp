#include "compiler/memory/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "compiler/mapping/wishes.hpp"
#include "compiler/memory/placement.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// Strides with which a window shows its elements in another shape; nothing: they do not follow each other so.
std::optional<Dims> reshaped(const Dims& from, const Dims& strides, const Dims& to) {
    std::vector<std::pair<int64_t, int64_t>>
        runs;  // sizes and strides of dimensions, neighbours joined, the last one first
    for (size_t d = from.rank; d-- > 0;) {
        if (from[d] == 1) continue;
        if (!runs.empty() && runs.back().first * runs.back().second == strides[d]) {
            runs.back().first *= from[d];
        } else {
            runs.emplace_back(from[d], strides[d]);
        }
    }
    Dims result = row_major(to);
    size_t run = 0;
    int64_t inside = 1;  // elements of the run that dimensions behind this one show
    for (size_t d = to.rank; d-- > 0;) {
        if (to[d] == 1) continue;
        if (run < runs.size() && inside == runs[run].first) {
            ++run;
            inside = 1;
        }
        if (run == runs.size() || runs[run].first % (inside * to[d]) != 0) return std::nullopt;
        result[d] = runs[run].second * inside;
        inside *= to[d];
    }
    return result;
}

/// Whether a reshape only cuts dimensions: any window shows its elements so.
bool cuts_dimensions(const Dims& from, const Dims& to) {
    size_t d = 0;
    for (const int64_t size : from) {
        int64_t product = 1;
        while (product < size && d < to.rank) product *= to[d++];
        if (product != size) return false;
        while (d < to.rank && to[d] == 1) ++d;
    }
    return d == to.rank;
}

/// Finds the view of every value, making storages as they are needed.
class Views {
  public:
    explicit Views(const Graph& graph, const Room& room = {})
        : graph_(graph), producers_(graph::producers(graph)), room_(room), views_(graph.values.size()) {
        for (const graph::Port& port : graph.inputs) inputs_.insert(port.value);
        for (const graph::Port& port : graph.outputs) outputs_.insert(port.value);
        for (const Node& node : graph.nodes) {
            if (is(node, "concat")) find_sinks(node);
            if (is(node, "choose")) find_forms(node);
            if (is(node, "insert_rows")) find_rows(node);
        }
    }

    /// Whether a concatenation's input stands where the concatenation has it, or can be written there.
    bool sunk(const Node& concat, size_t input) {
        const auto found = sinks_.find(concat.inputs[input]);
        if (found != sinks_.end())
            return found->second.into == concat.outputs[0] && found->second.input == input;
        const auto whole = updated_.find(concat.outputs[0]);
        return whole != updated_.end() && slice_of(concat.inputs[input]) == whole->second;
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
        int64_t per_position = 0;  ///< the same, further for each position
    };

    bool made(ValueId value) const {
        const int32_t producer = producers_[value];
        if (producer < 0 || is_fixed(value)) return false;
        const Node& node = graph_.nodes[static_cast<size_t>(producer)];
        return joins(node) || !renames(graph_, node);
    }

    /// What a reshape shows, if it can be made in the place that is meant for the result.
    std::optional<ValueId> behind(ValueId value) const {
        const int32_t producer = producers_[value];
        if (producer < 0 || is_fixed(value)) return std::nullopt;
        const Node& node = graph_.nodes[static_cast<size_t>(producer)];
        if (!is(node, "reshape")) return std::nullopt;
        const ValueId x = node.inputs[0];
        const bool open = made(x) && sinks_.count(x) == 0 && shown_.count(x) == 0;
        const Dims from = shape_of(graph_.value(value)), to = shape_of(graph_.value(x));
        return open && cuts_dimensions(from, to) ? std::optional(x) : std::nullopt;
    }

    bool is_fixed(ValueId value) const { return inputs_.count(value) > 0 || outputs_.count(value) > 0; }

    // ---- caches: what the host gives, with something behind it or in it, goes back to the host in the same bytes

    /// The value that a slice shows a part of.
    std::optional<ValueId> slice_of(ValueId value) const {
        const int32_t producer = producers_[value];
        if (producer < 0) return std::nullopt;
        const Node& node = graph_.nodes[static_cast<size_t>(producer)];
        return is(node, "slice") ? std::optional(node.inputs[0]) : std::nullopt;
    }

    /// An input that becomes the result when something is written into it: everybody reads what stays, at its place.
    std::optional<ValueId> updated_by(const Node& concat, size_t axis) const {
        const Dims whole = shape_of(graph_.value(concat.outputs[0]));
        std::optional<ValueId> updated;
        std::set<ValueId> parts;
        int64_t at = 0;
        for (const ValueId part : concat.inputs) {
            const Dims shape = shape_of(graph_.value(part));
            if (const std::optional<ValueId> x = slice_of(part); x && inputs_.count(*x) > 0) {
                const Node& slice = graph_.nodes[static_cast<size_t>(producers_[part])];
                const SliceRange range = slice_ranges(shape_of(graph_.value(*x)), slice.attrs)[axis];
                const bool there =
                    range.first == at && range.step == 1 && shape_of(graph_.value(*x)) == whole;
                if (!there || (updated && *updated != *x) || outputs_.count(*x) > 0) return std::nullopt;
                updated = x;
                parts.insert(part);
            }
            at += shape[axis];
        }
        if (!updated) return std::nullopt;
        for (const Node& node : graph_.nodes) {
            const bool reads = std::count(node.inputs.begin(), node.inputs.end(), *updated) > 0;
            if (reads && parts.count(node.outputs[0]) == 0) return std::nullopt;
        }
        return updated;
    }

    void find_sinks(const Node& concat) {
        const size_t axis = axis_of(shape_of(graph_.value(concat.outputs[0])), concat.attrs);
        const bool output = outputs_.count(concat.outputs[0]) > 0;
        if (const std::optional<ValueId> x = output ? updated_by(concat, axis) : std::nullopt) {
            updated_[concat.outputs[0]] = *x;
            sinks_[*x] = {concat.outputs[0], concat.inputs.size(), 0, axis};
        }
        int64_t offset = 0;
        for (size_t i = 0; i < concat.inputs.size(); ++i) {
            const ValueId value = concat.inputs[i];
            const std::optional<ValueId> x = behind(value);
            const bool given = output && inputs_.count(value) > 0 && outputs_.count(value) == 0;
            if (((made(value) && shown_.count(value) == 0) || x || given) && sinks_.count(value) == 0) {
                sinks_[value] = {concat.outputs[0], i, offset, axis};
                if (x) shown_.emplace(*x, value);
            }
            offset += shape_of(graph_.value(value))[axis];
        }
    }

    /// All forms of a value stand where it does: one of them is computed.
    void find_forms(const Node& choose) {
        for (size_t i = 0; i < choose.inputs.size(); ++i) {
            const ValueId value = choose.inputs[i];
            const std::optional<ValueId> x = behind(value);
            if (!x && !(made(value) && shown_.count(value) == 0)) continue;
            if (!sinks_.emplace(value, Sink{choose.outputs[0], i, 0, 0, 0}).second) continue;
            if (x) shown_.emplace(*x, value);
        }
    }

    /// New rows go to the place in a cache that the position says: it becomes the result, if nobody else reads it.
    void find_rows(const Node& insert) {
        const ValueId cache = insert.inputs[0], rows = insert.inputs[1], whole = insert.outputs[0];
        const size_t axis = axis_of(shape_of(graph_.value(whole)), insert.attrs);
        const bool of_host =
            inputs_.count(cache) > 0 && outputs_.count(cache) == 0 && outputs_.count(whole) > 0;
        const auto reads = [&](const Node& node) {
            return &node != &insert && std::count(node.inputs.begin(), node.inputs.end(), cache) > 0;
        };
        const bool alone = std::none_of(graph_.nodes.begin(), graph_.nodes.end(), reads);
        if (alone && (of_host || (made(cache) && shown_.count(cache) == 0)))
            sinks_.emplace(cache, Sink{whole, 0, 0, axis, 0});
        if (made(rows) && shown_.count(rows) == 0) sinks_.emplace(rows, Sink{whole, 1, 0, axis, 1});
    }

    View make(ValueId value) {
        if (const auto sink = sinks_.find(value); sink != sinks_.end()) {
            View result = view(sink->second.into);
            result.offset += sink->second.offset * result.strides[sink->second.axis];
            result.per_position += sink->second.per_position * result.strides[sink->second.axis];
            return result;
        }
        if (const auto shown = shown_.find(value); shown != shown_.end()) {
            View result = view(shown->second);
            const Dims from = shape_of(graph_.value(shown->second)), to = shape_of(graph_.value(value));
            result.strides = *reshaped(from, result.strides, to);
            return result;
        }
        const int32_t producer = producers_[value];
        if (producer >= 0) {
            const Node& node = graph_.nodes[static_cast<size_t>(producer)];
            if (renames(graph_, node) && !joins(node)) return renamed(node, value);
        }
        return stored(value);
    }

    View stored(ValueId id) {
        const graph::Value& value = graph_.value(id);
        Storage storage;
        storage.name = value.name;
        storage.elem = value.elem;
        storage.bytes = std::max<uint64_t>(1, packed_bytes(value.elem, value.elements()));
        View view{static_cast<uint32_t>(storages_.size()), 0, row_major(shape_of(value))};
        if (const std::optional<Dims> apart = rows_apart(id)) {
            view.strides = *apart;
            storage.bytes += storage.bytes / row_bytes(value) * static_cast<uint64_t>(room_.channel);
        }
        storages_.push_back(std::move(storage));
        return view;
    }

    static uint64_t row_bytes(const graph::Value& value) {
        const Dims shape = shape_of(value);
        return static_cast<uint64_t>(shape[shape.rank - 1U] * bit_width(value.elem) / 8);
    }

    /// Strides of a matrix that L2 cannot hold and whose rows would all begin in the same channel of DRAM: parts of them,
    /// which products read, would lie in few of the channels. Rows begin in one after the other, if every reader can see
    /// them so.
    std::optional<Dims> rows_apart(ValueId id) {
        const graph::Value& value = graph_.value(id);
        const Dims shape = shape_of(value);
        int64_t rows = 1;
        bool matrix = true;  // no other dimensions: pixels, whose channels are short rows, follow each other
        for (size_t d = 0; d + 1 < shape.rank; ++d) {
            matrix = matrix && (shape[d] == 1 || rows == 1);
            rows *= shape[d];
        }
        constexpr int64_t long_row = 2;
        const bool in_ddr = packed_bytes(value.elem, value.elements()) > room_.l2;
        const bool alike = in_ddr && room_.channel > 0 && room_.channel < room_.all_channels && rows > 1 &&
                           matrix && bit_width(value.elem) >= 8 && !is_fixed(id) &&
                           static_cast<int64_t>(row_bytes(value)) >= long_row * room_.all_channels &&
                           static_cast<int64_t>(row_bytes(value)) % room_.all_channels == 0;
        if (!alike) return std::nullopt;
        Dims strides = row_major(shape);
        const int64_t length = shape[shape.rank - 1U];
        for (size_t d = 0; d + 1 < shape.rank; ++d)
            strides[d] = strides[d] / length * (length + room_.channel * 8 / bit_width(value.elem));
        return can_be_seen(id, {0, 0, strides}) ? std::optional(strides) : std::nullopt;
    }

    bool can_be_seen(ValueId id, const View& view) {
        if (users_.empty()) users_ = graph::users(graph_);
        for (const NodeId user : users_[id]) {
            const Node& node = graph_.nodes[user];
            if (!renames(graph_, node) || joins(node)) continue;
            const Dims x = shape_of(graph_.value(id));
            for (const ValueId y : node.outputs) {
                if (is_fixed(y)) return false;
                if (is(node, "reshape") && !reshaped(x, view.strides, shape_of(graph_.value(y))))
                    return false;
                if (!can_be_seen(y, renamed(node, y, view))) return false;
            }
        }
        return true;
    }

    View renamed(const Node& node, ValueId value) { return renamed(node, value, view(node.inputs[0])); }

    /// A value as a node that renames bytes shows it of its operand.
    View renamed(const Node& node, ValueId value, const View& from) const {
        const Dims x = shape_of(graph_.value(node.inputs[0])), y = shape_of(graph_.value(value));
        View result = from;
        if (is(node, "reshape")) {
            result.strides =
                reshaped(x, from.strides, y).value_or(row_major(y));  // else a copy will stand before it
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
    std::vector<std::vector<NodeId>> users_;  ///< empty: nobody has asked
    Room room_;
    std::set<ValueId> inputs_, outputs_;  ///< of the graph
    std::map<ValueId, ValueId> updated_;  ///< by concatenation: the input that it becomes
    std::map<ValueId, Sink> sinks_;
    std::map<ValueId, ValueId> shown_;  ///< of what is made where a reshape's result is: that result
    std::vector<std::optional<View>> views_;
    std::vector<Storage> storages_;
};

class Planner {
  public:
    Planner(const Graph& graph, GroupList groups, const Room& room, const MappingWishes& wishes)
        : graph_(graph), wishes_(wishes), views_(graph, room), room_(room) {
        plan_.groups = std::move(groups.ranges);
        plan_.internal = std::move(groups.internal);
    }

    MemoryPlan run(const std::vector<SharedConstant>& shared) {
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
        count_traffic();
        add(shared);
        find_wishes();
        place(plan_, wished_, room_);
        drop_constants();
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

    void add(const std::vector<SharedConstant>& shared) {
        for (const SharedConstant& of : shared) {
            Storage storage;
            storage.name = graph_.value(of.value).name;
            storage.elem = graph_.value(of.value).elem;
            storage.bytes = of.bytes, storage.traffic = of.traffic;
            storage.first = of.first, storage.last = of.last;
            storage.constant = true;
            plan_.shared[of.value] = static_cast<uint32_t>(plan_.storages.size());
            plan_.storages.push_back(std::move(storage));
        }
    }

    /// That found no place in L2: they have none.
    void drop_constants() {
        for (auto it = plan_.shared.begin(); it != plan_.shared.end();) {
            Storage& storage = plan_.storages[it->second];
            if (storage.home == Home::l2) {
                ++it;
                continue;
            }
            storage.first = 1, storage.last = 0;
            it = plan_.shared.erase(it);
        }
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
            if (storage.input) storage.first = 0;
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
                const Home wish = wishes_.of(group.name).output.value_or(Home::none);
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

std::vector<Dims> strides_at_home(const Graph& graph, const MemoryPlan& memory, const TileOp& op) {
    std::vector<Dims> strides;
    for (const TileOperand& operand : op.operands) {
        const bool window = operand.place != Place::internal && !graph.value(operand.value).constant();
        strides.push_back(window ? memory.views[operand.value].strides
                                 : row_major(shape_of(graph.value(operand.value))));
    }
    return strides;
}

const std::string& host_name(const graph::Graph& graph, const MemoryPlan& memory, graph::ValueId id) {
    for (const auto* ports : {&graph.inputs, &graph.outputs}) {
        for (const graph::Port& port : *ports) {
            if (port.value == id) return port.name;
        }
    }
    const graph::Value& value = graph.value(id);
    if (value.constant() || memory.internal[id]) return value.name;
    for (const auto* ports : {&graph.inputs, &graph.outputs}) {  // a part of one has no tensor of its own
        for (const graph::Port& port : *ports) {
            if (graph.value(port.value).constant()) continue;
            if (memory.views[port.value].storage == memory.views[id].storage) return port.name;
        }
    }
    return value.name;
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
            bool copy = joins(node) && !views.sunk(node, i);
            if (is(node, "reshape") && !graph.value(value).constant() && value < whole.values.size())
                copy = !reshaped(shape_of(graph.value(value)), views.view(value).strides,
                                 shape_of(graph.value(node.outputs[0])));
            if (!copy) continue;
            graph::Source source = node.source;
            if (node.strips == 0) source.name += "/copy";  // strips are one operation, with their copies
            graph.nodes.push_back(copy_of(graph, value, source));
            graph.nodes.back().strips = node.strips;
            node.inputs[i] = graph.nodes.back().outputs[0];
        }
        graph.nodes.push_back(std::move(node));
    }
}

MemoryPlan plan_memory(const Graph& graph, GroupList groups, const Room& room, const MappingWishes& wishes,
                       const std::vector<SharedConstant>& shared) {
    return Planner(graph, std::move(groups), room, wishes).run(shared);
}

uint64_t ddr_traffic(const Graph& graph, const MemoryPlan& memory) {
    const auto in_ddr = [&](ValueId id) {
        if (graph.value(id).constant()) return true;
        return !memory.internal[id] && memory.storages[memory.views[id].storage].home != Home::l2;
    };
    uint64_t sum = 0;
    for (const NodeRange& group : memory.groups) {
        for (NodeId n = group.first; n < group.last; ++n) {
            for (const auto* list : {&graph.nodes[n].inputs, &graph.nodes[n].outputs}) {
                for (const ValueId id : *list) {
                    const graph::Value& value = graph.value(id);
                    if (in_ddr(id)) sum += packed_bytes(value.elem, value.elements());
                }
            }
        }
    }
    return sum;
}

}  // namespace kpu::compiler
