#include "runtime/validation/own_choice.hpp"

#include <string>

#include "compiler/pipeline/effort.hpp"
#include "runtime/trials/simulate.hpp"

namespace kpu::validation {
namespace {

using graph::attributes;
using graph::dims;
using graph::ValueId;

BoundQuant steps() {
    BoundQuant quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {0.5};
    quant.zero_points = {0};
    return quant;
}

ValueId input(graph::Graph& graph, const std::string& name, const std::vector<int64_t>& shape) {
    const ValueId id = graph.add_input(name, ElemType::i8, dims(shape));
    graph.value(id).quant = steps();
    return id;
}

ValueId weights(graph::Graph& graph, const std::vector<int64_t>& shape) {
    const auto bytes = static_cast<size_t>(dims(shape).product());
    return graph.add_constant("w", ElemType::i8, dims(shape), graph::make_data(std::vector<uint8_t>(bytes)),
                              steps());
}

graph::NodeOptions node(const std::string& name) {
    graph::NodeOptions options;
    options.source = {name, name};
    options.elem = ElemType::i8;
    options.quant = steps();
    return options;
}

ValueId add_layer(graph::Graph& graph, const Work& work) {
    const BoundAttr sums = graph::type("accum_type", ElemType::i32);
    if (work.kind == Work::Kind::sum) {
        const std::vector<int64_t> shape{1, work.elements};
        const ValueId left = input(graph, "x", shape), right = input(graph, "z", shape);
        return graph.add_node("add", {left, right}, {}, node("sum"));
    }
    if (work.kind == Work::Kind::product) {
        const ValueId x = input(graph, "x", {work.out_width, work.in_channels});
        return graph.add_node("gemm", {x, weights(graph, {work.in_channels, work.out_channels})},
                              attributes({sums}), node("product"));
    }
    const ValueId x = input(graph, "x", {1, work.in_height, work.in_width, work.in_channels});
    const ValueId w = weights(graph, {work.kernel, work.kernel, work.in_channels, work.out_channels});
    const ValueId y =
        graph.add_node("conv2d", {x, w},
                       attributes({graph::ints("pads", {work.pad, work.pad, work.pad, work.pad}),
                                   graph::ints("strides", {work.stride, work.stride}),
                                   graph::ints("dilations", {1, 1}), graph::integer("groups", 1), sums}),
                       node("convolution"));
    if (work.pool == 1) return y;
    return graph.add_node(
        "maxpool", {y},
        attributes({graph::ints("kernel_shape", {work.pool, work.pool}), graph::ints("pads", {0, 0, 0, 0}),
                    graph::ints("strides", {work.pool_stride, work.pool_stride})}),
        node("pool"));
}

}  // namespace

Module own_choice(const Work& work, const platforms::Platform& platform) {
    constexpr int effort = 2;
    graph::Graph graph;
    graph.name = "measured";
    const ValueId y = add_layer(graph, work);
    graph.outputs.push_back({"y", y, ElemType::i8, graph::HostType::same, {}});
    return pipeline::lower_with_effort(graph, compiler::Target(platform), {}, effort,
                                       runtime::simulate_trials())
        .emitted.module;
}

}  // namespace kpu::validation
