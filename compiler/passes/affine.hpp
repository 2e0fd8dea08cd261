#pragma once
// Products followed by arithmetic with constants of the output channels: what batch norm and bias are.
#include <optional>
#include <vector>

#include "compiler/passes/rules.hpp"

namespace kpu::passes {

/// A product of floats whose weights are constant: channel c of its result is the sum of products with W[..., c]
/// plus bias[c].
struct Product {
    NodeId node = 0;
    ValueId weights = 0;
    std::vector<double> bias;  ///< zeros where it has none
    bool has_bias = false;
};

/// Returns the product; nothing when the node is none, or has an addend that is no constant vector.
std::optional<Product> product_at(const Rewriter& graph, NodeId node);

/// result = value * scale + shift along the last dimension, from a node with a constant that is the only reader
/// of value.
struct Affine {
    NodeId node = 0;
    std::vector<double> scale, shift;
    bool scales = false;
};
std::optional<Affine> affine_behind(const Rewriter& graph, ValueId value);

/// Replaces a product: it moves to where `last` is and takes over its result; with other weights and another
/// bias.
void replace_product(Rewriter& graph, NodeId last, const Product& product, ValueId weights,
                     const std::vector<double>& bias);

}  // namespace kpu::passes
