#pragma once

#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Enters small constants, and says in the homes of their readers which are in the table; other constants live in DDR.
Table fill_table(const graph::Graph& graph, const Target& target, std::vector<PlannedOp>& ops);

/// Returns what tilings leave to be read of it: of an addend that is there in two types, only one is.
std::vector<Block> read_of_table(const Plan& plan);

}  // namespace kpu::compiler
