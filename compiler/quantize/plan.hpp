#pragma once
// Which nodes of a float network become int8, and which values share a scale.
#include <functional>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/ranges.hpp"

namespace kpu::quantize {

/// Whether the device has an opcode on these types; empty: everything that has arithmetic.
using Supports = std::function<bool(std::string_view opcode, const std::vector<ElemType>& inputs,
                                    const std::vector<ElemType>& outputs)>;
bool is_supported(const Supports& supports, std::string_view opcode, const std::vector<ElemType>& inputs,
                  const std::vector<ElemType>& outputs);

enum class Mode : uint8_t {
    plain,        ///< of integers: stays as it is
    real,         ///< in the float type of the device
    quantized,    ///< int8 in, int8 out
    accumulator,  ///< a product whose i32 accumulators become floats: nothing behind it is int8
};

/// Steps of a constant that are given, not chosen; their quantisation is the plan's.
struct Given {
    ElemType elem = ElemType::none;
    graph::Data data;
};

struct Plan {
    std::vector<Mode> modes;         ///< by node
    std::vector<BoundQuant> quants;  ///< by value: of its int8 form
    std::vector<bool>
        only_saturates;        ///< by node: a relu or clamp that the int8 output before it does itself
    std::vector<Given> given;  ///< by value; no elem: chosen here
    std::vector<std::string_view> reasons;  ///< by node: why a float one is not int8
};

/// Products have constant addends (split_addends()). real: the float type of what is not int8.
Plan make_plan(const graph::Graph& graph, const std::vector<Range>& ranges, ElemType real,
               const Supports& supports);

/// gemm, matmul, convolutions, not continued sums.
bool is_product(const OpcodeSpec& spec);
/// "gemm.acc" of gemm and matmul, "conv2d.acc"; empty: has no such form.
std::string_view accumulating_form(const OpcodeSpec& spec);
/// The output's elements are those of the operands, so both have one quantisation.
bool keeps_steps(const OpcodeSpec& spec);
bool is_data(const OpcodeSpec& spec, size_t input);

}  // namespace kpu::quantize
