// infer_shapes: the outputs of every class, and what it refuses, from the operands and attributes alone.
#include "isa/shapes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/diagnostics.hpp"

namespace kpu::shapes_test {
namespace {

using ::testing::HasSubstr;
using Shape = std::vector<int64_t>;
using Attrs = std::vector<std::pair<std::string, Shape>>;

constexpr ElemType f16 = ElemType::f16, i32 = ElemType::i32;

TypedShape typed(ElemType elem, const Shape& sizes) {
    TypedShape result{elem, {}};
    for (const int64_t size : sizes) result.shape[result.shape.rank++] = size;
    return result;
}

/// Attributes by their numbers: a list of one is also the integer and the real number.
BoundAttrs attrs_of(const Attrs& given) {
    BoundAttrs attrs;
    for (const auto& [name, values] : given) {
        BoundAttr attr;
        attr.name = name;
        attr.ints = values;
        if (!values.empty()) attr.integer = values[0];
        attr.real = static_cast<double>(attr.integer);
        if (name == "mode") attr.text = "edge";
        attrs.list.push_back(attr);
    }
    return attrs;
}

std::vector<Shape> inferred(std::string_view name, const std::vector<Shape>& inputs,
                            const Attrs& attrs = {}) {
    std::vector<TypedShape> operands;
    for (const Shape& shape : inputs) operands.push_back(typed(f16, shape));
    std::vector<Shape> result;
    for (const Dims& shape : infer_shapes(opcode(find_opcode(name).value()), operands, attrs_of(attrs)))
        result.emplace_back(shape.begin(), shape.end());
    return result;
}

std::string refusal(std::string_view name, const std::vector<Shape>& inputs, const Attrs& attrs = {}) {
    try {
        inferred(name, inputs, attrs);
    } catch (const UserError& error) {
        return error.what();
    }
    return {};
}

const Attrs window = {{"pads", {1, 0, 1, 0}}, {"strides", {2, 1}}, {"dilations", {1, 1}}};

// Expected shapes are computed by hand from the formulas of the opcode page.
TEST(InferShapes, OfEveryClass) {
    using Shapes = std::vector<Shape>;
    EXPECT_EQ(inferred("gemm", {{2, 3}, {3, 5}, {5}}), Shapes({{2, 5}}));
    EXPECT_EQ(inferred("matmul", {{4, 2, 3}, {4, 3, 5}}), Shapes({{4, 2, 5}}));
    EXPECT_EQ(inferred("conv2d", {{1, 7, 8, 4}, {3, 3, 4, 6}}, window), Shapes({{1, 4, 6, 6}}));
    EXPECT_EQ(inferred("depthwise_conv2d", {{1, 7, 8, 4}, {3, 3, 1, 8}}, window), Shapes({{1, 4, 6, 8}}));
    EXPECT_EQ(inferred("relu", {{2, 3}}), Shapes({{2, 3}}));
    EXPECT_EQ(inferred("add", {{2, 3}, {2, 3}}), Shapes({{2, 3}}));
    EXPECT_EQ(inferred("maxpool", {{1, 7, 8, 4}},
                       {{"kernel_shape", {3, 2}}, {"pads", {1, 0, 1, 0}}, {"strides", {2, 2}}}),
              Shapes({{1, 4, 4, 4}}));
    EXPECT_EQ(inferred("layernorm", {{2, 3}, {3}}, {{"axis", {-1}}, {"epsilon", {0}}}), Shapes({{2, 3}}));
    EXPECT_EQ(inferred("softmax", {{2, 3}}, {{"axis", {0}}}), Shapes({{2, 3}}));
    EXPECT_EQ(inferred("transpose", {{2, 3, 4}}, {{"perm", {2, 0, 1}}}), Shapes({{4, 2, 3}}));
    EXPECT_EQ(inferred("reshape", {{2, 3, 4}}, {{"target_shape", {-1, 6}}}), Shapes({{4, 6}}));
    EXPECT_EQ(inferred("slice", {{2, 9}}, {{"starts", {8}}, {"ends", {0}}, {"axes", {1}}, {"steps", {-3}}}),
              Shapes({{2, 3}}));
    EXPECT_EQ(inferred("concat", {{2, 3}, {2, 4}, {2, 1}}, {{"axis", {1}}}), Shapes({{2, 8}}));
    EXPECT_EQ(inferred("split", {{2, 5}}, {{"axis", {1}}, {"split_sizes", {2, 3}}}),
              Shapes({{2, 2}, {2, 3}}));
    EXPECT_EQ(inferred("pad", {{2, 5}}, {{"pads", {1, 0, 2, 3}}, {"mode", {}}}), Shapes({{5, 8}}));
    EXPECT_EQ(inferred("gather", {{2, 5, 4}, {3, 6}}, {{"axis", {1}}}), Shapes({{2, 3, 6, 4}}));
    EXPECT_EQ(inferred("reduce_sum", {{2, 5, 4}}, {{"axes", {0, -1}}, {"keepdims", {1}}}),
              Shapes({{1, 5, 1}}));
    EXPECT_EQ(inferred("argmax", {{2, 5, 4}}, {{"axis", {1}}, {"keepdims", {0}}}), Shapes({{2, 4}}));
    EXPECT_EQ(inferred("cast", {{2, 5}}), Shapes({{2, 5}}));
}

// The text names opcode, operand, what is wrong, and the fix.
TEST(InferShapes, Refuses) {
    EXPECT_EQ(refusal("gemm", {{2, 3}, {4, 5}}),
              "gemm: inner dimensions must be equal: A f16[2,3], B f16[4,5]. Fix: A is [M,K], B is [K,N].");
    EXPECT_EQ(refusal("gemm", {{2, 3}, {3, 5}, {4}}),
              "gemm: C f16[4] cannot be broadcast to Y. Fix: use [N], [1,N], [M,1] or [M,N].");
    EXPECT_EQ(
        refusal("mul", {{2, 3}, {3}}),
        "mul: shapes must be identical, B f16[3] and A f16[2,3] differ. Fix: give both the same shape.");
    EXPECT_EQ(refusal("softmax", {{2, 3}}, {{"axis", {2}}}),
              "softmax: axis is outside the 2 dimensions of X f16[2,3]. Fix: use 0 to 1 or a negative one.");
    EXPECT_EQ(refusal("transpose", {{2, 3}}),
              "transpose: perm is required. Fix: give dimension of X for each dimension of Y.");
    EXPECT_THAT(refusal("conv2d", {{1, 1, 1, 4}, {3, 4, 4, 6}}, window),
                HasSubstr("the window does not fit"));
    EXPECT_THAT(refusal("conv2d", {{1, 7, 8, 4}, {3, 3, 3, 6}}, window),
                HasSubstr("do not fit with groups=1"));
    EXPECT_THAT(refusal("add", {{2, 3}}), HasSubstr("add: 1 inputs are given. Fix: "));
    EXPECT_THAT(refusal("store", {{2, 3}}), HasSubstr("store: it has no shape rule. Fix: "));
}

// A declared output of a convolution may be smaller, which is worth a warning; no other may differ.
TEST(CheckShapes, Declared) {
    const auto check = [](std::string_view name, const std::vector<TypedShape>& in, const TypedShape& out,
                          const Attrs& attrs) {
        return check_shapes(opcode(find_opcode(name).value()), in, {out}, attrs_of(attrs));
    };
    const std::vector<TypedShape> conv = {typed(f16, {1, 7, 8, 4}), typed(f16, {3, 3, 4, 6})};
    EXPECT_EQ(check("conv2d", conv, typed(f16, {1, 4, 6, 6}), window), "");
    EXPECT_EQ(check("conv2d", conv, typed(f16, {1, 3, 5, 6}), window),
              "conv2d: output Y f16[1,3,5,6] is smaller than the derived 4x6; only the declared extents are "
              "computed. Fix: declare the derived size.");
    EXPECT_THROW(check("conv2d", conv, typed(f16, {1, 5, 6, 6}), window), UserError);
    EXPECT_THROW(check("cast", {typed(f16, {2})}, typed(i32, {3}), {}), UserError);
    EXPECT_THROW(check("reshape", {typed(f16, {2, 3})}, typed(f16, {2, 3}), {{"target_shape", {6}}}),
                 UserError);
}

}  // namespace
}  // namespace kpu::shapes_test
