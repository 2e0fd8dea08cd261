// Scales and shifts of the output channels go into weights and bias: computed in binary64, rounded once.
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/passes/affine.hpp"
#include "compiler/passes/passes.hpp"

namespace kpu::passes {
namespace {

bool all_finite(const std::vector<double>& numbers) {
    for (const double number : numbers) {
        if (!std::isfinite(number)) return false;
    }
    return true;
}

/// Returns W[..., c] * scale[c].
ValueId scaled_weights(Rewriter& rewriter, ValueId weights, const std::vector<double>& scale) {
    const graph::Value& w = rewriter.graph.value(weights);
    std::vector<double> elements = graph::numbers(w);
    for (size_t i = 0; i < elements.size(); ++i) elements[i] *= scale[i % scale.size()];
    graph::Data data = graph::make_numbers(w.elem, elements);
    return rewriter.add_constant(w.name, w.elem, Dims(w.shape), std::move(data));
}

bool fold(Rewriter& rewriter, NodeId id) {
    const auto product = product_at(rewriter, id);
    if (!product || !rewriter.graph.value(product->weights).constant()) return false;
    std::vector<double> scale(product->bias.size(), 1.0), shift = product->bias;
    ValueId value = rewriter.graph.nodes[id].outputs[0];
    NodeId last = id;
    bool scales = false;
    while (const auto next = affine_behind(rewriter, value)) {
        for (size_t c = 0; c < scale.size(); ++c) {
            scale[c] *= next->scale[c];
            shift[c] = shift[c] * next->scale[c] + next->shift[c];
        }
        scales = scales || next->scales;
        last = next->node;
        value = rewriter.graph.nodes[last].outputs[0];
    }
    if (!scales || !all_finite(scale) || !all_finite(shift)) return false;
    const ValueId weights = scaled_weights(rewriter, product->weights, scale);
    replace_product(rewriter, last, *product, weights, shift);
    return true;
}

}  // namespace

void fold_batch_norm(Graph& graph, const Options&) {
    Rewriter rewriter(graph);
    apply_rules(rewriter, {fold});
    rewriter.finish();
}

}  // namespace kpu::passes
