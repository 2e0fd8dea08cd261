#pragma once
// Graphs as text, there and back (docs/graph_text.md). What is written is all of a graph but the bytes of large constants,
// which stand in a file beside the text; without that file they are left out, and the network has time and no data.
#include <string>
#include <string_view>

#include "compiler/graph/graph.hpp"

namespace kpu::graph {

/// Contents of a text beside the graph.
struct TextHead {
    uint32_t passed = 0;  ///< passes of the compiler that the graph has been through, of all in their order
    std::string model;    ///< file name of what it was read from; empty: not known
};

/// `constants` gets the bytes that the text names by their place; null: they are left out.
std::string to_text(const Graph& graph, const TextHead& head, std::string* constants);

struct TextGraph {
    Graph graph;
    TextHead head;
};
/// Reads what to_text() wrote. `constants`: the bytes of the file beside the text, empty if there is none:
/// constants that need it get made-up numbers, and their names are in Graph::absent. Throws UserError with
/// the line and the column of the first mistake.
TextGraph from_text(std::string_view text, const std::string& origin, std::string_view constants = {});

/// True if a file begins as one of these texts.
bool is_graph_text(std::string_view head);

}  // namespace kpu::graph
