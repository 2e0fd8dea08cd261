// A constant vector that is added to a product becomes its third operand.
#include "compiler/passes/affine.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

bool take_bias(Rewriter& rewriter, NodeId id) {
    const auto product = product_at(rewriter, id);
    if (!product) return false;
    const auto next = affine_behind(rewriter, rewriter.graph.nodes[id].outputs[0]);
    if (!next || next->scales) return false;
    std::vector<double> bias = product->bias;
    for (size_t c = 0; c < bias.size(); ++c) bias[c] += next->shift[c];
    replace_product(rewriter, next->node, *product, product->weights, bias);
    return true;
}

}  // namespace

void add_bias(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    apply_rules(rewriter, {take_bias});
    rewriter.finish();
}

}  // namespace kpu::passes
