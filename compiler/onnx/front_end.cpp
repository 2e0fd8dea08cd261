// Front end: ONNX models. Recognised by the first fields of the protobuf message: ir_version, then the producer's
// name, the graph or the opsets.
#include "compiler/front_end.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "compiler/onnx/import.hpp"
#include "compiler/pipeline/compile.hpp"

namespace kpu::compiler {
extern const FrontEnd onnx_front_end;
namespace {

/// Recognises a model: ModelProto begins with ir_version (field 1, a small number); the fields after it are
/// of known numbers. A model whose fields stand in another order is taken by its name.
bool recognise(std::string_view head, std::string_view file_name) {
    const bool begins = head.size() > 3 && head[0] == 0x08 && head[1] > 0 && head[1] < 64;
    constexpr std::string_view next =
        "\x12\x1a\x22\x28\x32\x3a\x42\x72";  // producer, domain, doc, graph, opset_import, ...
    if (begins && next.find(head[2]) != std::string_view::npos) return true;
    return ends_with(file_name, ".onnx");
}

onnx::ImportOptions import_options(const Source& source, const LoadRequest& request) {
    onnx::ImportOptions options = onnx::import_options(request.options);
    for (const auto& [name, file] : source.files()) options.files[name] = {file.owner, file.bytes, file.size};
    return options;
}

/// Returns the folder of external data.
std::string folder_of(const Source& source) {
    return std::filesystem::path(source.origin()).parent_path().string();
}

/// Says what a network lacks, by `absent` of its graph; empty: nothing.
std::string missing(const std::map<std::string, std::string>& absent) {
    if (absent.empty()) return {};
    const auto& [name, reason] = *absent.begin();
    const size_t more = absent.size() - 1;
    return fmt::format("tensor `{}`: {}{}", name, reason,
                       more > 0 ? fmt::format(", and so of {} more", more) : "");
}

graph::Graph import(const Source& source, const LoadRequest& request, Diagnostics& notes) {
    const onnx::ImportOptions options = import_options(source, request);
    graph::Graph graph = source.is_file()
                             ? onnx::import_model(source.origin(), options, notes, request.nodes)
                             : onnx::import_bytes(source.bytes(), source.origin(), folder_of(source), options,
                                                  notes, request.nodes);
    if (graph.name.empty()) graph.name = source.stem();
    if (!graph.absent.empty())
        notes.info({source.origin(), 0, 0},
                   fmt::format("{}: made-up numbers stand for what is absent, there is time and no data.",
                               missing(graph.absent)));
    return graph;
}

Loaded load(const Source& source, const LoadRequest& request, Diagnostics& notes) {
    if (request.platform == nullptr)
        throw UserError(source.origin() +
                        ": a network is compiled for a device. Fix: give one with --platform.");
    pipeline::Compiled compiled = pipeline::compile(
        [&](Diagnostics& found) { return import(source, request, found); }, request, source.origin(), notes,
        {0, std::filesystem::path(source.origin()).filename().string()});
    std::string no_values;
    if (!compiled.absent.empty())
        no_values = fmt::format("{}: {}. Fix: give the model with its weights; --mode timing needs none.",
                                source.origin(), missing(compiled.absent));
    Module& module = compiled.lowered.emitted.module;
    module.origin = source.origin();
    module.program.set_batch(static_cast<uint64_t>(onnx::import_options(request.options).batch));
    module.program.set_source_model(std::filesystem::path(source.origin()).filename().string());
    return {std::make_shared<const Module>(std::move(module)), {}, std::move(no_values)};
}

}  // namespace

const FrontEnd onnx_front_end{"ONNX model",
                              "a network as an ONNX model: compiled for the device",
                              pipeline::option_rows(),
                              true,  // for_device
                              "swkpu-v1",
                              true,
                              recognise,
                              load};

}  // namespace kpu::compiler
