#pragma once
// Products of floats that get another form, one node at a time.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/supports.hpp"

namespace kpu::quantize {

/// Calls `rewrite(node)`, which appends what stands for it, for each product of floats that may change and for which
/// `why_not(node)` is empty; other nodes stay. Result: the products that stay, with the reason.
template <class WhyNot, class Rewrite>
std::vector<std::string> rewrite_products(graph::Graph& graph, const WhyNot& why_not,
                                          const Rewrite& rewrite) {
    std::vector<graph::Node> old = std::move(graph.nodes);
    graph.nodes.clear();
    std::vector<std::string> in_floats;
    for (graph::Node& node : old) {
        const bool product = graph::is_product(node.spec()) && node.kept == ElemType::none &&
                             is_float(graph.value(node.inputs[0]).elem);
        const std::string_view reason = product ? why_not(node) : "";
        if (product && reason.empty()) {
            rewrite(node);
            continue;
        }
        if (product)
            in_floats.push_back(fmt::format("{} ({}): {}", node.source.name, node.spec().name, reason));
        graph.nodes.push_back(std::move(node));
    }
    return in_floats;
}

}  // namespace kpu::quantize
