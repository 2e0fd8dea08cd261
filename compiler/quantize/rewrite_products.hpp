#pragma once
// Products of floats that get another form, one node at a time.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/supports.hpp"

namespace kpu::quantize {

/// Base of the rewriters of products: nodes that stand for them are appended in the order of the graph.
class ProductRewriter {
  public:
    explicit ProductRewriter(graph::Graph& graph)
        : graph_(graph), reads_(graph.values.size(), 0), outputs_(graph.values.size(), false) {
        for (const graph::Node& node : graph.nodes)
            for (const graph::ValueId id : node.inputs) ++reads_[id];
        for (const graph::Port& port : graph.outputs) outputs_[port.value] = true;
    }

  protected:
    /// Calls `rewrite(node)` for each product of floats that may change and for which `why_not(node)` is empty; other nodes
    /// stay. Result: the products that stay, with the reason.
    template <class WhyNot, class Rewrite>
    std::vector<std::string> rewrite_all(const WhyNot& why_not, const Rewrite& rewrite) {
        std::vector<graph::Node> old = std::move(graph_.nodes);
        graph_.nodes.clear();
        std::vector<std::string> in_floats;
        for (graph::Node& node : old) {
            const bool product = graph::is_product(node.spec()) && node.kept == ElemType::none &&
                                 is_float(value(node.inputs[0]).elem);
            const std::string_view reason = product ? why_not(node) : "";
            if (product && reason.empty()) {
                rewrite(node);
                continue;
            }
            if (product)
                in_floats.push_back(fmt::format("{} ({}): {}", node.source.name, node.spec().name, reason));
            graph_.nodes.push_back(std::move(node));
        }
        return in_floats;
    }

    graph::Value& value(graph::ValueId id) { return graph_.value(id); }

    graph::ValueId add(std::string_view opcode, std::vector<graph::ValueId> operands, BoundAttrs attrs,
                       ElemType elem) {
        return graph_.add_node(opcode, std::move(operands), std::move(attrs), {source_, "", elem, {}});
    }

    /// The f32 that the last node made become what the product made: in its type, but for an output that nobody else
    /// reads.
    void finish(const graph::Node& product, graph::ValueId sums) {
        const graph::ValueId out = product.outputs[0];
        const ElemType real = value(out).elem;
        const bool narrows = real != ElemType::f32 && !(outputs_[out] && reads_[out] == 0);
        if (narrows) add("cast", {sums}, {}, real);
        graph::Node& last = graph_.nodes.back();
        last.outputs = {out};
        last.absorbed = product.absorbed;
        value(out).elem = narrows ? real : ElemType::f32;
    }

    graph::Graph& graph_;
    graph::Source source_;  ///< source of the nodes that are added

  private:
    std::vector<uint32_t> reads_;
    std::vector<bool> outputs_;
};

}  // namespace kpu::quantize
