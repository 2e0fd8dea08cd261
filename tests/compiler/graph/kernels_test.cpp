// Operations that are kernels: each in every type that it takes, without races, by both ways to run kernels alike.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/diagnostics.hpp"
#include "graphs.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::graph::testing {
namespace {

struct Use {
    std::string name;
    std::vector<std::vector<int64_t>> inputs;
    BoundAttrs attrs;
    int64_t positions = 1;  ///< indices lie below it, in both directions
};

std::vector<Use> uses() {
    const BoundAttrs top = attributes({integer("k", 5), integer("largest", 1)}),
                     least = attributes({integer("k", 37), integer("largest", 0)}),
                     boxes = attributes({integer("limit", 7), integer("center", 0)}),
                     centres = attributes({integer("limit", 40), integer("center", 1)}),
                     regions = attributes({integer("height", 5), integer("width", 7), integer("rows", 2),
                                           integer("columns", 3), integer("samples", 0),
                                           integer("largest", 1), integer("half", 1)});
    std::vector<Use> result{{"top_k", {{3, 37}}, top},
                            {"top_k", {{2, 37}}, least},
                            {"top_k", {{4, 64}}, top},
                            {"gather_nd", {{2, 6, 5}, {2, 9, 2}, {2}}, {}, 2},
                            {"scatter_nd", {{2, 6, 5}, {2, 9, 1, 2}, {2}, {2, 9, 5}}, {}, 2},
                            {"scatter_nd", {{3, 7, 70}, {3, 4, 70, 1}, {1}, {3, 4, 70}}, {}, 7},
                            {"non_max_suppression", {{2, 40, 4}, {2, 3, 40}, {1}, {1}}, boxes},
                            {"non_max_suppression", {{2, 40, 4}, {2, 3, 40}, {1}, {1}}, centres},
                            {"compact", {{75}, {2}}, {}, 75},
                            {"gather_rows", {{30, 7}, {9}}, {}, 30},
                            {"roi_align", {{2, 3, 35}, {4, 4}, {4}, {2}}, regions, 1}};
    for (const int64_t taps : {1, 2, 4}) {
        for (int64_t outside = 0; outside < 3; ++outside)
            result.push_back({"grid_sample",
                              {{2, 3, 35}, {2, 11, 2}},
                              attributes({integer("height", 5), integer("width", 7), integer("taps", taps),
                                          integer("outside", outside), integer("corners", outside % 2)})});
    }
    for (int64_t how = 1; how <= 4; ++how)
        result.push_back({"scatter_reduce",
                          {{2, 7, 40}, {2, 9, 1, 1}, {1}, {2, 9, 40}},
                          attributes({integer("how", how)}),
                          7});
    return result;
}

/// Returns small numbers, many of them equal.
std::vector<uint8_t> random_data(ElemType elem, size_t elements, std::mt19937& random) {
    std::vector<double> numbers(elements);
    for (double& number : numbers) number = static_cast<double>(random() % 8) / (is_float(elem) ? 2 : 1);
    const Data data = make_numbers(elem, numbers);
    return {data.bytes, data.bytes + data.size};
}

std::vector<uint8_t> random_operand(const Use& use, const OpcodeSpec& spec, size_t i, ElemType data,
                                    std::mt19937& random) {
    const auto elements = static_cast<size_t>(dims(use.inputs[i]).product());
    const OperandSpec& operand = operand_spec(spec.inputs, i);
    if (operand.role == OperandRole::data) return random_data(data, elements, random);
    if (operand.role == OperandRole::condition) {
        std::vector<uint8_t> mask(elements);
        for (uint8_t& bit : mask) bit = static_cast<uint8_t>(random() % 2);
        return mask;
    }
    std::vector<int32_t> numbers(elements);
    const auto bound = static_cast<int32_t>(use.positions);
    for (int32_t& number : numbers)
        number = operand.name == "dims" ? bound : static_cast<int32_t>(random() % (2 * bound)) - bound;
    const Data bytes = data_of(numbers);
    return {bytes.bytes, bytes.bytes + bytes.size};
}

using Memory = std::vector<std::vector<uint8_t>>;

std::vector<values::kernel::Bytes> bytes_of(Memory& memory) {
    std::vector<values::kernel::Bytes> result;
    for (std::vector<uint8_t>& buffer : memory) result.push_back({buffer.data(), buffer.size()});
    return result;
}

void run_both(const Use& use, ElemType data, std::mt19937& random) {
    const OpcodeId id = kernels::find_spec(use.name).value();
    const kernels::Operation& operation = *kernels::find(id);
    Graph graph;
    std::vector<ValueId> operands;
    Memory memory;
    kernels::Shapes in, out;
    for (size_t i = 0; i < use.inputs.size(); ++i) {
        const OperandRole role = operand_spec(operation.spec.inputs, i).role;
        const ElemType elem = role == OperandRole::data      ? data
                              : role == OperandRole::integer ? ElemType::i32
                                                             : ElemType::u8;
        operands.push_back(graph.add_input("x", elem, dims(use.inputs[i])));
        memory.push_back(random_operand(use, operation.spec, i, data, random));
        in.push_back(dims(use.inputs[i]));
    }
    const ValueId first = graph.add_node(use.name, operands, use.attrs, named("node"));
    for (ValueId value = first; value < graph.values.size(); ++value) {
        const Value& made = graph.value(value);
        memory.emplace_back(data_bytes(made.elem, made.elements()));
        out.push_back(made.shape);
    }
    const kernels::Launch launch = operation.launch(in, out, use.attrs);
    const kernels::Instance& instance = kernels::instance_of(operation, data, launch);
    const std::vector<uint64_t> scalars(launch.scalars.begin(), launch.scalars.end());
    const values::kernel::Grid grid{static_cast<uint64_t>(launch.workgroups), 1, 1};
    Memory slow = memory;
    values::kernel::LaunchLimits limits;
    limits.races = true;
    const values::kernel::LaunchResult result =
        values::kernel::run_launch(*instance.code, grid, scalars, bytes_of(memory), limits);
    EXPECT_TRUE(result.races.empty());
    EXPECT_TRUE(result.outside.empty());
    values::kernel::run_reference(*instance.code, grid, scalars, bytes_of(slow));
    EXPECT_EQ(memory, slow);
}

TEST(KernelOperations, EachTypeBothWaysWithoutRaces) {
    std::mt19937 random(1);
    std::set<std::string_view> seen;
    int types = 0;
    for (const Use& use : uses()) {
        const OpcodeSpec& spec = kernels::spec_of(kernels::find_spec(use.name).value());
        seen.insert(spec.name);
        for (const ElemType data : {ElemType::f32, ElemType::f16, ElemType::bf16, ElemType::i8, ElemType::u8,
                                    ElemType::i16, ElemType::u16, ElemType::i32, ElemType::u32}) {
            std::vector<ElemType> elems;
            for (size_t i = 0; i < use.inputs.size(); ++i) {
                const OperandRole role = operand_spec(spec.inputs, i).role;
                elems.push_back(role == OperandRole::data      ? data
                                : role == OperandRole::integer ? ElemType::i32
                                                               : ElemType::u8);
            }
            if (!spec.types(spec, elems, {})) continue;
            ++types;
            SCOPED_TRACE(fmt::format("{} of {}", use.name, name_of(data)));
            run_both(use, data, random);
        }
    }
    EXPECT_EQ(seen.size(), kernels::operations().size());
    EXPECT_GT(types, 60);
}

TEST(KernelOperations, NaNIsTheGreatest) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    const std::vector<float> numbers{1, nan, inf, nan, -inf, 1};
    const std::vector<int32_t> descending{1, 3, 2, 0, 5, 4}, ascending{4, 0, 5, 2, 1, 3};
    const auto backend = values::make_fast_backend();
    for (const bool largest : {true, false}) {
        Graph graph;
        const ValueId x = graph.add_input("x", ElemType::f32, dims({1, 6}));
        const BoundAttrs attrs = attributes({integer("k", 6), integer("largest", largest ? 1 : 0)});
        output(graph, graph.add_node("top_k", {x}, attrs, named("top")) + 1);
        const Data order = GraphExecutor(graph, *backend).run({data_of(numbers)})[0];
        EXPECT_EQ(elements_of<int32_t>(order), largest ? descending : ascending);
    }
}

