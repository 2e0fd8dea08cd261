#include "compiler/graph/macs.hpp"

namespace kpu::graph {

uint64_t macs_of(const Graph& graph, const Node& node) {
    if (node.spec().macs == nullptr) return 0;
    const Value &x = graph.value(node.inputs[0]), &w = graph.value(node.inputs[1]);
    const uint64_t shown =
        node.spec().macs(x.shape, w.shape, graph.value(node.outputs[0]).elements(), node.attrs);
    return static_cast<uint64_t>(node.attrs.integer(own_macs, static_cast<int64_t>(shown)));
}

void set_macs(Node& node, uint64_t macs) {
    for (BoundAttr& attribute : node.attrs.list) {
        if (attribute.name == own_macs) {
            attribute.integer = static_cast<int64_t>(macs);
            return;
        }
    }
    node.attrs.list.push_back(integer(std::string(own_macs), static_cast<int64_t>(macs)));
}

}  // namespace kpu::graph
