// Imports models and executes their graphs: what the tests of the importer compare with other runtimes.
//
// usage: graph_run FOLDER... : each holds model.onnx and the inputs NAME.npy; writes out/NAME.npy there, in the
// element types of the graph's host arrays (int64 as <i8, bool as |u1). What cannot be imported or executed goes
// to error.txt. A '/' in a name is written '_'. Exit code 0, whatever the models do.
//        graph_run --coverage MODEL [NAME=SIZE...]: every node, and why it is not taken.
//        graph_run --operators: the operators that are taken, with their first and last opset.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/npy.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/onnx/import.hpp"

namespace {

namespace fs = std::filesystem;
using namespace kpu;

std::string file_of(std::string name) {
    std::replace(name.begin(), name.end(), '/', '_');
    return name + ".npy";
}

graph::Data read_input(const graph::Graph& graph, const graph::Port& port, const fs::path& folder) {
    const NpyArray array = read_npy((folder / file_of(port.name)).string());
    if (array.data.size() != graph::host_bytes(graph, port))
        throw UserError(fmt::format("input {}: {} bytes, {} are needed", port.name, array.data.size(),
                                    graph::host_bytes(graph, port)));
    return graph::make_data({array.data.begin(), array.data.end()});
}

void write_output(const graph::Graph& graph, const graph::Port& port, const graph::Data& array,
                  const fs::path& folder) {
    const Dims shape = graph::host_shape(graph, port);
    const std::string path = (folder / file_of(port.name)).string();
    const std::string_view bytes(reinterpret_cast<const char*>(array.bytes), array.size);
    if (port.host != graph::HostType::int64)
        return write_npy(path, port.elem, {shape.begin(), shape.end()}, bytes);
    // int64 has no element type: pairs of u32, the shape says so
    std::vector<int64_t> pairs(shape.begin(), shape.end());
    pairs.push_back(2);
    write_npy(path, ElemType::u32, pairs, bytes);
}

void run(const fs::path& folder, values::ComputeBackend& backend) {
    Diagnostics notes;
    const graph::Graph graph = onnx::import_model((folder / "model.onnx").string(), {}, notes);
    std::vector<graph::Data> inputs;
    for (const graph::Port& port : graph.inputs) inputs.push_back(read_input(graph, port, folder));
    const std::vector<graph::Data> outputs = graph::run_on_host(graph, backend, inputs);
    fs::create_directories(folder / "out");
    for (size_t i = 0; i < outputs.size(); ++i)
        write_output(graph, graph.outputs[i], outputs[i], folder / "out");
}

/// Notes, and a line for each node; or why the file is refused.
void report(const std::string& path, const onnx::ImportOptions& options) {
    Diagnostics notes;
    try {
        for (const onnx::NodeSupport& node : onnx::coverage(path, options, notes))
            fmt::print("{} {}: {}\n", node.name, node.type, node.reason);
        onnx::import_model(path, options, notes);
    } catch (const UserError& error) {
        fmt::print("{}\n", error.what());
    }
    fmt::print("{}", notes.to_string());
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 2 && std::string_view(argv[1]) == "--operators") {
        for (const onnx::KnownOperator& known : onnx::known_operators())
            fmt::print("{} {} {}\n", known.type, known.since, known.until);
        return 0;
    }
    if (argc > 2 && std::string_view(argv[1]) == "--coverage") {
        onnx::ImportOptions options;
        for (int i = 3; i < argc; ++i) {
            const std::string given = argv[i];
            options.dims[given.substr(0, given.find('='))] = std::stoll(given.substr(given.find('=') + 1));
        }
        report(argv[2], options);
        return 0;
    }
    const std::unique_ptr<values::ComputeBackend> backend = values::make_fast_backend();
    for (int i = 1; i < argc; ++i) {
        const fs::path folder(argv[i]);
        fs::remove(folder / "error.txt");
        try {
            run(folder, *backend);
        } catch (const std::exception& error) {
            std::ofstream(folder / "error.txt") << error.what() << '\n';
        }
    }
    return 0;
}
