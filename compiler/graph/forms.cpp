#include "compiler/graph/forms.hpp"

namespace kpu::graph {

namespace {

/// Who needs a value: nobody so far, one form, or all.
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
            needs[node.inputs[i]].add(
                node.spec().name == "choose" ? Need{Need::Of::form, static_cast<uint32_t>(i)} : need);
    }
    return result;
}

}  // namespace kpu::graph
