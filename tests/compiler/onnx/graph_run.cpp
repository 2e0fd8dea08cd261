// Imports models and executes their graphs: what the tests of the importer compare with other runtimes.
//
// usage: graph_run FOLDER... : each holds model.onnx and the inputs NAME.npy; writes out/NAME.npy there, in the
// element types of the graph's host arrays (64 bits as pairs of <u4, bool as |u1). What cannot be imported or executed goes
// to error.txt. A '/' in a name is written '_'. Exit code 0, whatever the models do.
// With DEVICE=NAME[:PRECISION] in the environment the models are compiled for that device, and their programs run.
//        graph_run --coverage MODEL [NAME=SIZE...]: every node, and why it is not taken.
//        graph_run --operators: the operators that are taken, with their first and last opset.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/npy.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/onnx/import.hpp"
#include "compiler/pipeline/compile.hpp"
#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"

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
    const bool wide = port.host != graph::HostType::same && port.host != graph::HostType::boolean;
    if (!wide) return write_npy(path, port.elem, {shape.begin(), shape.end()}, bytes);
    // what has 64 bits has no element type: pairs of u32, the shape says so
    std::vector<int64_t> pairs(shape.begin(), shape.end());
    pairs.push_back(2);
    write_npy(path, ElemType::u32, pairs, bytes);
}

struct Device {
    platforms::Platform platform;
    std::string precision;
};

std::optional<Device> device() {
    const char* given = std::getenv("DEVICE");
    if (given == nullptr) return std::nullopt;
    const std::string text = given, name = text.substr(0, text.find(':'));
    return Device{platforms::load(name), name.size() < text.size() ? text.substr(name.size() + 1) : "f32"};
}

graph::Data bytes_of(const NpyArray& array) {
    return graph::make_data({array.data.begin(), array.data.end()});
}

/// Returns the program of the graph, executed in a random legal order, strictly verified.
std::vector<graph::Data> run_on_device(const graph::Graph& graph, const Device& on, const fs::path& folder) {
    Diagnostics notes;
    compiler::LoadRequest request;
    request.options = OptionValues(pipeline::option_rows(), {{"precision", on.precision}});
    request.platform = &on.platform;
    pipeline::Compiled compiled =
        pipeline::compile([&](Diagnostics&) { return graph; }, request, "model", notes);
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::functional;
    options.strict = options.random_order = true;
    runtime::Simulation simulation(std::make_shared<const Module>(std::move(compiled.lowered.emitted.module)),
                                   &on.platform, options);
    for (const graph::Port& port : graph.inputs)
        simulation.set_input(port.name, read_npy((folder / file_of(port.name)).string()));
    if (simulation.run() != execution::RunStatus::finished) throw InternalError(simulation.deadlock_report());
    if (simulation.hazards().count() > 0) throw InternalError("the program has hazards");
    std::vector<graph::Data> outputs;
    for (const graph::Port& port : graph.outputs) outputs.push_back(bytes_of(simulation.output(port.name)));
    return outputs;
}

void run(const fs::path& folder, values::ComputeBackend& backend) {
    static const std::optional<Device> on = device();
    Diagnostics notes;
    const graph::Graph graph = onnx::import_model((folder / "model.onnx").string(), {}, notes);
    for (const auto& [name, reason] : graph.absent)
        throw UserError(fmt::format("model.onnx: error: tensor `{}`: {}. Fix: none here.", name, reason));
    std::vector<graph::Data> inputs;
    for (const graph::Port& port : graph.inputs) inputs.push_back(read_input(graph, port, folder));
    const std::vector<graph::Data> outputs =
        on ? run_on_device(graph, *on, folder) : graph::run_on_host(graph, backend, inputs);
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
