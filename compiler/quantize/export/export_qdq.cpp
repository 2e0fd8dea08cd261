#include "compiler/quantize/export/export_qdq.hpp"

#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

const Exports& exports() {
    static const Exports table = [] {
        Exports t;
        export_elementwise(t);
        export_products(t);
        export_views(t);
        export_rows(t);
        export_pictures(t);
        export_kernels(t);
        return t;
    }();
    return table;
}

}  // namespace

std::string export_qdq(const graph::Graph& graph) {
    OnnxWriter writer(graph.name);
    ExportedValues values(graph, writer);
    for (const graph::Port& port : graph.inputs) values.add_input(port);
    for (const graph::Node& node : graph.nodes) {
        ExportedNode exported(graph, node, values, writer);
        const auto found = exports().find(exported.spec.name);
        if (found == exports().end())
            exported.refuse(
                std::string(exported.spec.name) + " is made for the device alone, ONNX has no operator of it",
                "leave --export-qdq out");
        found->second(exported);
    }
    for (const graph::Port& port : graph.outputs) values.add_output(port);
    return writer.bytes();
}

}  // namespace kpu::quantize
