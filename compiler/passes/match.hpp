#pragma once
// Questions that passes ask about nodes and constants.
#include <optional>
#include <vector>

#include "compiler/passes/rewriter.hpp"

namespace kpu::passes {

using graph::is;
bool is_any(const Node& node, std::initializer_list<std::string_view> opcodes);
bool is_elementwise(const Node& node);
/// gemm, matmul: of whole rows and columns, no continued sums.
bool is_matrix_product(const Node& node);
/// A convolution in one precision whose result has an element for each position of the window.
bool is_convolution(const Node& node);

/// True for a float that stands for itself, and may become another type: float8 is what a model rounds to.
bool is_plain_float(const graph::Value& value);
/// True if it is quantised.
bool has_quant(const graph::Value& value);
bool same_quant(const BoundQuant& a, const BoundQuant& b);

/// Returns the number that every element of a constant is; nothing when they differ or it is none.
std::optional<double> uniform_number(const graph::Value& value);
/// Returns the elements of a float constant along one dimension of `shape`, with which it is broadcast: one
/// number, or a vector. Nothing when it varies along another dimension, or would enlarge the shape.
std::optional<std::vector<double>> along_axis(const graph::Value& value, const Dims& shape, size_t axis);
std::optional<std::vector<double>> along_last(const graph::Value& value, const Dims& shape);

/// Sets, or adds, a list of integers.
void set_ints(BoundAttrs& attrs, std::string_view name, std::vector<int64_t> values);
void set_integer(BoundAttrs& attrs, std::string_view name, int64_t value);
std::vector<int64_t> ints_of(const Node& node, std::string_view name);
std::vector<int64_t> shape_list(const Dims& shape);
/// Returns the dimensions that a `axis` or an entry of `axes` names: from the front.
size_t from_front(int64_t axis, size_t rank);

/// Dimensions of a reshape's operand, and those of its result that are the same elements. Half open.
struct Run {
    size_t from = 0, from_end = 0, to = 0, to_end = 0;
};
/// Returns the shortest runs of dimensions that keep their elements to themselves.
std::vector<Run> runs_of(const Dims& from, const Dims& to);

/// Returns perm of a transpose.
std::vector<int> perm_of(const Node& node);
/// True if it moves only dimensions of size 1: a reshape does the same.
bool moves_nothing(const Dims& shape, const std::vector<int>& perm);

}  // namespace kpu::passes
