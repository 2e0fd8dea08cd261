#pragma once
// Graphs for tests of lowering, and what is asked of every lowered program.
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <random>

#include "compiler/emit/emit.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/strips/strips.hpp"
#include "runtime/simulation.hpp"
#include "values/convert.hpp"

namespace kpu::compiler::testing {

using graph::attributes;
using graph::Data;
using graph::dims;
using graph::Graph;
using graph::integer;
using graph::ints;
using graph::NodeOptions;
using graph::ValueId;

/// Device for which graphs of a type are lowered.
struct Case {
    ElemType elem;
    const char* device;
};

/// Makes graphs whose numbers are small, so that sums are exact in every order.
class Maker {
  public:
    Maker(ElemType elem, uint32_t seed) : elem_(elem), random_(seed) { graph_.name = "net"; }

    Graph& graph() { return graph_; }
    int64_t pick(int64_t least, int64_t most) {
        return std::uniform_int_distribution<int64_t>(least, most)(random_);
    }

    Data numbers(const Dims& shape, ElemType elem) {
        std::vector<uint8_t> bytes;
        for (int64_t i = 0; i < shape.product(); ++i) append(bytes, elem, static_cast<int>(pick(-3, 3)));
        return graph::make_data(std::move(bytes));
    }
    ValueId input(const std::vector<int64_t>& shape) {
        const ValueId id = graph_.add_input("x" + std::to_string(graph_.inputs.size()), elem_, dims(shape));
        graph_.value(id).quant = quant(0.25, 0);
        return id;
    }
    ValueId constant(const std::vector<int64_t>& shape, ElemType elem, BoundQuant of = {}) {
        return graph_.add_constant("c", elem, dims(shape), numbers(dims(shape), elem), std::move(of));
    }
    bool quantised() const { return elem_ == ElemType::i8; }
    BoundQuant quant(double scale, int64_t zero) const {
        BoundQuant result;
        if (!quantised()) return result;
        result.kind = proto::Quant::PER_TENSOR;
        result.scales = {scale};
        result.zero_points = {zero};
        return result;
    }
    BoundQuant channels(int axis, int64_t count) {
        BoundQuant result;
        if (!quantised()) return result;
        result.kind = proto::Quant::PER_CHANNEL;
        result.axis = axis;
        for (int64_t i = 0; i < count; ++i) result.scales.push_back(0.125 * double(pick(1, 4)));
        result.zero_points.assign(static_cast<size_t>(count), 0);
        return result;
    }
    NodeOptions named(const std::string& type, double scale = 0.5) {
        NodeOptions options;
        options.source = {type + std::to_string(graph_.nodes.size()), type};
        options.elem = elem_;
        options.quant = quant(scale, quantised() ? pick(-2, 2) : 0);
        return options;
    }
    ElemType sums() const { return quantised() ? ElemType::i32 : ElemType::f32; }
    ElemType bias_type() const { return quantised() ? ElemType::i32 : elem_; }

    ValueId conv(ValueId x, int64_t out, int64_t kernel, int64_t stride, int64_t pad, int64_t groups = 1) {
        const int64_t in = graph_.value(x).shape[3];
        const ValueId w = constant({kernel, kernel, in / groups, out}, elem_, channels(3, out));
        const ValueId b = constant({out}, bias_type());
        return graph_.add_node("conv2d", {x, w, b},
                               attributes({ints("pads", {pad, pad, pad, pad}),
                                           ints("strides", {stride, stride}), ints("dilations", {1, 1}),
                                           integer("groups", groups), graph::type("accum_type", sums())}),
                               named("Conv", 8));
    }
    ValueId gemm(ValueId x, int64_t out) {
        const ValueId w = constant({graph_.value(x).shape[1], out}, elem_, channels(1, out));
        const ValueId b = constant({out}, bias_type());
        return graph_.add_node("gemm", {x, w, b}, attributes({graph::type("accum_type", sums())}),
                               named("Gemm", 8));
    }
    ValueId unary(const char* opcode, ValueId x) {
        return graph_.add_node(opcode, {x}, {}, named(opcode, 0.5));
    }
    ValueId binary(const char* opcode, ValueId a, ValueId b) {
        return graph_.add_node(opcode, {a, b}, {}, named(opcode, 1));
    }
    ValueId reshape(ValueId x, const std::vector<int64_t>& shape) {
        NodeOptions options = named("Reshape");
        options.quant = graph_.value(x).quant;
        options.elem = graph_.value(x).elem;
        return graph_.add_node("reshape", {x}, attributes({ints("target_shape", shape)}), options);
    }
    ValueId pool(const char* opcode, ValueId x, int64_t kernel, int64_t stride, int64_t pad) {
        NodeOptions options = named(opcode);
        options.quant = graph_.value(x).quant;
        return graph_.add_node(
            opcode, {x},
            attributes({ints("kernel_shape", {kernel, kernel}), ints("pads", {pad, pad, pad, pad}),
                        ints("strides", {stride, stride})}),
            options);
    }
    /// Fuses the node of the last value, and all after it, into one group.
    void fuse(size_t nodes) {
        const size_t first = graph_.nodes.size() - nodes;
        ++groups_;
        for (size_t n = first; n < graph_.nodes.size(); ++n) graph_.nodes[n].group = groups_;
        graph_.nodes[first].anchor = true;
    }
    void output(ValueId x) {
        const graph::Value& value = graph_.value(x);
        graph_.outputs.push_back(
            {"y" + std::to_string(graph_.outputs.size()), x, value.elem, graph::HostType::same, {}});
    }

