#pragma once
// Which nodes of a float network become int8, and which values share a scale.
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/quantize/ranges.hpp"

namespace kpu::quantize {

using graph::is_product;
using graph::is_supported;
using graph::Supports;

enum class Mode : uint8_t {
    plain,        ///< node of integers: stays as it is
    real,         ///< in the float type of the device
    quantized,    ///< int8 in, int8 out
    accumulator,  ///< a product whose i32 accumulators become floats: nothing after it is int8
};

/// Steps of a constant that are given, not chosen; their quantisation is the plan's.
struct Given {
    ElemType elem = ElemType::none;
    graph::Data data;
};

struct Plan {
    std::vector<Mode> modes;  ///< indexed by node
    /// For each node: the type of a real one, if it is not QuantizeOptions::real.
    std::vector<ElemType> kept;
    std::vector<BoundQuant> quants;  ///< for each value: of its int8 form
    std::vector<bool>
        only_saturates;        ///< for each node: a relu or clamp that the int8 output before it does itself
    std::vector<Given> given;  ///< indexed by value; no elem: chosen here
    std::vector<std::string_view> reasons;  ///< for each node: why a float one is not int8
};

/// Products have constant addends (split_addends()). real: the float type of what is not int8.
Plan make_plan(const graph::Graph& graph, const std::vector<Range>& ranges, ElemType real,
               const Supports& supports);

/// Whether the device has this form (Traits::group_form) of i8 and i4, and a way from its sums to i8.
bool takes_groups(const Supports& supports, std::string_view form);

/// True if each number of the results is one of the operands, or of the padding: copied, or chosen by
/// comparing.
bool moves(const graph::Node& node);
/// True if results lie between the operands, so both can have one quantisation.
bool keeps_steps(const graph::Node& node);
bool is_data(const OpcodeSpec& spec, size_t input);
std::vector<graph::ValueId> data_operands(const graph::Node& node);

}  // namespace kpu::quantize
