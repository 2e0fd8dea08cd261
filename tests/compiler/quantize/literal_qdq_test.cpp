// A model with quantizers gives the bits that its nodes give one by one: what becomes of it rounds where they stand, and
// nowhere else. Products are left out: their sums are requantized by one factor, not by way of f32.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "compiler/quantize/absorb_qdq.hpp"
#include "compiler/quantize/parameters.hpp"
#include "tests/compiler/quantize/networks.hpp"

namespace kpu::quantize {
namespace {

using graph::integer;
using graph::ints;
using graph::real;
using graph::word;
using testing::Graph;
using testing::Network;
using testing::ValueId;

/// Pictures [1,4,4,3], grown by random operations.
class RandomModel {
  public:
    explicit RandomModel(uint64_t seed) : random_(seed), net_(seed) {
        for (const char* name : {"a", "b"}) pool_.push_back(net_.input(name, {1, 4, 4, 3}));
        // one that the host gives in steps
        const ValueId given = net_.graph.add_input("c", ElemType::i8, graph::dims({1, 4, 4, 3}));
        net_.graph.value(given).quant = per_tensor(scales[below(5)], zeros[below(3)]);
        pool_.push_back(in_floats(given));
    }

    Graph make() {
        for (int i = 0; i < 12; ++i) pool_.push_back(below(2) == 0 ? converted(any()) : operation(any()));
        for (int i = 0; i < 5; ++i) net_.output(any());
        net_.output(pool_.back());
        return std::move(net_.graph);
    }

  private:
    uint64_t below(uint64_t n) { return random_.next() % n; }
    ValueId any() { return pool_[pool_.size() - 1 - below(std::min<size_t>(pool_.size(), 5))]; }

    /// Few scales, so that some are equal, twice or half of each other.
    ValueId converted(ValueId x) {
        const ElemType elem = below(2) == 0 ? ElemType::i8 : ElemType::u8;
        const BoundQuant quant =
            per_tensor(scales[below(5)], zeros[below(3)] + (elem == ElemType::u8 ? 128 : 0));
        const ValueId q =
            net_.graph.add_node("quantize", {x}, {}, {{"Q", "QuantizeLinear"}, "q", elem, quant});
        return in_floats(q);
    }
    ValueId in_floats(ValueId steps) {
        return net_.graph.add_node("dequantize", {steps}, {},
                                   {{"DQ", "DequantizeLinear"}, "dq", ElemType::f32, {}});
    }

    ValueId operation(ValueId x) {
        switch (below(6)) {
            case 0:
                return elementwise(x);
            case 1:
                return window(x);
            case 2:
                return joined(x);
            case 3:
                return selected(x);
            case 4:
                return with_constant(x);
            default:
                return moved(x);
        }
    }

    ValueId elementwise(ValueId x) {
        static const char* one[] = {"relu", "neg", "abs", "sigmoid"};
        static const char* two[] = {"add", "sub", "mul", "min", "max"};
        if (below(4) == 0) return net_.op("clamp", {x}, {real("min_val", -0.7), real("max_val", 1.3)});
        return below(2) == 0 ? net_.op(one[below(4)], {x}) : net_.op(two[below(5)], {x, any()});
    }

    /// Returns a constant that i8 holds, or one that it does not.
    ValueId with_constant(ValueId x) {
        static const std::vector<double> numbers[] = {{0.75F}, {1, -2, 3}, {0.1F, 17.3F, -0.003F}};
        const std::vector<double>& given = numbers[below(3)];
        const ValueId c = net_.constant({static_cast<int64_t>(given.size())}, given);
        const ValueId wide = net_.constant({1, 4, 4, 3}, testing::random_numbers(below(99), 48, 2));
        switch (below(3)) {
            case 0:
                return net_.op("mul", {x, c});
            case 1:
                return where(net_.op("add", {x, c}), x, c);
            default:
                return part(net_.op("concat", {x, wide}, {integer("axis", 3)}), 1 + below(2));
        }
    }

    ValueId where(ValueId a, ValueId b, ValueId other) {
        const ValueId when =
            net_.graph.add_node("greater", {a, b}, {}, {{"Greater", "Greater"}, "when", ElemType::u8, {}});
        return net_.op("where", {when, a, other});
    }

    ValueId window(ValueId x) {
        static const char* modes[] = {"nearest", "linear"};
        const ValueId large =
            net_.op("resize", {x}, {ints("sizes", {1, 8, 8, 3}), word("mode", modes[below(2)])});
        return net_.pool(below(2) == 0 ? "maxpool" : "avgpool",
                         below(2) == 0 ? large : net_.op("relu", {large}));
    }

