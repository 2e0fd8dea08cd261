#pragma once
// A network's way from graph to program: passes, the numbers of the device, lowering. Front ends of networks make the
// graph and share the rest.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "compiler/emit/emit.hpp"
#include "compiler/estimate/schedule.hpp"
#include "compiler/front_end.hpp"
#include "compiler/graph/text.hpp"
#include "compiler/pipeline/options.hpp"

namespace kpu::pipeline {

struct Compiled {
    compiler::Lowered lowered;
    ElemType precision = ElemType::none;        ///< type of the products
    std::map<std::string, std::string> absent;  ///< as of the graph
};

/// Makes the graph of a file; what is decided for the user goes to `notes`. Throws UserError.
using Import = std::function<graph::Graph(Diagnostics& notes)>;

/// Compiles a network. `request.platform` must be there. `import` is called unless `request.kept` has what it
/// would make. What is decided for the user goes to `notes`. `head`: passes that a graph which was printed
/// before has been through. Throws UserError.
Compiled compile(const Import& import, const compiler::LoadRequest& request, const std::string& origin,
                 Diagnostics& notes, const graph::TextHead& head = {});

/// Writes one line for each operation: type, MACs, tiles, predicted cycles, what bounds them, how far that is
/// from the bound. `only`: the operation of this name; empty: all.
std::string mapping_text(const Compiled& compiled, std::string_view only);

/// Estimates from a schedule of the program's tasks: for each operation what it is charged, what bounds it
/// and the cycles below which nothing comes; the total.
estimate::Estimate estimate_of(const compiler::Lowered& lowered, const compiler::Target& target,
                               estimate::Detail detail = estimate::Detail::all);
/// Writes that into the program.
void state_estimates(Compiled& compiled, const compiler::Target& target);

/// Writes where each tensor lives and when: a picture if the name ends in .html, else a table.
void write_memory_map(const Compiled& compiled, const compiler::Target& target, const std::string& path);

}  // namespace kpu::pipeline
