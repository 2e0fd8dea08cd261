// Results that leave the range of their type, counted by both engines: expected counts are worked out by hand.
#include <gmock/gmock.h>

#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::op;
using testing::Operand;
using ::testing::Pair;
using testing::per_tensor;
using testing::real_attr;

Operand floats(ElemType type, const std::vector<int64_t>& shape, const std::vector<double>& values) {
    Operand operand(type, shape);
    for (size_t i = 0; i < values.size(); ++i)
        store_float(type, operand.data(), static_cast<int64_t>(i), values[i]);
    return operand;
}

/// Below and above the range of y.
std::pair<uint64_t, uint64_t> count(const char* opcode, std::vector<Operand> inputs, Operand y,
                                    const BoundAttrs& attrs = {}) {
    std::vector<std::pair<uint64_t, uint64_t>> counts;
    for (const auto& backend : {make_reference_backend(), make_fast_backend()}) {
        Beyond beyond;
        std::vector<Tensor> in;
        for (Operand& operand : inputs) in.push_back(operand.tensor());
        Tensor out = y.tensor();
        out.beyond = &beyond;
        backend->execute(op(opcode), in, {out}, attrs);
        counts.emplace_back(beyond.below, beyond.above);
    }
    EXPECT_EQ(counts[0], counts[1]) << opcode;
    return counts[1];
}

std::pair<uint64_t, uint64_t> of_sum(ElemType type, const std::vector<double>& a,
                                     const std::vector<double>& b) {
    const auto n = static_cast<int64_t>(a.size());
    return count("add", {floats(type, {n}, a), floats(type, {n}, b)}, Operand(type, {n}));
}

TEST(Beyond, TheLastStepOfAFloatHasHalfAStepMore) {
    // 65504 + 15 is nearer to 65504 than to the 65536 that f16 does not have; 65504 + 16 is a tie, which goes up
    EXPECT_THAT(of_sum(ElemType::f16, {65504, 65504, -65504, -65504}, {15, 16, -15, -16}), Pair(1, 1));
    const double most = 0x1.fep127, step = 0x1p120;
    EXPECT_THAT(of_sum(ElemType::bf16, {most, most, -most}, {step / 4, step / 2, -step}), Pair(1, 1));
    // f32 overflows wherever the model runs
    EXPECT_THAT(of_sum(ElemType::f32, {3e38}, {3e38}), Pair(0, 0));
}

TEST(Beyond, InfinitiesAndNanThatWereThereDoNotCount) {
    EXPECT_THAT(of_sum(ElemType::f16, {HUGE_VAL, -HUGE_VAL, NAN, HUGE_VAL}, {1, 1, 1, -HUGE_VAL}),
                Pair(0, 0));
    // a division by 0 leaves the range of no type
    EXPECT_THAT(count("div", {floats(ElemType::f16, {2}, {1, -1}), floats(ElemType::f16, {2}, {0, 0})},
                      Operand(ElemType::f16, {2})),
                Pair(0, 0));
    EXPECT_THAT(count("log", {floats(ElemType::f16, {1}, {0})}, Operand(ElemType::f16, {1})), Pair(0, 0));
}

TEST(Beyond, EvenWhatBinary64DoesNotHold) {
    for (const ElemType type : {ElemType::f16, ElemType::posit16, ElemType::posit8}) {
        EXPECT_THAT(count("exp", {floats(type, {3}, {60, -60, 1})}, Operand(type, {3})), Pair(0, 1));
    }
    EXPECT_THAT(
        count("exp", {floats(ElemType::f16, {4}, {11, 12, 1000, HUGE_VAL})}, Operand(ElemType::f16, {4})),
        Pair(0, 2));
    EXPECT_THAT(count("sinh", {floats(ElemType::f16, {2}, {-5000, 5000})}, Operand(ElemType::f16, {2})),
                Pair(1, 1));
    // 0 to a negative power is a pole
    EXPECT_THAT(
        count("pow",
              {floats(ElemType::f16, {3}, {0, 60000, -60000}), floats(ElemType::f16, {3}, {-1, 99, 99})},
              Operand(ElemType::f16, {3})),
        Pair(1, 1));
}

TEST(Beyond, PositsSaturateAboveTheirLargest) {
    EXPECT_THAT(of_sum(ElemType::posit8, {64, 64, -64}, {0, 1, -32}), Pair(1, 1));
    EXPECT_THAT(of_sum(ElemType::posit16, {0x1p28, 0x1p27}, {0x1p20, 0x1p27}), Pair(0, 1));
}

