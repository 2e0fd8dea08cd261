#include "compiler/tile_op/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/kernels/operations.hpp"
#include "compiler/tile_op/tile_op.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

bool ascending(const Node& slice) {
    const std::vector<int64_t>& steps = slice.attrs.find("steps")->ints;
    return std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step > 0; });
}

/// True if rows of memory stay rows: the last dimension keeps its place.
bool keeps_rows(const Node& transpose) {
    const std::vector<int64_t>& perm = transpose.attrs.find("perm")->ints;
    return !perm.empty() && perm.back() == static_cast<int64_t>(perm.size()) - 1;
}

}  // namespace

bool joins(const Node& node) { return node.spec().traits.shares == Shares::output; }

bool renames(const Graph& graph, const Node& node) {
    const Traits& traits = node.spec().traits;
    if (traits.shares == Shares::nothing || graph.value(node.inputs[0]).constant()) return false;
    if (traits.needs == Needs::permuted) {
        const std::vector<int64_t>& perm = node.attrs.find("perm")->ints;
        return keeps_rows(node) && !std::is_sorted(perm.begin(), perm.end());  // the identity is a copy
    }
    return traits.needs != Needs::sliced || ascending(node);
}

GroupList groups_of(const Graph& graph) {
    GroupList result;
    const std::vector<Node>& nodes = graph.nodes;
    std::set<std::string> names;
    std::map<std::string, int> count;  ///< indexed by name of the source
    const auto unique = [&](const std::string& source) {
        for (int& number = count[source];;) {
            std::string name = ++number == 1 ? source : fmt::format("{}:{}", source, number);
            if (names.insert(name).second) return name;
        }
    };
    std::map<std::string, std::string> striped;  ///< names of what is cut, by that of the source
    const auto name_of = [&](const Node& node) {
        if (node.strips == 0) return unique(node.source.name);
        std::string& name = striped[node.source.name];
        if (name.empty()) name = unique(node.source.name);
        return name;
    };
    for (NodeId n = 0; n < nodes.size();) {
        NodeId last = n + 1;
        while (nodes[n].group != 0 && last < nodes.size() && nodes[last].group == nodes[n].group) ++last;
        if (last > n + 1 || !renames(graph, nodes[n])) result.ranges.push_back({n, last, name_of(nodes[n])});
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

}  // namespace kpu::compiler
