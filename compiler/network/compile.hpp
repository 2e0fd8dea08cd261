#pragma once
// A network's way from graph to program: passes, the numbers of the device, lowering. Front ends of networks make the
// graph and share the rest.
#include <string>
#include <vector>

#include "base/option.hpp"
#include "compiler/estimate/schedule.hpp"
#include "compiler/front_end.hpp"
#include "compiler/graph/graph.hpp"
#include "compiler/lower/lower.hpp"

namespace kpu::network {

/// Options that every front end of networks has.
std::vector<OptionRow> option_rows();

struct Compiled {
    lower::Lowered lowered;
    ElemType precision = ElemType::none;  ///< of the products
};

/// `request.platform` must be there. What is decided for the user goes to `notes`. Throws UserError.
Compiled compile(graph::Graph graph, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes);

/// One line for each operation: type, MACs, tiles, predicted cycles, what bounds them, how far that is from the bound.
/// `only`: the operation of this name; empty: all.
std::string mapping_text(const Compiled& compiled, const lower::Target& target, std::string_view only);

/// Writes into each operation of the program what bounds it, and the cycles below which no schedule comes.
void state_bounds(Compiled& compiled, const lower::Target& target);
/// From a schedule of the program's tasks.
estimate::Estimate estimate_of(const lower::Lowered& lowered, const lower::Target& target);
/// Writes the estimates of cycles, from a schedule of the tasks: of each operation what it is charged, and the total.
void state_estimates(Compiled& compiled, const lower::Target& target);

/// Where each tensor lives and when: a picture if the name ends in .html, else a table.
void write_memory_map(const Compiled& compiled, const lower::Target& target, const std::string& path);

}  // namespace kpu::network
