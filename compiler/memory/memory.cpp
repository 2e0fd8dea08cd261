#include "compiler/memory/memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/mapping/wishes.hpp"
#include "compiler/memory/placement.hpp"
#include "compiler/memory/views.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

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

    /// Returns the group of each node; nodes that only rename count to the next group.
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

    /// Drops the constants that found no place in L2.
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

    /// Finds the wished homes: what a group makes for others goes where its operation's wish says.
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
    std::vector<Home> wished_;  ///< indexed by storage
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
