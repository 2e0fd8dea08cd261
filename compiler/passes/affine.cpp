#include "compiler/passes/affine.hpp"

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::passes {

std::optional<Product> product_at(const Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!graph::is_product(node.spec()) || node.spec().transposed) return {};
    const graph::Value &w = graph.value(node.inputs[1]), &y = graph.value(node.outputs[0]);
    if (!is_plain_float(w) || !is_plain_float(y)) return {};
    Product product{id, node.inputs[1], {}, node.inputs.size() > 2};
    product.bias.assign(static_cast<size_t>(y.shape[y.shape.rank - 1U]), 0.0);
    if (!product.has_bias) return product;
    const auto bias = along_last(graph.value(node.inputs[2]), y.shape);
    if (!bias) return {};
    product.bias = *bias;
    return product;
}

std::optional<Affine> affine_behind(const Rewriter& rewriter, ValueId value) {
    const Graph& graph = rewriter.graph;
    if (rewriter.users(value).size() != 1 || rewriter.is_output(value)) return {};
    Affine result{rewriter.users(value)[0], {}, {}, false};
    const Node& node = graph.nodes[result.node];
    if (!is_any(node, {"add", "sub", "mul", "div"})) return {};
    const graph::Value &x = graph.value(value), &y = graph.value(node.outputs[0]);
    const bool first = node.inputs[0] == value;
    const auto c = along_last(graph.value(node.inputs[first ? 1 : 0]), y.shape);
    if (!c || !(x.shape == y.shape) || x.elem != y.elem) return {};
    result.scale.assign(c->size(), 1.0);
    result.shift.assign(c->size(), 0.0);
    result.scales = is_any(node, {"mul", "div"});
    if (is(node, "div") && !first) return {};
    for (size_t i = 0; i < c->size(); ++i) {
        const double number = (*c)[i];
        if (is(node, "mul")) result.scale[i] = number;
        if (is(node, "div")) result.scale[i] = 1 / number;
        if (is(node, "add")) result.shift[i] = number;
        if (is(node, "sub")) {
            result.scale[i] = first ? 1 : -1;
            result.shift[i] = first ? -number : number;
        }
    }
    result.scales = result.scales || (is(node, "sub") && !first);
    return result;
}

void replace_product(Rewriter& rewriter, NodeId last, const Product& product, ValueId weights,
                     const std::vector<double>& bias) {
    Graph& graph = rewriter.graph;
    Node old = graph.nodes[product.node];
    const graph::Value& w = graph.value(product.weights);
    const ElemType elem = product.has_bias ? graph.value(old.inputs[2]).elem : w.elem;
    const std::string name = product.has_bias ? graph.value(old.inputs[2]).name : w.name + "/bias";
    const ValueId vector = rewriter.add_constant(name, elem, graph::dims({static_cast<int64_t>(bias.size())}),
                                                 graph::make_numbers(elem, bias));
    std::swap(graph.nodes[last].source, graph.nodes[product.node].source);
    const std::string_view opcode = is(old, "matmul") ? "gemm" : old.spec().name;
    become(rewriter, last, opcode, {old.inputs[0], weights, vector}, old.attrs);
}

}  // namespace kpu::passes
