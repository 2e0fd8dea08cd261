// The reference engine against results computed by hand from the definitions.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/values/helpers.hpp"
#include "values/convert.hpp"

namespace kpu::values {
namespace {

using testing::integer_attr;
using testing::ints_attr;
using testing::op;
using testing::Operand;
using testing::per_tensor;

void run(const char* opcode, std::vector<Operand*> inputs, Operand& output, const BoundAttrs& attrs = {}) {
    std::vector<Tensor> in;
    for (Operand* operand : inputs) in.push_back(operand->tensor());
    make_reference_backend()->execute(op(opcode), in, {output.tensor()}, attrs);
}

Operand floats(std::vector<int64_t> shape, std::vector<float> values) {
    Operand operand(ElemType::f32, shape);
    operand.set(values);
    return operand;
}
Operand bytes(std::vector<int64_t> shape, std::vector<int8_t> values) {
    Operand operand(ElemType::i8, shape);
    operand.set(values);
    return operand;
}

// One fused multiply-add per step: the product is not rounded before it is added.
TEST(Reference, GemmFusesEachStep) {
    const float a = 1.0F + 0x1p-12F;  // a * a = 1 + 2^-11 + 2^-24, the last term lost when rounded
    Operand left = floats({1, 2}, {-1.0F, a});
    Operand right = floats({2, 1}, {1.0F + 0x1p-11F, a});
    Operand y(ElemType::f32, {1, 1});
    run("gemm", {&left, &right}, y);
    EXPECT_EQ(y.get<float>()[0], 0x1p-24F);
}

// k ascends, and a bias of gemm comes last where the addend of gemm.acc comes first: in f32 the orders
// differ.
TEST(Reference, GemmOrderOfAddition) {
    Operand left = floats({1, 2}, {1.0F, 1.0F});
    Operand right = floats({2, 1}, {1.0F, 0x1p25F});
    Operand c = floats({1, 1}, {-0x1p25F});
    Operand y(ElemType::f32, {1, 1});
    run("gemm", {&left, &right, &c}, y);
    EXPECT_EQ(y.get<float>()[0], 0.0F);  // (1 + 2^25) rounds to 2^25
    Operand small = floats({2, 1}, {0x1p25F, 1.0F});
    run("gemm.acc", {&left, &small, &c}, y);
    EXPECT_EQ(y.get<float>()[0], 1.0F);  // (-2^25 + 2^25) + 1
}

// f16 results are rounded once from the f32 accumulator, to even; NaNs come out canonical.
TEST(Reference, GemmRoundsOnceToF16) {
    Operand a(ElemType::f16, {2, 2});
    a.set<uint16_t>({f16_of(2048), f16_of(1), 0xfe01, f16_of(1)});  // 0xfe01: a negative NaN with payload
    Operand b(ElemType::f16, {2, 1});
    b.set<uint16_t>({f16_of(1), f16_of(1)});
    Operand y(ElemType::f16, {2, 1});
    run("gemm", {&a, &b}, y);
    EXPECT_EQ(y.get<uint16_t>(), (std::vector<uint16_t>{f16_of(2048), f16_nan}));  // 2049 is a tie
}

// acc = (10-1)(4-0) + (20-1)(5-0) + 3 = 134; y = round_half_even(134 * 0.5 * 0.25 / 1.0 = 16.75) - 2 = 15.
TEST(Reference, QuantisedGemm) {
    Operand a = bytes({1, 2}, {10, 20});
    Operand b = bytes({2, 1}, {4, 5});
    Operand c(ElemType::i32, {1});
    c.set<int32_t>({3});
    Operand y = bytes({1, 1}, {0});
    a.quant = per_tensor(0.5, 1);
    b.quant = per_tensor(0.25, 0);
    y.quant = per_tensor(1.0, -2);
    run("gemm", {&a, &b, &c}, y);
    EXPECT_EQ(y.get<int8_t>()[0], 15);
    c.set<int32_t>({-131 + 20});  // acc = 20: 2.5 is a tie and goes to 2
    run("gemm", {&a, &b, &c}, y);
    EXPECT_EQ(y.get<int8_t>()[0], 0);
}

// Without quantisation the accumulator saturates; gemm.acc gives it whole and wraps modulo 2^32.
TEST(Reference, IntegerGemmSaturatesAndWraps) {
    Operand a = bytes({1, 2}, {-128, -128});
    Operand b = bytes({2, 1}, {-128, -128});
    Operand y = bytes({1, 1}, {0});
    run("gemm", {&a, &b}, y);
    EXPECT_EQ(y.get<int8_t>()[0], 127);
    Operand c(ElemType::i32, {1, 1});
    c.set<int32_t>({INT32_MAX});
    Operand acc(ElemType::i32, {1, 1});
    run("gemm.acc", {&a, &b, &c}, acc);
    EXPECT_EQ(acc.get<int32_t>()[0], INT32_MIN + 32767);
}

// Two groups of weights: acc_0 = 1*2, acc_1 = 3*4; y = round(2*0.5 + 12*0.25 + 8*0.125) = 5.
TEST(Reference, WeightsInGroups) {
    Operand a = bytes({1, 2}, {1, 3});
    Operand b(ElemType::i4, {2, 1});
    b.set<int8_t>({2, 4});
    b.quant.kind = proto::Quant::PER_GROUP;
    b.quant.group_size = 1;
    b.quant.scales = {0.5, 0.25};
    b.quant.zero_points = {0, 0};
    Operand c(ElemType::i32, {1});
    c.set<int32_t>({8});
    c.quant = per_tensor(0.125, 0);
    Operand y = bytes({1, 1}, {0});
    run("gemm", {&a, &b, &c}, y);
    EXPECT_EQ(y.get<int8_t>()[0], 5);
}

// K of 3 in groups of 2, zero point 1 of A: sums of a are 9 + 19 and 29, acc_0 = 9*2 + 19*3 = 75 and acc_1 = 29*(-4); with
// zero points 1 and -2: 75 - 28 = 47 and -116 + 58 = -58. Y = C + 47*0.5*0.25 - 58*0.5*2.
TEST(Reference, ScalesOfGroups) {
    Operand a = bytes({1, 3}, {10, 20, 30});
    a.quant = per_tensor(0.5, 1);
    Operand b(ElemType::i4, {3, 1});
    b.set<int8_t>({2, 3, -4});
    Operand s = floats({2, 1}, {0.25, 2}), with_zeros = floats({2, 2, 1}, {0.25, 2, 1, -2});
    Operand c = floats({1}, {1000});
    Operand y(ElemType::f32, {1, 1});
    BoundAttrs attrs;
    attrs.list = {integer_attr("group_size", 2)};
    run("gemm.group", {&a, &b, &s}, y, attrs);
    EXPECT_EQ(y.get<float>()[0], 75 * 0.125F - 116);
    run("gemm.group", {&a, &b, &with_zeros, &c}, y, attrs);
    EXPECT_EQ(y.get<float>()[0], 1000 + 47 * 0.125F - 58);
}

// pads = [top, left, bottom, right]: a 2x2 image under a 2x2 kernel of ones with one row of padding above.
TEST(Reference, ConvPads) {
    Operand x = floats({1, 2, 2, 1}, {1, 2, 3, 4});
    Operand w = floats({2, 2, 1, 1}, {1, 10, 100, 1000});
    Operand y(ElemType::f32, {1, 2, 1, 1});
    BoundAttrs attrs;
    attrs.list = {ints_attr("pads", {1, 0, 0, 0}), ints_attr("strides", {1, 1}),
                  ints_attr("dilations", {1, 1})};
    run("conv2d", {&x, &w}, y, attrs);
    EXPECT_EQ(y.get<float>(), (std::vector<float>{2100, 4321}));
}

// A smaller output than derived: the first rows and columns of the whole result.
TEST(Reference, ConvSmallerOutputStartsAtTheTopLeft) {
    Operand x = floats({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
    Operand w = floats({1, 1, 1, 1}, {10});
    Operand y(ElemType::f32, {1, 1, 2, 1});
    run("conv2d", {&x, &w}, y, testing::plain_window());
    EXPECT_EQ(y.get<float>(), (std::vector<float>{10, 20}));
}

// One plane with one of padding in front, every second position: the window sees the padding, not the plane.
TEST(Reference, ConvOfOnePlaneWithPaddingInFront) {
    Operand x = floats({1, 1, 1, 1, 1}, {7});
    Operand w = floats({1, 1, 1, 1, 1}, {10});
    Operand y(ElemType::f32, {1, 1, 1, 1, 1});
    BoundAttrs attrs;
    attrs.list = {ints_attr("pads", {1, 0, 0, 0, 0, 0}), ints_attr("strides", {2, 1, 1}),
                  ints_attr("dilations", {1, 1, 1})};
    run("conv3d", {&x, &w}, y, attrs);
    EXPECT_EQ(y.get<float>()[0], 0.0F);
}

// Padded positions are skipped: an infinite weight there does not make a NaN.
TEST(Reference, ConvSkipsPadding) {
    Operand x = floats({1, 1, 1, 1}, {5});
    Operand w = floats({1, 2, 1, 1}, {HUGE_VALF, 2});
    Operand y(ElemType::f32, {1, 1, 1, 1});
    BoundAttrs attrs;
    attrs.list = {ints_attr("pads", {0, 1, 0, 0}), ints_attr("strides", {1, 1}),
                  ints_attr("dilations", {1, 1})};
    run("conv2d", {&x, &w}, y, attrs);
    EXPECT_EQ(y.get<float>()[0], 10.0F);
}

// Groups: each output channel sees only its group's inputs.
TEST(Reference, ConvGroups) {
    Operand x = floats({1, 1, 1, 2}, {3, 5});
    Operand w = floats({1, 1, 1, 2}, {10, 100});
    Operand y(ElemType::f32, {1, 1, 1, 2});
    BoundAttrs attrs = testing::plain_window();
    attrs.list.push_back(integer_attr("groups", 2));
    run("conv2d", {&x, &w}, y, attrs);
    EXPECT_EQ(y.get<float>(), (std::vector<float>{30, 500}));
}

// relu is IEEE 754-2019 maximum with +0: NaN propagates as the canonical one, -0 becomes +0.
TEST(Reference, Relu) {
    Operand x = floats({4}, {-0.0F, -3, 2, float_of(0xffc12345)});
    Operand y(ElemType::f32, {4});
    run("relu", {&x}, y);
    EXPECT_EQ(y.get<uint32_t>(), (std::vector<uint32_t>{0, 0, bits_of(2.0F), f32_nan}));
}

// i8 add saturates; with quantisation it works on real values: (10-2)*0.5 + (6-0)*0.25 = 5.5, / 0.5 = 11, + 1
// = 12.
TEST(Reference, Add) {
    Operand a = bytes({2}, {100, -100});
    Operand b = bytes({2}, {100, -100});
    Operand y = bytes({2}, {0, 0});
    run("add", {&a, &b}, y);
    EXPECT_EQ(y.get<int8_t>(), (std::vector<int8_t>{127, -128}));
    a.set<int8_t>({10, 2});
    b.set<int8_t>({6, 0});
    a.quant = per_tensor(0.5, 2);
    b.quant = per_tensor(0.25, 0);
    y.quant = per_tensor(0.5, 1);
    run("add", {&a, &b}, y);
    EXPECT_EQ(y.get<int8_t>(), (std::vector<int8_t>{12, 1}));
}

// Padding of maxpool never wins, not even over negative values.
TEST(Reference, Maxpool) {
    Operand x = bytes({1, 1, 2, 1}, {-5, -7});
    Operand y = bytes({1, 1, 2, 1}, {0, 0});
    BoundAttrs attrs;
    attrs.list = {ints_attr("kernel_shape", {1, 2}), ints_attr("pads", {0, 1, 0, 0}),
                  ints_attr("strides", {1, 1})};
    run("maxpool", {&x}, y, attrs);
    EXPECT_EQ(y.get<int8_t>(), (std::vector<int8_t>{-5, -5}));
}

// x = (3, 4), mean of squares 12.5, epsilon 0: x / sqrt(12.5) * scale.
TEST(Reference, Rmsnorm) {
    Operand x = floats({2}, {3, 4});
    Operand scale = floats({2}, {1, 2});
    Operand y(ElemType::f32, {2});
    BoundAttrs attrs;
    attrs.list = {integer_attr("axis", -1), testing::real_attr("epsilon", 0.0)};
    run("rmsnorm", {&x, &scale}, y, attrs);
    EXPECT_EQ(y.get<float>()[0], static_cast<float>(3 / std::sqrt(12.5)));
    EXPECT_EQ(y.get<float>()[1], static_cast<float>(4 / std::sqrt(12.5) * 2));
}

// cast: toward zero and saturating from floats, NaN to 0; integers saturate; one rounding into floats.
TEST(Reference, Cast) {
    Operand x = floats({5}, {-1.75F, 1e9F, -HUGE_VALF, NAN, 126.99F});
    Operand y = bytes({5}, {});
    run("cast", {&x}, y);
    EXPECT_EQ(y.get<int8_t>(), (std::vector<int8_t>{-1, 127, -128, 0, 126}));
    Operand big(ElemType::i32, {2});
    big.set<int32_t>({2049, -40000});
    Operand half(ElemType::f16, {2});
    run("cast", {&big}, half);
    EXPECT_EQ(half.get<uint16_t>(), (std::vector<uint16_t>{f16_of(2048), f16_of(-40000)}));
    Operand word(ElemType::i16, {2});
    run("cast", {&big}, word);
    EXPECT_EQ(word.get<int16_t>(), (std::vector<int16_t>{2049, -32768}));
}

// quantize rounds half to even, then adds the zero point, then saturates; dequantize undoes the affine map.
TEST(Reference, QuantizeAndBack) {
    Operand x = floats({4}, {0.25F, 0.75F, 1000, -0.75F});
    Operand q = bytes({4}, {});
    q.quant = per_tensor(0.5, 10);
    run("quantize", {&x}, q);
    EXPECT_EQ(q.get<int8_t>(), (std::vector<int8_t>{10, 12, 127, 8}));
    Operand back(ElemType::f32, {4});
    run("dequantize", {&q}, back);
    EXPECT_EQ(back.get<float>(), (std::vector<float>{0, 1, 58.5F, -1}));
}

// A conversion looks at the quantisation of one side only: cast at none, quantize not at its source's.
TEST(Reference, ConversionsIgnoreOtherQuantisation) {
    Operand x = bytes({2}, {-3, 100});
    x.quant = per_tensor(0.5, 7);
    Operand word(ElemType::i16, {2});
    run("cast", {&x}, word);
    EXPECT_EQ(word.get<int16_t>(), (std::vector<int16_t>{-3, 100}));
    Operand real = floats({1}, {4});
    real.quant = per_tensor(3.0, 0);
    Operand q = bytes({1}, {});
    q.quant = per_tensor(2.0, 1);
    run("quantize", {&real}, q);
    EXPECT_EQ(q.get<int8_t>(), (std::vector<int8_t>{3}));
}

// requant per channel: (acc) * (s_in[c] / s_out), rounded half to even, plus the output zero point.
TEST(Reference, Requant) {
    Operand acc(ElemType::i32, {2, 2});
    acc.set<int32_t>({5, 5, -1000, 100000});
    acc.quant.kind = proto::Quant::PER_CHANNEL;
    acc.quant.axis = 1;
    acc.quant.scales = {0.25, 1.0};
    acc.quant.zero_points = {0, 0};
    Operand y = bytes({2, 2}, {});
    y.quant = per_tensor(0.5, -1);
    run("requant", {&acc}, y);
    EXPECT_EQ(y.get<int8_t>(), (std::vector<int8_t>{1, 9, -128, 127}));  // 2.5 -> 2, 10, -500, 200000
}

}  // namespace
}  // namespace kpu::values
