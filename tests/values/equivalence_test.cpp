// The fast engine against the reference, bit for bit, for every kernel set this machine can run.
#include <gtest/gtest.h>

#include "tests/values/helpers.hpp"
#include "values/fast/fast.hpp"

namespace kpu::values {
namespace {

using testing::fill;
using testing::integer_attr;
using testing::ints_attr;
using testing::op;
using testing::Operand;
using testing::pick;
using testing::Random;
using testing::random_quant;

class Equivalence : public ::testing::Test {
  protected:
    /// Runs the operation on the reference and on every kernel set and compares the bytes of the output.
    void compare(const char* opcode, std::vector<Operand>& inputs, Operand& output, const BoundAttrs& attrs) {
        std::vector<Tensor> in;
        for (Operand& operand : inputs) in.push_back(operand.tensor());
        Beyond wanted;
        reference_->execute(op(opcode), in, {counted(output, wanted)}, attrs);
        const auto expected = output.get<uint8_t>();
        const fast::KernelList list = fast::usable_kernels();
        for (int k = 0; k < list.count; ++k) {
            std::fill(output.storage.begin(), output.storage.end(), 0x5a5a5a5aU);
            Beyond beyond;
            backends_[k]->execute(op(opcode), in, {counted(output, beyond)}, attrs);
            const auto got = output.get<uint8_t>();
            std::string text;
            for (const Tensor& t : in) text += describe(t) + " ";
            ASSERT_EQ(beyond.below, wanted.below) << opcode << " " << text << list.items[k]->name;
            ASSERT_EQ(beyond.above, wanted.above) << opcode << " " << text << list.items[k]->name;
            for (size_t i = 0; i < got.size(); ++i) {
                ASSERT_EQ(got[i], expected[i]) << opcode << " " << text << "-> " << describe(output.tensor())
                                               << " byte " << i << " with " << list.items[k]->name;
            }
        }
    }
    static Tensor counted(Operand& output, Beyond& beyond) {
        Tensor tensor = output.tensor();
        tensor.beyond = &beyond;
        return tensor;
    }
    void SetUp() override {
        const fast::KernelList list = fast::usable_kernels();
        for (int k = 0; k < list.count; ++k) backends_.push_back(fast::make_backend(*list.items[k]));
    }