/// Their samples are without number, those near the picture are not.
TEST(KernelOperations, RegionsWithoutEnd) {
    constexpr float inf = std::numeric_limits<float>::infinity();
    const auto backend = values::make_fast_backend();
    for (const int64_t largest : {0, 1}) {
        Graph graph;
        const ValueId x = graph.add_input("x", ElemType::f32, dims({1, 1, 4})),
                      rois = graph.add_input("rois", ElemType::f32, dims({2, 4})),
                      at = graph.add_constant("at", ElemType::i32, dims({2}),
                                              data_of(std::vector<int32_t>{0, 0})),
                      scale = graph.add_constant("scale", ElemType::f32, dims({2}),
                                                 data_of(std::vector<float>{1, 0}));
        const BoundAttrs attrs =
            attributes({integer("height", 2), integer("width", 2), integer("rows", 1), integer("columns", 1),
                        integer("samples", 0), integer("largest", largest), integer("half", 1)});
        output(graph, graph.add_node("roi_align", {x, rois, at, scale}, attrs, named("regions")));
        const Data regions = data_of(std::vector<float>{0, 0, inf, 1e9F, -inf, 0, inf, 1});
        const Data result =
            GraphExecutor(graph, *backend).run({data_of(std::vector<float>{1, 2, 3, 4}), regions})[0];
        EXPECT_EQ(elements_of<float>(result), (std::vector<float>{0, 0}));
    }
}

TEST(KernelOperations, IndexOutside) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({1, 4, 1})),
                  at = graph.add_input("at", ElemType::i32, dims({1, 1, 1})),
                  sizes =
                      graph.add_constant("sizes", ElemType::i32, dims({1}), data_of(std::vector<int32_t>{4}));
    output(graph, graph.add_node("gather_nd", {x, at, sizes}, {}, named("pick")));
    const auto backend = values::make_fast_backend();
    GraphExecutor executor(graph, *backend);
    const Data numbers = data_of(std::vector<float>{1, 2, 3, 4});
    const auto picked = [&](int32_t index) {
        return elements_of<float>(executor.run({numbers, data_of(std::vector<int32_t>{index})})[0])[0];
    };
    EXPECT_EQ(picked(3), 4);
    EXPECT_EQ(picked(-4), 1);
    for (const int32_t index : {4, -5}) {
        try {
            picked(index);
            FAIL() << index;
        } catch (const UserError& error) {
            EXPECT_NE(std::string(error.what()).find("operator `pick`"), std::string::npos) << error.what();
            EXPECT_NE(std::string(error.what()).find("index outside of its dimension"), std::string::npos)
                << error.what();
        }
    }
}

}  // namespace
}  // namespace kpu::graph::testing
