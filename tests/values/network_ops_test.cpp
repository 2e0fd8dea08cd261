// Opcodes that networks need, against results computed by hand, with both engines.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::integer_attr;
using testing::ints_attr;
using testing::op;
using testing::Operand;
using testing::per_tensor;
using testing::real_attr;

using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;
constexpr float inf = HUGE_VALF, nan_value = NAN;

template <class T>
Operand make(ElemType type, std::vector<int64_t> shape, std::vector<T> values) {
    Operand operand(type, shape);
    operand.set(values);
    return operand;
}
Operand floats(std::vector<int64_t> shape, Floats values) {
    return make(ElemType::f32, std::move(shape), std::move(values));
}

BoundAttr word_attr(const std::string& name, const std::string& text) {
    BoundAttr attr;
    attr.name = name;
    attr.text = text;
    return attr;
}
BoundAttrs attributes(std::vector<BoundAttr> list) { return {std::move(list)}; }

/// Returns the bytes of Y, the same of both engines.
template <class T>
std::vector<T> result(const char* opcode, std::vector<Operand> inputs, Operand y,
                      const BoundAttrs& attrs = {}) {
    std::vector<Tensor> in;
    for (Operand& operand : inputs) in.push_back(operand.tensor());
    make_reference_backend()->execute(op(opcode), in, {y.tensor()}, attrs);
    const std::vector<uint8_t> reference = y.get<uint8_t>();
    make_fast_backend()->execute(op(opcode), in, {y.tensor()}, attrs);
    EXPECT_EQ(y.get<uint8_t>(), reference) << opcode;
    return y.get<T>();
}

Floats one(const char* opcode, const Floats& x, const BoundAttrs& attrs = {}) {
    const auto count = static_cast<int64_t>(x.size());
    return result<float>(opcode, {floats({count}, x)}, Operand(ElemType::f32, {count}), attrs);
}

Bytes compare(const char* opcode, const Floats& a, const Floats& b) {
    const auto count = static_cast<int64_t>(a.size());
    return result<uint8_t>(opcode, {floats({count}, a), floats({count}, b)}, Operand(ElemType::u8, {count}));
}

// NaN is not equal to anything, itself included, and in no order; zeros are equal.
TEST(NetworkOps, Comparisons) {
    const Floats a{1, 2, -0.0F, nan_value, nan_value, -inf}, b{2, 2, 0, nan_value, 1, inf};
    EXPECT_EQ(compare("equal", a, b), (Bytes{0, 1, 1, 0, 0, 0}));
    EXPECT_EQ(compare("not_equal", a, b), (Bytes{1, 0, 0, 1, 1, 1}));
    EXPECT_EQ(compare("less", a, b), (Bytes{1, 0, 0, 0, 0, 1}));
    EXPECT_EQ(compare("less_equal", a, b), (Bytes{1, 1, 1, 0, 0, 1}));
    EXPECT_EQ(compare("greater", a, b), (Bytes{0, 0, 0, 0, 0, 0}));
    EXPECT_EQ(compare("greater_equal", a, b), (Bytes{0, 1, 1, 0, 0, 0}));
}

// Quantised operands are compared as the numbers that they stand for: 4 steps of 0.5 are 8 of 0.25.
TEST(NetworkOps, ComparisonsOfQuantisedOperands) {
    Operand a = make<int8_t>(ElemType::i8, {3}, {4, 4, 4}), b = make<int8_t>(ElemType::i8, {3}, {7, 8, 9});
    a.quant = per_tensor(0.5, 0);
    b.quant = per_tensor(0.25, 0);
    EXPECT_EQ(result<uint8_t>("less", {a, b}, Operand(ElemType::u8, {3})), (Bytes{0, 0, 1}));
    b.quant = {};
    EXPECT_THROW(result<uint8_t>("less", {a, b}, Operand(ElemType::u8, {3})), UserError);
}

