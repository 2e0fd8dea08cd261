// Places and choices in rows longer than a small L1: equal numbers, NaN, and steps of quantised tensors.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "compiler/graph/data.hpp"
#include "compiler/passes/fit/fit_tiles.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::integer;
using graph::ints;
using ::testing::HasSubstr;

constexpr uint64_t small_l1 = 16384;

BoundQuant steps_of(double scale) {
    BoundQuant steps;
    steps.kind = proto::Quant::PER_TENSOR;
    steps.scales = {scale};
    steps.zero_points = {3};
    return steps;
}

/// Few different numbers, so that each stands there often; some of them are no numbers.
std::vector<float> numbers_of(Random& random, int64_t count, bool nan) {
    std::vector<float> numbers;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t number = pick(random, -4, 4);
        numbers.push_back(number == 0 ? -0.0F : static_cast<float>(number) / 2);
    }
    if (nan) {
        for (int i = 0; i < 3; ++i) numbers[static_cast<size_t>(pick(random, 0, count - 1))] = NAN;
    }
    return numbers;
}

enum class Kind : uint8_t { floats, with_nan, quantised };

/// Returns one node on x, before and after the pass: the same bits. Its opcodes then.
std::string fitted(const std::vector<int64_t>& shape, const std::string& opcode, const BoundAttrs& attrs,
                   Kind kind, size_t outputs = 1) {
    Builder b{static_cast<uint64_t>(shape[0] + shape.back())};
    ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims(shape));
    if (kind == Kind::quantised)
        x = b.graph.add_node("quantize", {x}, {},
                             {{"q", "QuantizeLinear"}, {}, ElemType::i8, steps_of(0.25)});
    graph::NodeOptions made{{"n", "Node"}, {}, ElemType::none, b.graph.value(x).quant};
    if (opcode == "argmax" || opcode == "argmin") made.elem = ElemType::i32, made.quant = {};
    if (opcode == "reduce_mean" || opcode == "reduce_max") {
        if (kind == Kind::quantised) made.quant = steps_of(0.125);
    }
    const ValueId first = b.graph.add_node(opcode, {x}, attrs, made);
    for (size_t o = 0; o < outputs; ++o) output(b.graph, first + static_cast<ValueId>(o));
    Random random(7);
    const Data input =
        graph::testing::data_of(numbers_of(random, graph::dims(shape).product(), kind == Kind::with_nan));
    const auto before = run_on_host(b.graph, engine(), {input});
    Options with_l1 = options();
    with_l1.l1_bytes = small_l1;
    fit_tiles(b.graph, with_l1);
    graph::check(b.graph);
    const auto after = run_on_host(b.graph, engine(), {input});
    EXPECT_EQ(before.size(), after.size());
    for (size_t o = 0; o < before.size(); ++o) {
        EXPECT_EQ(before[o].size, after[o].size);
        EXPECT_EQ(std::memcmp(before[o].bytes, after[o].bytes, before[o].size), 0) << opcode << " " << o;
    }
    return opcodes_of(b.graph);
}

BoundAttrs along(int64_t axis, bool keep, bool last) {
    return attributes({integer("axis", axis), integer("keepdims", keep ? 1 : 0),
                       integer("select_last_index", last ? 1 : 0)});
}

TEST(FitSearch, PlacesInLongRowsAreThoseOfTheBestPart) {
    for (const char* opcode : {"argmax", "argmin"}) {
        const std::string best = std::string(opcode) == "argmax" ? "reduce_max" : "reduce_min";
        for (const bool last : {false, true}) {
            for (const Kind kind : {Kind::floats, Kind::with_nan}) {
                EXPECT_EQ(fitted({2, 9000}, opcode, along(1, false, last), kind),
                          "reshape " + best + " " + opcode + " reshape reshape add " + opcode +
                              " gather_elements reshape");
                EXPECT_THAT(fitted({9001, 3}, opcode, along(0, true, last), kind), HasSubstr("slice"));
                fitted({2, 70000, 2}, opcode, along(-2, true, last), kind);  // parts of parts
                fitted({3, 4500, 20}, opcode, along(1, false, last), kind);
                EXPECT_EQ(fitted({3, 1500}, opcode, along(1, false, last), kind), opcode);
            }
            EXPECT_THAT(fitted({2, 17000}, opcode, along(1, false, last), Kind::quantised), HasSubstr(best));
        }
    }
}

TEST(FitSearch, StepsOfLongRowsAreReducedExactly) {
    const BoundAttrs rows = attributes({ints("axes", {1}), integer("keepdims", 1)});
    EXPECT_EQ(fitted({2, 17000}, "reduce_max", rows, Kind::quantised),
              "quantize reshape reduce_max reduce_max");
    EXPECT_EQ(fitted({2, 17000}, "reduce_mean", rows, Kind::quantised),
              "quantize dequantize reshape reduce_mean reduce_mean quantize");
}

TEST(FitSearch, TheFirstOfLongRowsAreThoseOfParts) {
    const auto top = [](int64_t k, int64_t largest) {
        return attributes({integer("k", k), integer("largest", largest)});
    };
    for (const int64_t largest : {0, 1}) {
        for (const Kind kind : {Kind::floats, Kind::with_nan, Kind::quantised}) {
            EXPECT_THAT(fitted({2, 5000}, "top_k", top(7, largest), kind, 2),
                        HasSubstr("slice top_k concat add concat top_k gather_elements"));
            EXPECT_THAT(fitted({1, 4096}, "top_k", top(100, largest), kind, 2), HasSubstr("gather_elements"));
            // the places that are left are a long row themselves
            EXPECT_THAT(fitted({2, 9001}, "top_k", top(300, largest), kind, 2),
                        HasSubstr("gather_elements greater_equal where"));
        }
        const std::string fits = fitted({3, 500}, "top_k", top(20, largest), Kind::floats, 2);
        EXPECT_EQ(fits, "top_k");
    }
}

}  // namespace
}  // namespace kpu::passes
