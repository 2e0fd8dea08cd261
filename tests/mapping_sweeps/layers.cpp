#include "tests/mapping_sweeps/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "compiler/pipeline/effort.hpp"
#include "model/timing/systolic.hpp"
#include "runtime/simulation.hpp"
#include "runtime/trials/simulate.hpp"

namespace kpu::sweeps {
namespace {

using graph::attributes;
using graph::dims;
using graph::ValueId;

BoundQuant quant_of(ElemType elem) {
    BoundQuant quant;
    if (elem != ElemType::i8) return quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {0.5};
    quant.zero_points = {0};
    return quant;
}

ValueId weights(graph::Graph& graph, ElemType elem, const std::vector<int64_t>& shape) {
    const auto bytes = static_cast<size_t>(dims(shape).product() * bit_width(elem) / 8);
    return graph.add_constant("w", elem, dims(shape), graph::make_data(std::vector<uint8_t>(bytes)),
                              quant_of(elem));
}

ValueId add(graph::Graph& graph, const Layer& layer, ElemType elem, ValueId x) {
    graph::NodeOptions options;
    options.source = {fmt::format("layer{}", graph.nodes.size()), layer.name()};
    options.elem = elem;
    options.quant = quant_of(elem);
    const BoundAttr sums = graph::type("accum_type", is_float(elem) ? ElemType::f32 : ElemType::i32);
    if (layer.kind == Layer::Kind::product)
        return graph.add_node("gemm", {x, weights(graph, elem, {layer.k, layer.n})}, attributes({sums}),
                              options);
    const int64_t pad = (layer.kernel - 1) / 2, groups = layer.depthwise ? layer.k : 1;
    return graph.add_node(
        "conv2d", {x, weights(graph, elem, {layer.kernel, layer.kernel, layer.k / groups, layer.n})},
        attributes({graph::ints("pads", {pad, pad, pad, pad}),
                    graph::ints("strides", {layer.stride, layer.stride}), graph::ints("dilations", {1, 1}),
                    graph::integer("groups", groups), sums}),
        options);
}

}  // namespace

Layer Layer::product(int64_t m, int64_t n, int64_t k) {
    Layer layer;
    layer.m = m, layer.n = n, layer.k = k;
    return layer;
}

Layer Layer::convolution(int64_t side, int64_t k, int64_t n, int64_t kernel, int64_t stride) {
    Layer layer = product(1, n, k);
    layer.kind = Kind::convolution;
    layer.side = side, layer.kernel = kernel, layer.stride = stride;
    return layer;
}

Layer Layer::depthwise_convolution(int64_t side, int64_t channels, int64_t kernel) {
    Layer layer = convolution(side, channels, channels, kernel);
    layer.depthwise = true;
    return layer;
}

std::string Layer::name() const {
    if (kind == Kind::product) return fmt::format("{} x {} x {}", m, n, k);
    if (depthwise) return fmt::format("depthwise {0} x {0} of {1} by {2} x {2}", side, n, kernel);
    return fmt::format("{0} x {0} of {1} to {2} by {3} x {3}{4}", side, k, n, kernel,
                       stride == 1 ? "" : fmt::format(" / {}", stride));
}

graph::Graph graph_of(const std::vector<Layer>& layers, ElemType elem) {
    const Layer& first = layers.at(0);
    graph::Graph graph;
    graph.name = "sweep";
    const std::vector<int64_t> shape = first.kind == Layer::Kind::product
                                           ? std::vector<int64_t>{first.m, first.k}
                                           : std::vector<int64_t>{1, first.side, first.side, first.k};
    ValueId x = graph.add_input("x", elem, dims(shape));
    graph.value(x).quant = quant_of(elem);
    for (const Layer& layer : layers) x = add(graph, layer, elem, x);
    graph.outputs.push_back({"y", x, elem, graph::HostType::same, {}});
    return graph;
}

Bounds bounds_of(const Layer& layer, ElemType elem, const platforms::Platform& platform) {
    timing::GemmShape shape;
    const auto size = [](int64_t n) { return static_cast<uint64_t>(n); };
    const bool product = layer.kind == Layer::Kind::product;
    shape.m = product ? size(layer.m) : size(layer.out_side() * layer.out_side());
    shape.groups = layer.depthwise ? size(layer.k) : 1;
    shape.n = size(layer.n) / shape.groups;
    shape.k = product ? size(layer.k) : size(layer.kernel * layer.kernel * layer.k) / shape.groups;
    const platforms::Engines engines = platforms::engines_of(platform);
    const timing::SystolicArray array = timing::array_for(engines[0].get().array(), elem, elem);
    if (array.dataflow != proto::SystolicArray::os)
        throw std::invalid_argument("the bound with padding is that of output-stationary arrays");
    const double arrays = engines[0].get().array().count() * double(engines.size());
    const double peak = double(array.peak_q16()) / 65536 * arrays;
    const double deep = double(shape.k * shape.groups), width = double(bit_width(elem)) / 8;
    const double inputs = product ? double(shape.m * shape.k) : double(layer.side * layer.side * layer.k);
    const double bytes = (inputs + double(shape.n) * deep + double(shape.m * size(layer.n))) * width;
    const double pins = double(platform.ddr().data_rate_mtps()) *
                        platforms::ddr_device(platform).bus_width_bits() / 8 * platform.ddr().channels() /
                        platform.clock().core_mhz();
    const compiler::Target target(platform);
    const auto tile = [](uint64_t side, uint64_t whole_side) {
        return std::min(double(side), double(whole_side));
    };
    const double rows = tile(array.rows, shape.m), columns = tile(array.cols, shape.n);
    const double in = (rows + columns) * double(shape.k) * width, out = rows * columns * width;
    const auto hop = [](const compiler::Mover& mover, double moved, double most) {
        return mover.descriptor_cycles +
               moved / std::min({mover.port * mover.units, mover.link.bytes_per_cycle(), most});
    };
    const double sram = platform.l2().bytes_per_cycle();
    Bounds bounds;
    bounds.macs = double(shape.macs()) / peak;
    bounds.padded = double(timing::systolic_time(array, shape).occupancy) / arrays;
    bounds.dram = bytes / pins;
    bounds.ends = hop(target.system, in, pins) + hop(target.dma, in, sram) + 2 * double(array.rows) +
                  double(array.cols) + hop(target.store, out, sram) + hop(target.system, out, pins) +
                  2 * target.ddr_latency_cycles;
    return bounds;
}

double cycles_of(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                 Cycles most) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    options.max_cycles = most;
    runtime::Simulation simulation(module, &platform, options);
    const execution::RunStatus status = simulation.run();
    if (status == execution::RunStatus::deadlock) throw std::runtime_error(simulation.deadlock_report());
    return double(simulation.now());
}

Times times_of(const graph::Graph& graph, const platforms::Platform& platform, int effort) {
    const compiler::Target target(platform);
    const compiler::Lowered lowered =
        pipeline::lower_with_effort(graph, target, {}, effort, runtime::simulate_trials());
    Times times;
    for (const compiler::PlannedOp& op : lowered.plan.ops) times.predicted += op.tiling.cycles;
    times.simulated = cycles_of(std::make_shared<const Module>(lowered.emitted.module), platform);
    return times;
}

}  // namespace kpu::sweeps