    Random random_{11};
    std::unique_ptr<ComputeBackend> reference_ = make_reference_backend();
    std::vector<std::unique_ptr<ComputeBackend>> backends_;
};

struct FloatTypes {
    ElemType a, b, y;
};
constexpr FloatTypes float_types[] = {{ElemType::f16, ElemType::f16, ElemType::f16},
                                      {ElemType::bf16, ElemType::bf16, ElemType::bf16},
                                      {ElemType::f32, ElemType::f32, ElemType::f32},
                                      {ElemType::f16, ElemType::bf16, ElemType::f32},
                                      {ElemType::posit8, ElemType::posit8, ElemType::posit8},
                                      {ElemType::posit16, ElemType::posit16, ElemType::posit16},
                                      {ElemType::posit8, ElemType::posit16, ElemType::f32},
                                      {ElemType::posit8_es2, ElemType::posit8_es2, ElemType::posit8_es2},
                                      {ElemType::posit16_es2, ElemType::posit16_es0, ElemType::posit8_es1},
                                      {ElemType::f8e4m3, ElemType::f8e4m3, ElemType::f8e4m3},
                                      {ElemType::f8e5m2, ElemType::f8e4m3, ElemType::f8e5m2},
                                      {ElemType::f8e5m2, ElemType::f8e5m2, ElemType::f32}};
struct IntTypes {
    ElemType a, b, y;
};
constexpr IntTypes int_types[] = {
    {ElemType::i8, ElemType::i8, ElemType::i8},   {ElemType::i8, ElemType::i8, ElemType::i16},
    {ElemType::i8, ElemType::i4, ElemType::i8},   {ElemType::i4, ElemType::i4, ElemType::i4},
    {ElemType::u8, ElemType::i8, ElemType::u8},   {ElemType::i8, ElemType::u8, ElemType::i8},
    {ElemType::i16, ElemType::i8, ElemType::i16}, {ElemType::i16, ElemType::i16, ElemType::i16}};

struct GemmShape {
    std::vector<int64_t> batch;
    int64_t m, n, k;
};
const GemmShape gemm_shapes[] = {{{}, 1, 1, 1},    {{}, 3, 5, 7},      {{}, 13, 33, 17}, {{}, 8, 64, 300},
                                 {{2}, 5, 16, 9},  {{2, 2}, 4, 31, 6}, {{}, 97, 40, 21}, {{}, 4, 3, 0},
                                 {{}, 12, 32, 64}, {{}, 1, 100, 1030}, {{}, 2, 2, 2100}};

std::vector<int64_t> with(std::vector<int64_t> batch, int64_t rows, int64_t columns) {
    batch.push_back(rows);
    batch.push_back(columns);
    return batch;
}

// Float gemm, matmul and gemm.acc: same bits for all shapes and types, with biases and addends broadcast
// every way.
TEST_F(Equivalence, FloatGemm) {
    for (const GemmShape& s : gemm_shapes) {
        for (const FloatTypes& t : float_types) {
            for (int variant = 0; variant < 5; ++variant) {
                std::vector<Operand> in = {{t.a, with(s.batch, s.m, s.k)}, {t.b, with(s.batch, s.k, s.n)}};
                Operand y(t.y, with(s.batch, s.m, s.n));
                if (variant == 1) in.emplace_back(t.y, std::vector<int64_t>{s.n});
                if (variant == 2) in.emplace_back(t.y, with(s.batch, s.m, s.n));
                if (variant == 3) in.emplace_back(t.y, std::vector<int64_t>{s.m, 1});
                for (Operand& operand : in) fill(random_, operand, variant % 2 == 0);
                compare(variant == 4 ? "matmul" : "gemm", in, y, {});
                if (t.y == ElemType::f32 && variant < 4) compare("gemm.acc", in, y, {});
            }
        }
    }
}

// Integer gemm and gemm.acc: same values with and without quantisation, zero points, per-channel weights,
// biases.
TEST_F(Equivalence, IntGemm) {
    for (const GemmShape& s : gemm_shapes) {
        for (const IntTypes& t : int_types) {
            for (int variant = 0; variant < 6; ++variant) {
                std::vector<Operand> in = {{t.a, with(s.batch, s.m, s.k)}, {t.b, with(s.batch, s.k, s.n)}};
                if (variant % 2 == 1) in.emplace_back(ElemType::i32, std::vector<int64_t>{s.n});
                Operand y(t.y, with(s.batch, s.m, s.n));
                const bool zeros = variant != 2;
                if (variant > 0) {
                    const int columns = in[1].shape.rank - 1;
                    in[0].quant = random_quant(random_, in[0], -1, zeros);
                    in[1].quant = random_quant(random_, in[1], variant >= 4 ? columns : -1, zeros);
                    y.quant = random_quant(random_, y, variant == 5 ? y.shape.rank - 1 : -1, zeros);
                }
                for (Operand& operand : in) fill(random_, operand, false);
                compare("gemm", in, y, {});
                Operand accumulators(ElemType::i32, with(s.batch, s.m, s.n));
                compare("gemm.acc", in, accumulators, {});
            }
        }
    }
}

struct ConvShape {
    int64_t batch, height, width, channels, kernel_h, kernel_w, out_channels, groups;
    std::vector<int64_t> pads, strides, dilations;
};
const ConvShape conv_shapes[] = {{1, 1, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, {1, 1}, {1, 1}},
                                 {2, 7, 9, 3, 3, 3, 5, 1, {1, 1, 1, 1}, {1, 1}, {1, 1}},
                                 {1, 11, 6, 8, 3, 2, 33, 1, {2, 0, 1, 3}, {2, 1}, {1, 2}},
                                 {1, 8, 8, 6, 3, 3, 6, 6, {1, 1, 1, 1}, {1, 1}, {2, 2}},
                                 {1, 5, 30, 4, 1, 5, 16, 2, {0, 4, 0, 4}, {1, 2}, {1, 1}},
                                 {1, 4, 4, 16, 3, 3, 40, 1, {5, 5, 5, 5}, {3, 3}, {1, 1}},
                                 {1, 6, 6, 0, 3, 3, 4, 1, {1, 1, 1, 1}, {1, 1}, {1, 1}}};

BoundAttrs window_attrs(const ConvShape& s) {
    BoundAttrs attrs;
    attrs.list = {ints_attr("pads", s.pads), ints_attr("strides", s.strides),
                  ints_attr("dilations", s.dilations), integer_attr("groups", s.groups)};
    return attrs;
}
int64_t derived(int64_t size, int64_t before, int64_t after, int64_t dilation, int64_t kernel,
                int64_t stride) {
    return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}
std::vector<int64_t> output_shape(const ConvShape& s, int64_t smaller) {
    const int64_t h = derived(s.height, s.pads[0], s.pads[2], s.dilations[0], s.kernel_h, s.strides[0]);
    const int64_t w = derived(s.width, s.pads[1], s.pads[3], s.dilations[1], s.kernel_w, s.strides[1]);
    return {s.batch, std::max<int64_t>(h - smaller, 1), std::max<int64_t>(w - smaller, 1), s.out_channels};
}

// Float conv2d and conv2d.acc: padding, strides, dilations, groups, outputs smaller than derived.
TEST_F(Equivalence, FloatConv) {
    for (const ConvShape& s : conv_shapes) {
        for (const FloatTypes& t : float_types) {
            for (int variant = 0; variant < 4; ++variant) {
                std::vector<Operand> in = {
                    {t.a, {s.batch, s.height, s.width, s.channels}},
                    {t.b, {s.kernel_h, s.kernel_w, s.channels / s.groups, s.out_channels}}};
                Operand y(t.y, output_shape(s, variant == 3 ? 1 : 0));
                if (variant == 1) in.emplace_back(t.y, std::vector<int64_t>{s.out_channels});
                if (variant == 2) in.emplace_back(t.y, output_shape(s, 0));
                for (Operand& operand : in) fill(random_, operand, variant % 2 == 0);
                if (variant != 2) compare("conv2d", in, y, window_attrs(s));
                if (t.y == ElemType::f32) compare("conv2d.acc", in, y, window_attrs(s));
            }
        }
    }
}

// Integer conv2d and conv2d.acc: padding adds nothing whatever the zero point.
TEST_F(Equivalence, IntConv) {
    for (const ConvShape& s : conv_shapes) {
        for (const IntTypes& t : int_types) {
            for (int variant = 0; variant < 4; ++variant) {
                std::vector<Operand> in = {
                    {t.a, {s.batch, s.height, s.width, s.channels}},
                    {t.b, {s.kernel_h, s.kernel_w, s.channels / s.groups, s.out_channels}}};
                Operand y(t.y, output_shape(s, variant == 3 ? 1 : 0));
                if (variant % 2 == 1) in.emplace_back(ElemType::i32, std::vector<int64_t>{s.out_channels});
                if (variant > 0) {
                    in[0].quant = random_quant(random_, in[0], -1, true);
                    in[1].quant = random_quant(random_, in[1], variant == 3 ? 3 : -1, variant > 1);
                    y.quant = random_quant(random_, y, -1, true);
                }
                for (Operand& operand : in) fill(random_, operand, false);
                compare("conv2d", in, y, window_attrs(s));
                Operand accumulators(ElemType::i32, output_shape(s, 0));
                compare("conv2d.acc", in, accumulators, window_attrs(s));
            }
        }
    }
}

// Weights quantised per group of input channels: one scale per group, summed in binary64.
TEST_F(Equivalence, GroupedWeights) {
    for (const int64_t k : {1, 8, 20, 64}) {
        std::vector<Operand> in = {{ElemType::i8, {5, k}}, {ElemType::i4, {k, 9}}, {ElemType::i32, {9}}};
        Operand y(ElemType::i8, {5, 9});
        in[0].quant = random_quant(random_, in[0], -1, true);
        in[1].quant = random_quant(random_, in[1], 0, true);
        in[1].quant.kind = proto::Quant::PER_GROUP;
        in[1].quant.group_size = 8;
        in[1].quant.scales.resize(static_cast<size_t>(k + 7) / 8);
        in[1].quant.zero_points.resize(static_cast<size_t>(k + 7) / 8);
        in[2].quant = testing::per_tensor(1e-9, 0);
        y.quant = testing::per_tensor(0.5, 3);
        for (Operand& operand : in) fill(random_, operand, false);
        compare("gemm", in, y, {});
    }
}

constexpr ElemType all_types[] = {
    ElemType::i4,         ElemType::i8,          ElemType::i16,    ElemType::i32,
    ElemType::u8,         ElemType::u16,         ElemType::u32,    ElemType::f16,
    ElemType::bf16,       ElemType::f32,         ElemType::posit8, ElemType::posit16,
    ElemType::posit8_es2, ElemType::posit16_es0, ElemType::f8e4m3, ElemType::f8e5m2};
constexpr int64_t counts[] = {1, 7, 16, 513, 1100};

// relu and add on every type, quantised per tensor, per channel or not.
TEST_F(Equivalence, Pointwise) {
    for (const ElemType type : all_types) {
        for (const int64_t count : counts) {
            for (int variant = 0; variant < (is_integer(type) ? 3 : 1); ++variant) {
                std::vector<Operand> in = {{type, {count, 3}}, {type, {count, 3}}};
                Operand y(type, {count, 3});
                if (variant > 0) {
                    for (Operand& operand : in)
                        operand.quant = random_quant(random_, operand, variant - 2, true);
                    y.quant = random_quant(random_, y, -1, true);
                }
                for (Operand& operand : in) fill(random_, operand, true);
                compare("add", in, y, {});
                in.pop_back();
                compare("relu", in, y, {});
            }
        }
    }
}

// cast between every pair of types, quantize and dequantize between every float and integer type, requant.
TEST_F(Equivalence, Conversions) {
    for (const ElemType from : all_types) {
        for (const ElemType to : all_types) {
            for (const int64_t count : counts) {
                std::vector<Operand> in = {{from, {2, count}}};
                Operand y(to, {2, count});
                fill(random_, in[0], true);
                compare("cast", in, y, {});
                const int axis = count == 7 ? 1 : -1;
                if (is_float(from) && is_integer(to)) {
                    y.quant = random_quant(random_, y, axis, true);
                    compare("quantize", in, y, {});
                }
                if (is_integer(from) && is_float(to)) {
                    in[0].quant = random_quant(random_, in[0], axis, true);
                    compare("dequantize", in, y, {});
                }
                if (from == ElemType::i32 && is_integer(to) && bit_width(to) <= 16 && to != ElemType::u16) {
                    in[0].quant = random_quant(random_, in[0], axis, true);
                    y.quant = random_quant(random_, y, -1, true);
                    compare("requant", in, y, {});
                }
            }
        }
    }
}

// Every other elementwise operation on every type that it takes; specials, odd counts, quantisation.
TEST_F(Equivalence, Elementwise) {
    struct Case {
        const char* name;
        bool binary;
    };
    const Case cases[] = {{"sigmoid", false}, {"tanh", false},  {"exp", false},        {"log", false},
                          {"sqrt", false},    {"abs", false},   {"neg", false},        {"gelu", false},
                          {"silu", false},    {"clamp", false}, {"leaky_relu", false}, {"sub", true},
                          {"mul", true},      {"div", true},    {"min", true},         {"max", true},
                          {"pow", true}};
    BoundAttrs attrs;
    attrs.list = {testing::real_attr("alpha", 0.1), testing::real_attr("min_val", -1.5),
                  testing::real_attr("max_val", 2.25)};
    for (const Case& c : cases) {
        for (const ElemType type : all_types) {
            for (const int64_t count : counts) {
                for (int variant = 0; variant < (is_integer(type) ? 3 : 1); ++variant) {
                    if (is_integer(type) && variant == 0 && opcode(op(c.name)).integers_need_quant) continue;
                    std::vector<Operand> in = {{type, {count, 3}}};
                    if (c.binary) in.emplace_back(type, std::vector<int64_t>{count, 3});
                    Operand y(type, {count, 3});
                    if (variant > 0) {
                        for (Operand& operand : in)
                            operand.quant = random_quant(random_, operand, variant - 2, true);
                        y.quant = random_quant(random_, y, -1, true);
                    }
                    for (Operand& operand : in) fill(random_, operand, true);
                    compare(c.name, in, y, attrs);
                }
            }
        }
    }
}

// maxpool and avgpool on every type.
TEST_F(Equivalence, Pools) {
    const ConvShape shapes[] = {{1, 4, 4, 3, 2, 2, 3, 1, {0, 0, 0, 0}, {2, 2}, {1, 1}},
                                {2, 7, 5, 17, 3, 3, 17, 1, {1, 1, 1, 1}, {1, 2}, {1, 1}},
                                {1, 3, 3, 1, 2, 2, 1, 1, {1, 0, 0, 1}, {1, 1}, {1, 1}}};
    for (const ConvShape& s : shapes) {
        for (const ElemType type : all_types) {
            for (int variant = 0; variant < (is_integer(type) ? 2 : 1); ++variant) {
                std::vector<Operand> in = {{type, {s.batch, s.height, s.width, s.channels}}};
                Operand y(type, output_shape(s, 0));
                if (variant > 0) {
                    in[0].quant = random_quant(random_, in[0], -1, true);
                    y.quant = random_quant(random_, y, -1, true);
                }
                fill(random_, in[0], true);
                BoundAttrs attrs;
                attrs.list = {ints_attr("kernel_shape", {s.kernel_h, s.kernel_w}), ints_attr("pads", s.pads),
                              ints_attr("strides", s.strides)};
                compare("maxpool", in, y, attrs);
                compare("avgpool", in, y, attrs);
            }
        }
    }
}

// Norms along every axis, with and without scale and bias; softmax and log_softmax.
TEST_F(Equivalence, Norms) {
    for (const char* name : {"rmsnorm", "layernorm", "softmax", "log_softmax"}) {
        const size_t vectors = opcode(op(name)).inputs.size() - 1;
        for (const ElemType type : {ElemType::f16, ElemType::bf16, ElemType::f32, ElemType::posit8,
                                    ElemType::posit16, ElemType::f8e4m3, ElemType::f8e5m2}) {
            for (const int64_t axis : {-1, 0, 1}) {
                for (const int64_t size : {1, 5, 64, 700}) {
                    std::vector<Operand> in = {{type, {19, 2, size}}};
                    BoundAttrs attrs;
                    attrs.list = {integer_attr("axis", axis), testing::real_attr("epsilon", 1e-5)};
                    Operand y(type, {19, 2, size});
                    fill(random_, in[0], size == 64);
                    compare(name, in, y, attrs);
                    for (size_t i = 0; i < vectors; ++i) {
                        in.emplace_back(type, std::vector<int64_t>{axis == -1 ? size : axis == 0 ? 19 : 2});
                        fill(random_, in.back(), false);
                        compare(name, in, y, attrs);
                    }
                }
            }
        }
    }
}

// Reductions over every set of axes, on every type, quantised or not; searches into several index types.
TEST_F(Equivalence, Reductions) {
    const std::vector<std::vector<int64_t>> sets = {{0}, {1}, {-1}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}};
    for (const ElemType type : all_types) {
        for (const auto& axes : sets) {
            for (int variant = 0; variant < (is_integer(type) ? 2 : 1); ++variant) {
                std::vector<Operand> in = {{type, {5, 3, 70}}};
                std::vector<int64_t> shape = {5, 3, 70};
                for (const int64_t axis : axes) shape[static_cast<size_t>(axis < 0 ? axis + 3 : axis)] = 1;
                Operand y(type, shape);
                if (variant > 0) {
                    in[0].quant = random_quant(random_, in[0], -1, true);
                    y.quant = random_quant(random_, y, -1, true);
                }
                fill(random_, in[0], true);
                BoundAttrs attrs;
                attrs.list = {ints_attr("axes", axes), integer_attr("axis", axes[0]),
                              integer_attr("keepdims", 1)};
                for (const char* name : {"reduce_sum", "reduce_max", "reduce_min"})
                    compare(name, in, y, attrs);
                if (axes.size() > 1) continue;
                for (const ElemType index : {ElemType::i8, ElemType::i32}) {
                    Operand found(index, shape);
                    for (const char* name : {"argmax", "argmin"}) compare(name, in, found, attrs);
                }
            }
        }
    }
}

// conv1d, conv3d and depthwise_conv2d on floats and integers, with biases.
TEST_F(Equivalence, OtherConvolutions) {
    struct Case {
        const char* name;
        std::vector<int64_t> x, w, y, pads, strides, dilations;
    };
    const Case cases[] = {
        {"conv1d", {2, 11, 6}, {3, 6, 10}, {2, 6, 10}, {2, 1}, {2}, {1}},
        {"conv1d", {1, 40, 4}, {5, 4, 33}, {1, 32, 33}, {0, 0}, {1}, {2}},
        {"conv3d",
         {1, 4, 5, 6, 3},
         {2, 3, 2, 3, 7},
         {1, 4, 3, 6, 7},
         {1, 1, 0, 0, 1, 1},
         {1, 2, 1},
         {1, 1, 1}},
        {"conv3d",
         {2, 3, 3, 3, 2},
         {1, 3, 3, 2, 4},
         {2, 3, 3, 3, 4},
         {0, 1, 1, 0, 1, 1},
         {1, 1, 1},
         {1, 1, 1}},
        {"conv3d",
         {2, 9, 7, 8, 5},
         {3, 2, 3, 5, 33},
         {2, 5, 4, 8, 33},
         {3, 1, 1, 2, 0, 1},
         {2, 2, 1},
         {2, 1, 1}},
        {"depthwise_conv2d", {1, 6, 7, 9}, {3, 3, 1, 9}, {1, 6, 7, 9}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
        {"depthwise_conv2d", {1, 6, 7, 5}, {2, 3, 1, 10}, {1, 3, 5, 10}, {0, 0, 0, 0}, {2, 1}, {1, 1}}};
    for (const Case& c : cases) {
        BoundAttrs attrs;
        attrs.list = {ints_attr("pads", c.pads), ints_attr("strides", c.strides),
                      ints_attr("dilations", c.dilations)};
        for (const bool bias : {false, true}) {
            for (const FloatTypes& t : float_types) {
                std::vector<Operand> in = {{t.a, c.x}, {t.b, c.w}};
                if (bias) in.emplace_back(t.y, std::vector<int64_t>{c.y.back()});
                Operand y(t.y, c.y);
                for (Operand& operand : in) fill(random_, operand, bias);
                compare(c.name, in, y, attrs);
            }
            for (const IntTypes& t : int_types) {
                std::vector<Operand> in = {{t.a, c.x}, {t.b, c.w}};
                if (bias) in.emplace_back(ElemType::i32, std::vector<int64_t>{c.y.back()});
                Operand y(t.y, c.y);
                in[0].quant = random_quant(random_, in[0], -1, true);
                in[1].quant = random_quant(random_, in[1], bias ? in[1].shape.rank - 1 : -1, true);
                y.quant = random_quant(random_, y, -1, true);
                for (Operand& operand : in) fill(random_, operand, false);
                compare(c.name, in, y, attrs);
            }
        }
    }
}

}  // namespace
}  // namespace kpu::values
