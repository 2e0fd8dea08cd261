// Front end: networks in the text that the compiler prints after a pass; compilation goes on from there.
#include "compiler/front_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/read_file.hpp"
#include "compiler/graph/text.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/pipeline/compile.hpp"

namespace kpu::compiler {
extern const FrontEnd graph_text_front_end;
namespace {

bool recognise(std::string_view head, std::string_view /*file_name*/) { return graph::is_graph_text(head); }

/// Returns the options of networks, but for what decides the shape of a model: it is decided.
std::vector<OptionRow> rows() {
    std::vector<OptionRow> rows = pipeline::option_rows();
    const auto of_models = [](const OptionRow& row) { return row.name == "dim" || row.name == "bind"; };
    rows.erase(std::remove_if(rows.begin(), rows.end(), of_models), rows.end());
    return rows;
}

/// Returns the file of constants beside the text; empty: there is none.
std::string constants_of(const Source& source) {
    const std::string path = source.origin() + ".bin";
    const auto given = source.files().find(std::filesystem::path(path).filename().string());
    if (given != source.files().end())
        return {reinterpret_cast<const char*>(given->second.bytes), given->second.size};
    return source.is_file() && std::filesystem::is_regular_file(path) ? read_file(path) : std::string();
}

graph::TextGraph read(const Source& source) {
    graph::TextGraph found = graph::from_text(source.bytes(), source.origin(), constants_of(source));
    const size_t passes = passes::pass_table().size();
    if (found.head.passed > passes)
        throw UserError(
            fmt::format("{}: it has been through {} passes, and there are {}. Fix: print it again.",
                        source.origin(), found.head.passed, passes));
    if (found.graph.name.empty()) found.graph.name = source.stem();
    return found;
}

std::string no_values_of(const std::map<std::string, std::string>& absent, const std::string& origin) {
    if (absent.empty()) return {};
    const auto& [name, reason] = *absent.begin();
    return fmt::format(
        "{}: constant `{}`: {}. Fix: print the graph with --print-graph; --mode timing needs no bytes.",
        origin, name, reason);
}

Loaded load(const Source& source, const LoadRequest& request, Diagnostics& notes) {
    if (request.platform == nullptr)
        throw UserError(source.origin() +
                        ": a network is compiled for a device. Fix: give one with --platform.");
    const graph::TextGraph text = read(source);
    if (!text.graph.absent.empty())
        notes.info({source.origin(), 0, 0},
                   fmt::format("made-up numbers stand for {} constants whose bytes are absent: there is time "
                               "and no data.",
                               text.graph.absent.size()));
    pipeline::Compiled compiled = pipeline::compile([&](Diagnostics&) { return text.graph; }, request,
                                                    source.origin(), notes, text.head);
    Module& module = compiled.lowered.emitted.module;
    module.origin = source.origin();
    if (request.options.given("batch"))
        module.program.set_batch(static_cast<uint64_t>(request.options.integer("batch")));
    const std::string own = std::filesystem::path(source.origin()).filename().string();
    module.program.set_source_model(text.head.model.empty() ? own : text.head.model);
    return {std::make_shared<const Module>(std::move(module)),
            {},
            no_values_of(compiled.absent, source.origin())};
}

}  // namespace

const FrontEnd graph_text_front_end{
    "graph text", "a network as --print-after prints it: compiled on from that pass",
    rows(),
    true,  // for_device
    "swkpu-v1",   true,
    recognise,    load};

}  // namespace kpu::compiler
