#pragma once
// Queries of what a device can compute, as steps that choose types ask them.
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/opcodes.hpp"

namespace kpu::graph {

/// Whether the device has an opcode on these types; empty: everything that has arithmetic.
using Supports = std::function<bool(std::string_view opcode, const std::vector<ElemType>& inputs,
                                    const std::vector<ElemType>& outputs)>;
bool is_supported(const Supports& supports, std::string_view opcode, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs);

struct Graph;
struct Node;
/// True if the device has the node with floats of this type in the place of its floats.
bool takes_floats(const Graph& graph, const Node& node, ElemType elem, const Supports& supports);

/// True for gemm, matmul, convolutions, not continued sums.
bool is_product(const OpcodeSpec& spec);
/// Returns the types of a product's factors in a precision: i4 stands for weights of i4 and activations of
/// i8.
std::pair<ElemType, ElemType> factors_of(ElemType precision);
/// The opcode whose result is a product's accumulators: its own, where it continues sums; empty: has no such form.
std::string_view sums_opcode(const OpcodeSpec& spec);

}  // namespace kpu::graph