// Anything but 0 is true; results are 0 or 1. Conditions cannot be quantised, nor have another type.
TEST(NetworkOps, Conditions) {
    const Operand a = make<uint8_t>(ElemType::u8, {4}, {0, 0, 7, 255}),
                  b = make<uint8_t>(ElemType::u8, {4}, {0, 1, 0, 2});
    const Operand y(ElemType::u8, {4});
    EXPECT_EQ(result<uint8_t>("and", {a, b}, y), (Bytes{0, 0, 0, 1}));
    EXPECT_EQ(result<uint8_t>("or", {a, b}, y), (Bytes{0, 1, 1, 1}));
    EXPECT_EQ(result<uint8_t>("xor", {a, b}, y), (Bytes{0, 1, 1, 0}));
    EXPECT_EQ(result<uint8_t>("not", {a}, y), (Bytes{1, 1, 0, 0}));
    const Operand x = floats({4}, {1, 2, nan_value, -inf}), other = floats({4}, {5, nan_value, 7, 8});
    const Floats chosen = result<float>("where", {a, x, other}, Operand(ElemType::f32, {4}));
    EXPECT_EQ(chosen[0], 5);
    EXPECT_TRUE(std::isnan(chosen[1]));
    EXPECT_TRUE(std::isnan(chosen[2]));
    EXPECT_EQ(chosen[3], -inf);
    Operand scaled = a;
    scaled.quant = per_tensor(0.5, 0);
    EXPECT_THROW(result<uint8_t>("not", {scaled}, y), UserError);
    EXPECT_THROW(result<float>("where", {x, x, other}, Operand(ElemType::f32, {4})), UserError);
}

TEST(NetworkOps, NaNsAndInfinities) {
    const Operand x = floats({4}, {inf, -inf, nan_value, 1}), y(ElemType::u8, {4});
    EXPECT_EQ(result<uint8_t>("is_nan", {x}, y), (Bytes{0, 0, 1, 0}));
    EXPECT_EQ(result<uint8_t>("is_inf", {x}, y), (Bytes{1, 1, 0, 0}));
    EXPECT_EQ(result<uint8_t>("is_inf", {x}, y, attributes({integer_attr("detect_positive", 0)})),
              (Bytes{0, 1, 0, 0}));
    EXPECT_EQ(result<uint8_t>("is_inf", {x}, y, attributes({integer_attr("detect_negative", 0)})),
              (Bytes{1, 0, 0, 0}));
}

// Halves go to the even neighbour; fmod has the sign of the dividend, floor_mod that of the divisor.
TEST(NetworkOps, Rounding) {
    const Floats x{2.5F, -2.5F, 3.5F, -0.25F};
    EXPECT_EQ(one("floor", x), (Floats{2, -3, 3, -1}));
    EXPECT_EQ(one("ceil", x), (Floats{3, -2, 4, 0}));
    EXPECT_EQ(one("round", x), (Floats{2, -2, 4, 0}));
    EXPECT_EQ(one("sign", {-3, 0, 0.5F, inf}), (Floats{-1, 0, 1, 1}));
    const Operand a = make<int32_t>(ElemType::i32, {5}, {7, -7, 7, -7, 7}),
                  b = make<int32_t>(ElemType::i32, {5}, {3, 3, -3, -3, 0});
    const Operand y(ElemType::i32, {5});
    EXPECT_EQ(result<int32_t>("fmod", {a, b}, y), (std::vector<int32_t>{1, -1, 1, -1, 0}));
    EXPECT_EQ(result<int32_t>("floor_mod", {a, b}, y), (std::vector<int32_t>{1, 2, -2, -1, 0}));
}

