// Quantizes models and executes the result: what the test of exported models compares with another runtime.
//
// usage: quantize_run [--steps] FOLDER... : each holds model.onnx, samples/ and the inputs NAME.npy. Leaves there
// qdq.onnx, out/NAME.npy, and steps.txt: of each output its name and the real value of a step, 0 of floats.
// --steps: outputs are int8, not the floats of accumulators.
#include <fmt/format.h>

#include <filesystem>

#include "base/npy.hpp"
#include "base/text_output.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/onnx/import.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/export_qdq.hpp"

namespace {

namespace fs = std::filesystem;
using namespace kpu;

graph::Graph quantized(const fs::path& folder, bool steps, values::ComputeBackend& backend) {
    Diagnostics notes;
    graph::Graph network = onnx::import_model((folder / "model.onnx").string(), {}, notes);
    passes::run_passes(network, {backend}, passes::Stage::rewrite);
    quantize::QuantizeOptions options;
    options.real = ElemType::f32;
    options.supports = [steps](std::string_view opcode, const auto&, const auto&) {
        return !steps || opcode.find(".acc") == std::string_view::npos;
    };
    if (quantize::is_quantized(network)) return quantize::absorb_qdq(network, options).graph;
    const auto samples = quantize::open_samples(network, (folder / "samples").string());
    return quantize::quantize(network, *samples, options).graph;
}

void run(const fs::path& folder, bool steps, values::ComputeBackend& backend) {
    graph::Graph network = quantized(folder, steps, backend);
    passes::run_passes(network, {backend}, passes::Stage::schedule);
    graph::check(network);
    write_file((folder / "qdq.onnx").string(), quantize::export_qdq(network));
    std::vector<graph::Data> inputs;
    for (const graph::Port& port : network.inputs) {
        const NpyArray array = read_npy((folder / (port.name + ".npy")).string());
        inputs.push_back(graph::make_data({array.data.begin(), array.data.end()}));
    }
    const std::vector<graph::Data> outputs = graph::run_on_host(network, backend, inputs);
    fs::create_directories(folder / "out");
    std::string text;
    for (size_t i = 0; i < outputs.size(); ++i) {
        const graph::Port& port = network.outputs[i];
        const graph::Value& value = network.value(port.value);
        const Dims shape = graph::host_shape(network, port);
        write_npy((folder / "out" / (port.name + ".npy")).string(), port.elem, {shape.begin(), shape.end()},
                  {reinterpret_cast<const char*>(outputs[i].bytes), outputs[i].size});
        const bool is_i8 = value.quant && value.elem == ElemType::i8;
        text += fmt::format("{} {}\n", port.name, is_i8 ? value.quant.scales[0] : 0.0);
    }
    write_file((folder / "steps.txt").string(), text);
}

}  // namespace

int main(int argc, char** argv) {
    const bool steps = argc > 1 && std::string_view(argv[1]) == "--steps";
    const auto backend = values::make_fast_backend();
    for (int i = steps ? 2 : 1; i < argc; ++i) {
        try {
            run(argv[i], steps, *backend);
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}: {}\n", argv[i], error.what());
            return 1;
        }
    }
    return 0;
}