  private:
    static void append(std::vector<uint8_t>& bytes, ElemType elem, int number) {
        const auto add = [&](auto value) {
            const auto* raw = reinterpret_cast<const uint8_t*>(&value);
            bytes.insert(bytes.end(), raw, raw + sizeof value);
        };
        switch (elem) {
            case ElemType::i8:
                return add(static_cast<int8_t>(number));
            case ElemType::i32:
                return add(static_cast<int32_t>(number));
            case ElemType::f16:
                return add(values::f16_of(number));
            default:
                return add(static_cast<float>(number));
        }
    }

    ElemType elem_;
    std::mt19937 random_;
    Graph graph_;
    uint32_t groups_ = 0;
};

inline std::string bits(const Data& data) { return {reinterpret_cast<const char*>(data.bytes), data.size}; }

struct Result {
    Lowered lowered;
    Cycles cycles = 0;
    uint64_t dram_bytes = 0;
};

/// So many inferences, one after the other, each on inputs of its own: what they give, joined in order.
inline std::vector<std::string> expected_of(Maker& maker, uint64_t inferences,
                                            std::vector<std::string>& inputs) {
    const Graph& graph = maker.graph();
    const auto backend = values::make_fast_backend();
    graph::GraphExecutor executor(graph, *backend);
    std::vector<std::string> outputs(graph.outputs.size());
    inputs.assign(graph.inputs.size(), "");
    for (uint64_t n = 0; n < inferences; ++n) {
        std::vector<Data> arrays;
        for (const graph::Port& port : graph.inputs)
            arrays.push_back(maker.numbers(graph.value(port.value).shape, port.elem));
        for (size_t i = 0; i < arrays.size(); ++i) inputs[i] += bits(arrays[i]);
        const std::vector<Data> made = executor.run(arrays);
        for (size_t o = 0; o < made.size(); ++o) outputs[o] += bits(made[o]);
    }
    return outputs;
}

/// Returns what was searched for a device, for all networks that were planned for it before.
inline const std::shared_ptr<Searches>& searches_for(const std::string& device,
                                                     const platforms::Overrides& overrides) {
    static std::map<std::string, std::shared_ptr<Searches>> known;
    std::string key = device;
    for (const auto& [path, value] : overrides) key += "," + path + "=" + value;
    return known.try_emplace(key, std::make_shared<Searches>()).first->second;
}

/// Runs a program to its end, strictly.
inline std::unique_ptr<runtime::Simulation> simulated(const Graph& graph,
                                                      const std::shared_ptr<const Module>& module,
                                                      const platforms::Platform& platform, runtime::Mode mode,
                                                      uint64_t inferences,
                                                      const std::vector<std::string>& inputs,
                                                      const ParamBindings& params = {}) {
    runtime::SimulationOptions options;
    options.params = params;
    options.mode = mode;
    options.strict = true;
    options.random_order = mode == runtime::Mode::functional;
    auto simulation = std::make_unique<runtime::Simulation>(module, &platform, options);
    for (size_t i = 0; i < inputs.size(); ++i) {
        NpyArray array;
        array.dtype = npy_dtype(graph.inputs[i].elem);
        const Dims& shape = graph.value(graph.inputs[i].value).shape;
        array.shape.assign(shape.begin(), shape.end());
        if (inferences > 1) array.shape.insert(array.shape.begin(), static_cast<int64_t>(inferences));
        array.data = inputs[i];
        simulation->set_input(graph.inputs[i].name, array);
    }
    EXPECT_EQ(simulation->run(), execution::RunStatus::finished) << simulation->deadlock_report();
    EXPECT_EQ(simulation->hazards().count(), 0u) << platform.name();
    return simulation;
}

/// Returns the program with one of the tilings around that of each operation, and what those tilings must be.
inline Module with_others(Maker& maker, const Target& target, const Lowered& lowered) {
    const Plan around = with_neighbours(lowered.plan, target, {});
    std::vector<Tiling> others;
    for (const PlannedOp& op : around.ops) {
        const std::vector<Tiling>& list = op.alternatives->fastest;
        EXPECT_TRUE(list.at(0).same_mapping(op.tiling));
        for (size_t other = 1; other < list.size(); ++other) {
            EXPECT_EQ(list[other].split, list[0].split);
            EXPECT_FALSE(list[other].same_mapping(list[0]));
            int differing = 0;
            for (size_t a = 0; a < list[0].tile.size(); ++a)
                differing += list[other].tile[a] != list[0].tile[a] ? 1 : 0;
            EXPECT_LE(differing, 1);
        }
        others.push_back(list[static_cast<size_t>(maker.pick(0, static_cast<int64_t>(list.size()) - 1))]);
    }
    Lowered result = lower(replan(lowered.plan, target, others), target);
    add_weights(result);
    return result.emitted.module;
}

/// Returns a graph's program, with its weights.
inline Lowered lower(Graph graph, const Target& target, const Guide& guide = {}) {
    Lowered result = compiler::lower(plan(std::move(graph), target, guide), target);
    add_weights(result);
    return result;
}

/// Compiles, in strips where there are wishes for them, runs in both modes, compares with the graph's own values.
inline Result run_several(Maker& maker, const std::string& device, const platforms::Overrides& overrides,
                          uint64_t inferences, const MappingWishes* strips = nullptr) {
    const Graph graph = maker.graph();
    graph::check(graph);
    std::vector<std::string> inputs;
    const std::vector<std::string> expected = expected_of(maker, inferences, inputs);

    const platforms::Platform platform = platforms::load(device, overrides);
    const Target target(platform);
    Guide guide;
    guide.inferences = inferences;
    if (strips != nullptr) guide.wishes = *strips;
    const std::optional<InStrips> cut = strips == nullptr ? std::nullopt : in_strips(graph, target, *strips);
    Result result{lower(cut ? cut->graph : graph, target, guide)};
    guide.searches = searches_for(device, overrides);
    const Lowered again = lower(cut ? cut->graph : graph, target, guide);
    EXPECT_EQ(again.emitted.module.program.SerializeAsString(),
              result.lowered.emitted.module.program.SerializeAsString())
        << device << ": what was searched before changes the program";
    const auto module = std::make_shared<const Module>(result.lowered.emitted.module);
    for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
        const auto simulation = simulated(graph, module, platform, mode, inferences, inputs);
        for (size_t o = 0; o < expected.size(); ++o) {
            const NpyArray got = simulation->output(graph.outputs[o].name);
            EXPECT_TRUE(got.data == expected[o])
                << graph.outputs[o].name << " on " << device << ", inferences: " << inferences;
        }
        result.cycles = simulation->now();
        if (mode == runtime::Mode::functional) continue;
        const traces::StatSet& stats = simulation->stats();
        result.dram_bytes = stats.integer("bytes.dram.read") + stats.integer("bytes.dram.write");
    }
    if (inferences == 1) {
        const auto other = std::make_shared<const Module>(with_others(maker, target, result.lowered));
        const auto simulation =
            simulated(graph, other, platform, runtime::Mode::functional, inferences, inputs);
        for (size_t o = 0; o < expected.size(); ++o) {
            EXPECT_TRUE(simulation->output(graph.outputs[o].name).data == expected[o])
                << graph.outputs[o].name << " on " << device << ", with other tiles";
        }
    }
    return result;
}

/// Returns one inference; beside it two, which share their weights.
inline Result run(Maker& maker, const std::string& device, const platforms::Overrides& overrides = {},
                  const MappingWishes* strips = nullptr) {
    run_several(maker, device, overrides, 2, strips);
    return run_several(maker, device, overrides, 1, strips);
}

}  // namespace kpu::compiler::testing