// 464 is half way from 448 to what would be the next number, and 61440 from 57344: the first becomes the greatest by its tie.
TEST(Beyond, Float8SaturatesAboveItsLargest) {
    EXPECT_THAT(of_sum(ElemType::f8e4m3, {448, 448, -448, -256}, {16, 18, -32, -256}), Pair(2, 1));
    EXPECT_THAT(of_sum(ElemType::f8e5m2, {57344, 57344, -57344, HUGE_VAL}, {3584, 4096, -57344, 1}),
                Pair(1, 1));
    EXPECT_THAT(count("exp", {floats(ElemType::f8e5m2, {2}, {12, 1024})}, Operand(ElemType::f8e5m2, {2})),
                Pair(0, 2));
}

TEST(Beyond, ProductsCountOnceForAResult) {
    // rows of sums 4 * 200 * 100 = 80000, -80000, 0
    std::vector<double> a(12, 200);
    for (size_t i = 4; i < 8; ++i) a[i] = -200;
    for (size_t i = 8; i < 12; ++i) a[i] = i % 2 == 0 ? 200 : -200;
    const std::vector<double> b(8, 100);
    EXPECT_THAT(count("gemm", {floats(ElemType::f16, {3, 4}, a), floats(ElemType::f16, {4, 2}, b)},
                      Operand(ElemType::f16, {3, 2})),
                Pair(2, 2));
    EXPECT_THAT(count("gemm", {floats(ElemType::f16, {3, 4}, a), floats(ElemType::f16, {4, 2}, b)},
                      Operand(ElemType::f32, {3, 2})),
                Pair(0, 0));
}

TEST(Beyond, SumsOfBf16MayBeInfiniteBeforeTheyAreRounded) {
    const Operand b = floats(ElemType::bf16, {2, 2}, {1e30, -1e30, 1e30, HUGE_VAL});
    EXPECT_THAT(
        count("gemm", {floats(ElemType::bf16, {1, 2}, {1e30, 1e30}), b}, Operand(ElemType::bf16, {1, 2})),
        Pair(0, 1));
}

TEST(Beyond, StepsOfIntegers) {
    const auto quantize = [](ElemType type, double scale, int64_t zero, const std::vector<double>& values) {
        const auto n = static_cast<int64_t>(values.size());
        Operand y(type, {n});
        y.quant = per_tensor(scale, zero);
        return count("quantize", {floats(ElemType::f32, {n}, values)}, y);
    };
    // steps -128 to 127: 127.5 is a tie that goes to 128, -128.5 one that goes to -128
    EXPECT_THAT(quantize(ElemType::i8, 1, 0, {127.4, 127.5, -128.5, -128.6, 1e9, -1e9, NAN, 0}), Pair(2, 2));
    EXPECT_THAT(quantize(ElemType::u8, 0.5, 10, {-5, -5.5, 122.5, 123.5}), Pair(1, 1));
    // what is infinite already is not the doing of the steps
    EXPECT_THAT(quantize(ElemType::i8, 1, 0, {HUGE_VAL, -HUGE_VAL}), Pair(0, 0));
}

TEST(Beyond, IntegerProductsAndPlainIntegers) {
    Operand a(ElemType::i8, {1, 2}), b(ElemType::i8, {2, 3}), y(ElemType::i8, {1, 3});
    a.set<int8_t>({100, 100});
    b.set<int8_t>({1, 2, -3, 0, 0, 0});
    a.quant = b.quant = y.quant = per_tensor(1, 0);
    EXPECT_THAT(count("gemm", {a, b}, y), Pair(1, 1));
    Operand sums(ElemType::i32, {1, 3});  // wrap, as they are meant to
    EXPECT_THAT(count("gemm.acc", {a, b}, sums), Pair(0, 0));
    EXPECT_THAT(
        count("cast", {floats(ElemType::f32, {4}, {3e9, -3e9, 7, 2147483520})}, Operand(ElemType::i32, {4})),
        Pair(1, 1));
    EXPECT_THAT(count("cast", {floats(ElemType::f32, {3}, {-0.9, -1, 255.9})}, Operand(ElemType::u8, {3})),
                Pair(1, 0));
}

}  // namespace
}  // namespace kpu::values
