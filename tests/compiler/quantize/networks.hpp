#pragma once
// Small float networks with random weights, and ways to run them.
#include <string>
#include <vector>

#include "base/random.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/quantize.hpp"

namespace kpu::quantize::testing {

using graph::Data;
using graph::Graph;
using graph::Value;
using graph::ValueId;

inline std::vector<double> random_numbers(uint64_t seed, uint64_t count, double size = 1) {
    SplitMix64 random(seed);
    std::vector<double> numbers;
    for (uint64_t i = 0; i < count; ++i)
        numbers.push_back(size * (static_cast<double>(random.next() >> 40) * 0x1p-23 - 1));
    return numbers;
}

/// A graph that grows by the names of its operators.
struct Network {
    Graph graph;
    uint64_t seed;

    explicit Network(uint64_t random_seed = 1) : seed(random_seed * 1000) {}
    ValueId input(std::string name, std::vector<int64_t> shape) {
        return graph.add_input(std::move(name), ElemType::f32, graph::dims(shape));
    }
    ValueId constant(const std::vector<int64_t>& shape, const std::vector<double>& numbers) {
        return graph.add_constant("const", ElemType::f32, graph::dims(shape),
                                  graph::make_numbers(ElemType::f32, numbers));
    }
    ValueId weights(const std::vector<int64_t>& shape, double size = 1) {
        const auto count = static_cast<uint64_t>(graph::dims(shape).product());
        return constant(shape, random_numbers(++seed, count, size));
    }
    ValueId op(const std::string& opcode, std::vector<ValueId> operands, std::vector<BoundAttr> attrs = {}) {
        const std::string name = opcode + "_" + std::to_string(graph.nodes.size());
        return graph.add_node(opcode, std::move(operands), graph::attributes(std::move(attrs)),
                              {{name, opcode}, name, ElemType::f32, {}});
    }
    int64_t channels(ValueId x) const {
        const Dims& shape = graph.value(x).shape;
        return shape[shape.rank - 1U];
    }
    /// Adds a 3x3 convolution, same size.
    ValueId conv(ValueId x, int64_t out, bool bias = true) {
        std::vector<ValueId> operands = {x, weights({3, 3, channels(x), out}, 0.3)};
        if (bias) operands.push_back(weights({out}, 0.5));
        return op("conv2d", operands,
                  {graph::ints("pads", {1, 1, 1, 1}), graph::ints("strides", {1, 1}),
                   graph::ints("dilations", {1, 1}), graph::integer("groups", 1),
                   graph::type("accum_type", ElemType::f32)});
    }
    ValueId gemm(ValueId x, int64_t out, bool bias = true) {
        std::vector<ValueId> operands = {x, weights({channels(x), out}, 0.5)};
        if (bias) operands.push_back(weights({out}, 0.5));
        return op(bias ? "gemm" : "matmul", operands, {graph::type("accum_type", ElemType::f32)});
    }
    ValueId pool(const std::string& opcode, ValueId x) {
        return op(opcode, {x},
                  {graph::ints("kernel_shape", {2, 2}), graph::ints("strides", {2, 2}),
                   graph::ints("pads", {0, 0, 0, 0})});
    }
    ValueId reshape(ValueId x, std::vector<int64_t> shape) {
        return op("reshape", {x}, {graph::ints("target_shape", std::move(shape))});
    }
    void output(ValueId x) {
        graph.outputs.push_back({"out" + std::to_string(graph.outputs.size()), x, ElemType::f32, {}, {}});
    }
};

inline std::unique_ptr<Samples> samples_of(const Graph& graph) { return open_samples(graph, "random:7"); }

/// Returns the first output, on the host's arrays.
inline std::vector<double> run(const Graph& graph, const std::vector<Data>& arrays) {
    const auto engine = values::make_fast_backend();
    Value value;
    value.elem = ElemType::f32;
    value.data = graph::run_on_host(graph, *engine, arrays)[0];
    value.shape = graph::dims({static_cast<int64_t>(value.data.size / 4)});
    return graph::numbers(value);
}

inline const graph::Node* find(const Graph& graph, const std::string& opcode) {
    for (const graph::Node& node : graph.nodes) {
        if (node.spec().name == opcode) return &node;
    }
    return nullptr;
}

}  // namespace kpu::quantize::testing