    ValueId part(ValueId x, uint64_t from) {
        const auto first = static_cast<int64_t>(from);
        return net_.op(
            "slice", {x},
            {ints("starts", {first}), ints("ends", {first + 3}), ints("axes", {3}), ints("steps", {1})});
    }

    ValueId joined(ValueId x) { return part(net_.op("concat", {x, any()}, {integer("axis", 3)}), below(4)); }

    ValueId moved(ValueId x) {
        if (below(2) == 0) return net_.op("transpose", {x}, {ints("perm", {0, 2, 1, 3})});
        static constexpr double padding[] = {0, 0.5, 3.21};
        const ValueId y = net_.op("pad", {x},
                                  {ints("pads", {0, 0, 0, 1, 0, 0, 0, 1}), word("mode", "constant"),
                                   real("constant_value", padding[below(3)])});
        return part(y, below(3));
    }

    ValueId selected(ValueId x) {
        if (below(2) == 0) {
            const ValueId most = net_.op("reduce_max", {x}, {ints("axes", {3}), integer("keepdims", 1)});
            return net_.op("max", {x, most});
        }
        if (below(2) == 0) {
            const std::vector<ValueId> parts =
                several("split", {x}, {integer("axis", 3), ints("split_sizes", {1, 2})},
                        {ElemType::f32, ElemType::f32});
            return net_.op("concat", {parts[1], below(2) == 0 ? converted(parts[0]) : parts[0]},
                           {integer("axis", 3)});
        }
        const std::vector<ValueId> best =
            several("top_k", {net_.reshape(x, {12, 4})}, {integer("k", 4), integer("largest", 1)},
                    {ElemType::f32, ElemType::i32, ElemType::i32});
        const ValueId places =
            net_.graph.add_node("cast", {best[1]}, {}, {{"Cast", "Cast"}, "c", ElemType::f32, {}});
        const ValueId values = below(2) == 0 ? converted(best[0]) : best[0];
        return net_.reshape(net_.op("add", {values, places}), {1, 4, 4, 3});
    }

    std::vector<ValueId> several(const char* opcode, const std::vector<ValueId>& operands,
                                 std::vector<BoundAttr> attrs, const std::vector<ElemType>& types) {
        graph::Node node = net_.graph.make_node(opcode, operands, graph::attributes(std::move(attrs)),
                                                {{opcode, opcode}, opcode, ElemType::f32, {}});
        for (size_t o = 0; o < types.size(); ++o) net_.graph.value(node.outputs.at(o)).elem = types[o];
        net_.graph.nodes.push_back(node);
        return node.outputs;
    }

    static constexpr double scales[] = {0.02F, 0.04F, 0.0171F, 0.1F, 1};
    static constexpr int64_t zeros[] = {0, 3, -117};

    SplitMix64 random_;
    Network net_;
    std::vector<ValueId> pool_;
};

std::vector<graph::Data> results(const Graph& graph, uint64_t seed) {
    std::vector<graph::Data> arrays;
    for (uint64_t i = 0; i < 2; ++i)
        arrays.push_back(graph::make_numbers(ElemType::f32, testing::random_numbers(seed + i, 48, 4)));
    std::vector<double> steps = testing::random_numbers(seed + 2, 48, 128);
    for (double& step : steps) step = std::floor(step);
    arrays.push_back(graph::make_numbers(ElemType::i8, steps));
    const auto engine = values::make_fast_backend();
    return graph::run_on_host(graph, *engine, arrays);
}

TEST(LiteralQdq, QuantizersRoundWhereTheyStand) {
    for (uint64_t seed = 1; seed <= 3000; ++seed) {
        const Graph model = RandomModel(seed).make();
        for (const bool on_device : {false, true}) {
            QuantizeOptions options;
            options.real = ElemType::f32;
            options.boundary_on_device = on_device;
            const QuantizeResult made = absorb_qdq(model, options);
            graph::check(made.graph);
            const auto wanted = results(model, seed), got = results(made.graph, seed);
            ASSERT_EQ(got.size(), wanted.size());
            for (size_t o = 0; o < got.size(); ++o) {
                ASSERT_EQ(got[o].size, wanted[o].size);
                ASSERT_EQ(std::memcmp(got[o].bytes, wanted[o].bytes, got[o].size), 0)
                    << "seed " << seed << ", output " << o;
            }
        }
    }
}

}  // namespace
}  // namespace kpu::quantize
