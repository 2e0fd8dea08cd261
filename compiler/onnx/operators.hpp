#pragma once
// The table of operators: one row per ONNX operator, its function in the file of its family.
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

struct Operator {
    std::string_view type;
    void (*import)(Call& call);
    int64_t since = 1;    ///< the opset that brought it
    int64_t until = 999;  ///< the last opset that has it
    std::string_view domain = {};
    bool empty = false;  ///< its operands may have no elements
};

/// Finds an operator of ONNX itself, domain "", or of com.microsoft. Null: no such operator.
const Operator* find_operator(std::string_view domain, std::string_view type);

/// Imports another node, of ONNX itself, in the place of this one; its results.
std::vector<Operand> import_as(Call& call, const NodeModel& node, int64_t opset,
                               std::vector<Operand> operands);

using Operators = std::vector<Operator>;
void add_convolutions(Operators& table);
void add_pools(Operators& table);
void add_products(Operators& table);
void add_einsum(Operators& table);
void add_elementwise(Operators& table);
void add_functions(Operators& table);
void add_fused(Operators& table);
void add_shapes(Operators& table);
void add_constants(Operators& table);
void add_indexing(Operators& table);
void add_norms(Operators& table);
void add_reductions(Operators& table);
void add_quantized(Operators& table);
void add_qlinear(Operators& table);
void add_integer_products(Operators& table);
void add_recurrent(Operators& table);
void add_attention(Operators& table);
void add_multi_head(Operators& table);
void add_group_query(Operators& table);
void add_rotary(Operators& table);
void add_caches(Operators& table);
void add_linear_attention(Operators& table);
void add_block_quantized(Operators& table);
void add_experts(Operators& table);
void add_resizes(Operators& table);
void add_sampling(Operators& table);
void add_scatters(Operators& table);
void add_sequences(Operators& table);
void add_selecting(Operators& table);
void add_spectra(Operators& table);
void add_withdrawn(Operators& table);

/// Computes the node here and now, when its operands are constants and small enough. False: it did not.
bool fold(Call& call);

}  // namespace kpu::onnx