// Computed by hand: -1 has all bits; what leaves 8 bits is gone; a shift to the right keeps the sign.
TEST(NetworkOps, Bits) {
    const Operand a = make<int8_t>(ElemType::i8, {4}, {-1, 64, -128, 5}),
                  b = make<int8_t>(ElemType::i8, {4}, {12, 1, 7, 8}), y(ElemType::i8, {4});
    using Signed = std::vector<int8_t>;
    EXPECT_EQ(result<int8_t>("bit_and", {a, b}, y), (Signed{12, 0, 0, 0}));
    EXPECT_EQ(result<int8_t>("bit_or", {a, b}, y), (Signed{-1, 65, -121, 13}));
    EXPECT_EQ(result<int8_t>("bit_xor", {a, b}, y), (Signed{-13, 65, -121, 13}));
    EXPECT_EQ(result<int8_t>("shift_left", {a, b}, y), (Signed{0, -128, 0, 0}));
    EXPECT_EQ(result<int8_t>("shift_right", {a, b}, y), (Signed{-1, 32, -1, 0}));
    const Operand words = make<uint32_t>(ElemType::u32, {3}, {0x80000001U, 3, 3}),
                  by = make<uint32_t>(ElemType::u32, {3}, {1, 31, 32}), z(ElemType::u32, {3});
    EXPECT_EQ(result<uint32_t>("shift_left", {words, by}, z), (std::vector<uint32_t>{2, 0x80000000U, 0}));
    EXPECT_EQ(result<uint32_t>("shift_right", {words, by}, z), (std::vector<uint32_t>{0x40000000U, 0, 0}));
    Operand scaled = a;
    scaled.quant = per_tensor(0.5, 0);
    EXPECT_THROW(result<int8_t>("bit_and", {scaled, scaled}, y), UserError);
    const Operand x = floats({4}, {1, 2, 3, 4});
    EXPECT_THROW(result<float>("bit_or", {x, x}, Operand(ElemType::f32, {4})), UserError);
}

// Attributes that are left out have the defaults of the table.
TEST(NetworkOps, Activations) {
    EXPECT_EQ(one("hard_sigmoid", {-10, 0, 1.25F, 10}), (Floats{0, 0.5F, 0.75F, 1}));
    EXPECT_EQ(one("hard_sigmoid", {1}, attributes({real_attr("alpha", 0.25), real_attr("beta", 0.125)})),
              (Floats{0.375F}));
    EXPECT_EQ(one("hard_swish", {-4, 0, 3, 1.5F}), (Floats{0, 0, 3, 1.125F}));
    EXPECT_EQ(one("thresholded_relu", {1, 1.5F, -3}), (Floats{0, 1.5F, 0}));
    EXPECT_EQ(one("elu", {2, -1e30F}), (Floats{2, -1}));
    EXPECT_EQ(one("celu", {2, -1e30F}, attributes({real_attr("alpha", 3)})), (Floats{2, -3}));
    EXPECT_EQ(one("selu", {1, -1e30F}), (Floats{1.0507009873554805F, -1.7580993408473766F}));
    EXPECT_EQ(one("softplus", {1000, -1000}), (Floats{1000, 0}));
    EXPECT_EQ(one("mish", {1000, -1000}), (Floats{1000, 0}));
    EXPECT_EQ(one("gelu_tanh", {100, -100, 0}), (Floats{100, 0, 0}));
    EXPECT_EQ(one("rsqrt", {4, 0, -0.0F}), (Floats{0.5F, inf, -inf}));
    EXPECT_EQ(one("reciprocal", {4, -0.0F}), (Floats{0.25F, -inf}));
    EXPECT_EQ(result<float>("prelu", {floats({2}, {-2, 2}), floats({2}, {0.25F, 0.25F})},
                            Operand(ElemType::f32, {2})),
              (Floats{-0.5F, 2}));
}

TEST(NetworkOps, Reductions) {
    const auto over = attributes({ints_attr("axes", {1}), integer_attr("keepdims", 0)});
    const Operand x = floats({2, 2}, {3, 4, -1, 2}), y(ElemType::f32, {2});
    EXPECT_EQ(result<float>("reduce_mean", {x}, y, over), (Floats{3.5F, 0.5F}));
    EXPECT_EQ(result<float>("reduce_prod", {x}, y, over), (Floats{12, -2}));
    EXPECT_EQ(result<float>("reduce_l2", {x}, y, over)[0], 5);
    const Operand odd = make<int8_t>(ElemType::i8, {1, 2}, {1, 2});
    EXPECT_EQ(result<int8_t>("reduce_mean", {odd}, Operand(ElemType::i8, {1}), over)[0], 2);  // 1.5 to even
    auto last = attributes({integer_attr("axis", 1), integer_attr("keepdims", 0)});
    const Operand ties = floats({2, 4}, {1, 9, 9, 0, nan_value, 9, nan_value, 0}), found(ElemType::i32, {2});
    EXPECT_EQ(result<int32_t>("argmax", {ties}, found, last), (std::vector<int32_t>{1, 0}));
    last.list.push_back(integer_attr("select_last_index", 1));
    EXPECT_EQ(result<int32_t>("argmax", {ties}, found, last), (std::vector<int32_t>{2, 2}));
}

