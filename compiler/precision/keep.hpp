#pragma once
#include <string_view>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"

namespace kpu::precision {

/// "f32", "fp16", "bf16", "fp8" (f8e4m3), "fp8_e5m2", "posit8", "posit16" (of another es: "posit8_es2"), "int8", "int4" <-> element types; none: it is no such word.
ElemType type_named(std::string_view name);
std::string_view precision_name(ElemType type);

/// Marks operations that are to be computed in a wider type: `wishes` is "PATTERN=TYPE,...", a pattern is a name of the
/// source model in which `*` and `?` stand for any characters. A later wish beats an earlier one. Throws UserError for
/// what is no wish, and for a pattern that names nothing.
void keep(graph::Graph& graph, std::string_view wishes);
/// Spreads types: elementwise nodes all of whose operands come from nodes kept in one type are computed in it
/// too, where the device has that: they are fused after those.
void spread(graph::Graph& graph, ElemType precision, const graph::Supports& supports);

}  // namespace kpu::precision
