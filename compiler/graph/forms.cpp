#include "compiler/graph/forms.hpp"

#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"

namespace kpu::graph {

namespace {

/// Users of a value: nobody so far, one form, or all.
struct Need {
    enum class Of : uint8_t { nobody, form, all } of = Of::nobody;
    uint32_t form = 0;

    void add(const Need& other) {
        if (other.of == Of::nobody) return;
        const bool same = of == Of::nobody || (of == other.of && form == other.form);
        *this = same ? other : Need{Of::all, 0};
    }
};

}  // namespace

void check_positions(const Graph& graph) {
    const Positions& of = graph.positions;
    const bool sound =
        of.count >= 0 && of.count <= INT32_MAX && of.step >= 1 && of.rows >= 1 && of.rows <= INT32_MAX;
    const int64_t last = of.count - 1, forms = sound ? of.forms() : 0;
    for (const Node& node : graph.nodes) {
        const bool chooses = is(node, "choose");
        if (!chooses && !is(node, "insert_rows")) continue;
        std::string problem;
        if (!sound || !of.any()) {
            problem = "the graph has no positions";
        } else if (chooses && (static_cast<int64_t>(node.inputs.size()) != forms ||
                               node.attrs.integer("index", 0) != forms - 1)) {
            problem = fmt::format("it has not {} forms, of which the last one has the index", forms);
        } else if (!chooses) {
            const Dims &whole = graph.value(node.inputs[0]).shape, &rows = graph.value(node.inputs[1]).shape;
            const size_t axis = axis_of(whole, node.attrs);
            if (rows[axis] != of.rows || node.attrs.integer("start", 0) != last)
                problem = fmt::format("it does not write {} rows at {}", of.rows, last);
        }
        if (!problem.empty())
            throw UserError(fmt::format(
                "{} ({}): {} of many positions: {}. Fix: say `positions COUNT step STEP rows ROWS` as "
                "its nodes have them.",
                node.source.name, node.source.type, node.spec().name, problem));
    }
}

std::vector<std::optional<uint32_t>> forms_of(const Graph& graph) {
    std::vector<std::optional<uint32_t>> result(graph.nodes.size());
    if (!graph.positions.any()) return result;
    std::vector<Need> needs(graph.values.size());
    for (const Port& port : graph.outputs) needs[port.value] = {Need::Of::all, 0};
    for (size_t n = graph.nodes.size(); n-- > 0;) {
        const Node& node = graph.nodes[n];
        Need need;
        for (const ValueId id : node.outputs) need.add(needs[id]);
        if (need.of == Need::Of::form) result[n] = need.form;
        for (size_t i = 0; i < node.inputs.size(); ++i)
            needs[node.inputs[i]].add(is(node, "choose") ? Need{Need::Of::form, static_cast<uint32_t>(i)}
                                                         : need);
    }
    return result;
}

}  // namespace kpu::graph