TEST(NetworkOps, RunningSums) {
    const auto sums = [](bool exclusive, bool reverse) {
        return one("cumsum", {1, 2, 4},
                   attributes({integer_attr("axis", 0), integer_attr("exclusive", exclusive ? 1 : 0),
                               integer_attr("reverse", reverse ? 1 : 0)}));
    };
    EXPECT_EQ(sums(false, false), (Floats{1, 3, 7}));
    EXPECT_EQ(sums(true, false), (Floats{0, 1, 3}));
    EXPECT_EQ(sums(false, true), (Floats{7, 6, 4}));
    EXPECT_EQ(sums(true, true), (Floats{6, 4, 0}));
}

// Twice as wide: half pixels lie at -0.25, 0.25, 0.75, 1.25; corners at 0, 1/3, 2/3, 1.
TEST(NetworkOps, Resize) {
    const auto wide = [](std::vector<BoundAttr> more) {
        more.push_back(ints_attr("sizes", {1, 4}));
        return result<float>("resize", {floats({1, 2}, {0, 12})}, Operand(ElemType::f32, {1, 4}),
                             attributes(std::move(more)));
    };
    EXPECT_EQ(wide({}), (Floats{0, 0, 12, 12}));
    EXPECT_EQ(wide({word_attr("mode", "linear")}), (Floats{0, 3, 9, 12}));
    EXPECT_EQ(wide({word_attr("mode", "linear"), word_attr("coordinates", "align_corners")}),
              (Floats{0, 4, 8, 12}));
    EXPECT_EQ(wide({word_attr("mode", "linear"), word_attr("coordinates", "asymmetric")}),
              (Floats{0, 6, 12, 12}));
    EXPECT_EQ(wide({word_attr("coordinates", "asymmetric"), word_attr("nearest_mode", "ceil")}),
              (Floats{0, 12, 12, 12}));
    BoundAttr tiny;
    tiny.name = "scales";
    tiny.reals = {1e-320, 1e-320};  // positions overflow
    EXPECT_EQ(wide({tiny, word_attr("coordinates", "half_pixel_symmetric")}), (Floats{0, 0, 0, 0}));
    EXPECT_THROW(wide({word_attr("mode", "cubic")}), UserError);
    EXPECT_THROW(wide({word_attr("coordinates", "elsewhere")}), UserError);
}

