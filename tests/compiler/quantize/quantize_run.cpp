// Quantizes models and executes the result: what the tests of exported models compare with another runtime.
//
// usage: quantize_run [--steps|--floats] FOLDER... : each holds model.onnx, the inputs NAME.npy and maybe samples/ (else the
// inputs are the samples). Leaves there qdq.onnx, out/NAME.npy (int64 as pairs of u32), and steps.txt: of each output its
// name and the real value of a step, 0 of floats; or error.txt. Exit code 1 if there was an error.
// --steps: outputs are int8, not the floats of accumulators. --floats: nothing is quantized.
#include <fmt/format.h>

#include <filesystem>

#include "base/npy.hpp"
#include "base/text_output.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/onnx/import.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/export/export_qdq.hpp"

namespace {

namespace fs = std::filesystem;
using namespace kpu;
using Arrays = std::vector<graph::Data>;

std::unique_ptr<quantize::Samples> samples_of(const graph::Graph& network, const fs::path& folder,
                                              const Arrays& inputs) {
    if (fs::exists(folder / "samples")) return quantize::open_samples(network, (folder / "samples").string());
    return quantize::given_samples(network, {4, inputs});
}

graph::Graph quantized(graph::Graph network, const fs::path& folder, const Arrays& inputs,
                       std::string_view mode) {
    if (mode == "--floats") return network;
    quantize::QuantizeOptions options;
    options.real = ElemType::f32;
    options.supports = [mode](std::string_view opcode, const auto&, const auto&) {
        return mode != "--steps" || opcode.find(".acc") == std::string_view::npos;
    };
    if (quantize::is_quantized(network)) return quantize::absorb_qdq(network, options).graph;
    return quantize::quantize(network, *samples_of(network, folder, inputs), options).graph;
}

void write_output(const graph::Graph& network, const graph::Port& port, const graph::Data& array,
                  const fs::path& folder) {
    const Dims dims = graph::host_shape(network, port);
    std::vector<int64_t> shape(dims.begin(), dims.end());
    // 64 bits have no element type
    const bool pairs = port.host != graph::HostType::same && port.host != graph::HostType::boolean;
    if (pairs) shape.push_back(2);
    write_npy((folder / (port.name + ".npy")).string(), pairs ? ElemType::u32 : port.elem, shape,
              {reinterpret_cast<const char*>(array.bytes), array.size});
}

void run(const fs::path& folder, std::string_view mode, values::ComputeBackend& backend) {
    Diagnostics notes;
    graph::Graph network = onnx::import_model((folder / "model.onnx").string(), {}, notes);
    Arrays inputs;
    for (const graph::Port& port : network.inputs) {
        const NpyArray array = read_npy((folder / (port.name + ".npy")).string());
        inputs.push_back(graph::make_data({array.data.begin(), array.data.end()}));
    }
    passes::run_passes(network, {backend}, passes::Stage::rewrite);
    network = quantized(std::move(network), folder, inputs, mode);
    write_file((folder / "qdq.onnx").string(), quantize::export_qdq(network));
    passes::run_passes(network, {backend}, passes::Stage::schedule);
    graph::check(network);
    const Arrays outputs = graph::run_on_host(network, backend, inputs);
    fs::create_directories(folder / "out");
    std::string text;
    for (size_t i = 0; i < outputs.size(); ++i) {
        const graph::Port& port = network.outputs[i];
        const graph::Value& value = network.value(port.value);
        write_output(network, port, outputs[i], folder / "out");
        const bool is_i8 = value.quant && value.elem == ElemType::i8;
        text += fmt::format("{} {}\n", port.name, is_i8 ? value.quant.scales[0] : 0.0);
    }
    write_file((folder / "steps.txt").string(), text);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string_view mode = argc > 1 && argv[1][0] == '-' ? argv[1] : "";
    const auto backend = values::make_fast_backend();
    bool failed = false;
    for (int i = mode.empty() ? 1 : 2; i < argc; ++i) {
        try {
            run(argv[i], mode, *backend);
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}: {}\n", argv[i], error.what());
            write_file(std::string(argv[i]) + "/error.txt", error.what());
            failed = true;
        }
    }
    return failed ? 1 : 0;
}
