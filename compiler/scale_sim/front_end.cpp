// Front end: SCALE-Sim topologies. The file knows no memory, so that L1 is made as large as a layer needs.
#include "compiler/front_end.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "compiler/scale_sim/topology.hpp"

namespace kpu::compiler {
extern const FrontEnd scale_sim_front_end;
namespace {

constexpr const char* l1_size = "engine.l1.size_bytes";
constexpr std::ptrdiff_t commas_of_product = 3;  ///< name, M, N, K

/// True for words and numbers between commas, without what lines of other languages have.
bool is_row(std::string_view line, std::ptrdiff_t commas, const char* others) {
    return std::count(line.begin(), line.end(), ',') >= commas &&
           line.find_first_of(others) == std::string_view::npos;
}

/// Recognises a topology by its first two lines, a header and a layer. In a file called .csv they may have
/// less or be stranger: what is wrong is then said with its line.
bool recognise_topology(std::string_view head, std::string_view file_name) {
    if (starts_with(head, "\xEF\xBB\xBF")) head.remove_prefix(3);
    const bool called_csv = ends_with(file_name, ".csv");
    bool found = false;
    for (int lines = 0; lines < 2 && !head.empty();) {
        const std::string_view line = take_line(head);
        if (line.empty()) continue;
        ++lines;
        if (!is_printable(line)) return false;
        found =
            found || is_row(line, commas_of_product, "()[]{}=<>\"#@") || (called_csv && is_row(line, 1, "="));
    }
    return found;
}

Loaded load_topology(const Source& source, const LoadRequest& request, Diagnostics& notes) {
    Diagnostics found;
    const auto layers = parse_topology(source.bytes(), source.origin(), found);
    if (found.has_errors()) throw UserError(found);
    for (const Diagnostic& note : found.all()) notes.add(note);
    Loaded loaded{std::make_shared<Module>(topology_program(layers, source.stem())), {}};
    if (request.platform == nullptr) return loaded;
    const uint64_t needed = topology_l1_bytes(layers);
    uint64_t smallest = needed;
    for (const auto& engine : request.platform->engine())
        smallest = std::min(smallest, engine.l1().size_bytes());
    if (smallest >= needed) return loaded;
    // a topology says nothing about tiling: its layers stand in L1 whole
    loaded.changes.push_back(
        {l1_size, fmt::format("{}", needed),
         fmt::format("the largest layer needs {} bytes of SRAM, {} has {}: {} is set to {}.", needed,
                     request.platform->name(), smallest, l1_size, needed)});
    return loaded;
}

}  // namespace

const FrontEnd scale_sim_front_end{
    "SCALE-Sim topology",
    "layers as lines of numbers (.csv), computed back to back: time without values",
    {},
    true,
    "",
    false,
    recognise_topology,
    load_topology};

}  // namespace kpu::compiler