// DCR: the channel is the place in the block first; CRD: the channel of Y first.
TEST(NetworkOps, BlocksAndChannels) {
    const auto moved = [](const char* opcode, std::vector<int64_t> from, std::vector<int64_t> to,
                          const char* mode) {
        return result<uint8_t>(
            opcode, {make<uint8_t>(ElemType::u8, std::move(from), {0, 1, 2, 3, 4, 5, 6, 7})},
            Operand(ElemType::u8, to), attributes({integer_attr("block", 2), word_attr("mode", mode)}));
    };
    EXPECT_EQ(moved("depth_to_space", {1, 1, 1, 8}, {1, 2, 2, 2}, "DCR"), (Bytes{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(moved("depth_to_space", {1, 1, 1, 8}, {1, 2, 2, 2}, "CRD"), (Bytes{0, 4, 1, 5, 2, 6, 3, 7}));
    EXPECT_EQ(moved("depth_to_space", {1, 1, 2, 4}, {1, 2, 4, 1}, "DCR"), (Bytes{0, 1, 4, 5, 2, 3, 6, 7}));
    EXPECT_EQ(moved("space_to_depth", {1, 2, 2, 2}, {1, 1, 1, 8}, "CRD"), (Bytes{0, 2, 4, 6, 1, 3, 5, 7}));
}

// Indices read a part of the other dimensions; one beyond its dimension ends the run.
TEST(NetworkOps, GatherElements) {
    const Operand x = floats({3, 2}, {1, 2, 3, 4, 5, 6}), y(ElemType::f32, {1, 2});
    const auto first = attributes({integer_attr("axis", 0)});
    const auto at = [](std::vector<int32_t> values) {
        return make(ElemType::i32, {1, 2}, std::move(values));
    };
    EXPECT_EQ(result<float>("gather_elements", {x, at({2, -3})}, y, first), (Floats{5, 2}));
    EXPECT_THROW(result<float>("gather_elements", {x, at({3, 0})}, y, first), UserError);
}

// Two elements three apart, windows of 2: rows of Y from either, or none of them.
TEST(NetworkOps, TransposedConvolution) {
    const auto spread = [](std::vector<BoundAttr> more, std::vector<int64_t> shape) {
        more.push_back(ints_attr("strides", {1, 3}));
        more.push_back(ints_attr("dilations", {1, 1}));
        return result<float>(
            "conv_transpose2d",
            {floats({1, 1, 2, 1}, {1, 10}), floats({1, 2, 1, 1}, {2, 3}), floats({1}, {100})},
            Operand(ElemType::f32, shape), attributes(std::move(more)));
    };
    EXPECT_EQ(spread({ints_attr("pads", {0, 0, 0, 0})}, {1, 1, 5, 1}), (Floats{102, 103, 100, 120, 130}));
    EXPECT_EQ(spread({ints_attr("pads", {0, 1, 0, 1})}, {1, 1, 3, 1}), (Floats{103, 100, 120}));
    EXPECT_EQ(spread({ints_attr("pads", {0, 1, 0, 0}), ints_attr("output_padding", {0, 1})}, {1, 1, 5, 1}),
              (Floats{103, 100, 120, 130, 100}));
}

// Two channels in one group, then each of its own: instance normalisation.
TEST(NetworkOps, GroupNorm) {
    const auto normed = [](int64_t groups) {
        return result<float>("group_norm",
                             {floats({1, 2, 2}, {1, 10, 3, 14}), floats({2}, {1, 2}), floats({2}, {0, 5})},
                             Operand(ElemType::f32, {1, 2, 2}),
                             attributes({integer_attr("groups", groups), real_attr("epsilon", 0)}));
    };
    EXPECT_EQ(normed(2), (Floats{-1, 3, 1, 7}));
    const double root = std::sqrt((36.0 + 9 + 16 + 49) / 4);  // about the mean 7
    EXPECT_EQ(normed(1)[3], static_cast<float>(7 / root * 2 + 5));
}

// A window over the last element alone; the mean over what a window has of X, or of X and its padding.
TEST(NetworkOps, PoolsWithOptions) {
    const auto pooled = [](const char* opcode, std::vector<BoundAttr> more, int64_t out) {
        more.push_back(ints_attr("kernel_shape", {2}));
        more.push_back(ints_attr("strides", {2}));
        return result<float>(opcode, {floats({1, 3, 1}, {4, 8, 6})}, Operand(ElemType::f32, {1, out, 1}),
                             attributes(std::move(more)));
    };
    const BoundAttr none = ints_attr("pads", {0, 0}), before = ints_attr("pads", {1, 0});
    const BoundAttr up = integer_attr("ceil_mode", 1), counted = integer_attr("count_include_pad", 1);
    EXPECT_EQ(pooled("maxpool", {none}, 1), (Floats{8}));
    EXPECT_EQ(pooled("maxpool", {none, up}, 2), (Floats{8, 6}));
    EXPECT_EQ(pooled("avgpool", {none, up}, 2), (Floats{6, 6}));
    EXPECT_EQ(pooled("avgpool", {none, up, counted}, 2), (Floats{6, 6}));  // what ceil_mode adds never counts
    EXPECT_EQ(pooled("avgpool", {before}, 2), (Floats{4, 7}));
    EXPECT_EQ(pooled("avgpool", {before, counted}, 2), (Floats{2, 7}));
    EXPECT_EQ(pooled("maxpool", {none, ints_attr("dilations", {2})}, 1), (Floats{6}));
}

}  // namespace
}  // namespace kpu::values
