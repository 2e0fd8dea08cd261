// Operands and attributes an opcode does not take are the user's errors, from both engines, with the fix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/diagnostics.hpp"
#include "tests/values/helpers.hpp"

namespace kpu::values {
namespace {

using testing::ints_attr;
using testing::op;
using testing::Operand;

void expect_error(const char* opcode, std::vector<Operand> inputs, Operand output, const BoundAttrs& attrs,
                  const std::string& text) {
    for (const auto& backend : {make_reference_backend().release(), make_fast_backend().release()}) {
        const std::unique_ptr<ComputeBackend> owner(backend);
        std::vector<Tensor> in;
        for (Operand& operand : inputs) in.push_back(operand.tensor());
        try {
            owner->execute(op(opcode), in, {output.tensor()}, attrs);
            ADD_FAILURE() << opcode << " accepted what it should not, expected: " << text;
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
            EXPECT_THAT(error.what(), ::testing::HasSubstr("Fix: "));
        }
    }
}

// Shapes that do not multiply, types outside the families, and wrong accumulators are named.
TEST(Rejection, Contractions) {
    const Operand a(ElemType::f16, {2, 3});
    const Operand y(ElemType::f16, {2, 4});
    expect_error("gemm", {a, Operand(ElemType::f16, {2, 4})}, y, {},
                 "inner dimensions must be equal: A f16[2,3], B f16[2,4], Y f16[2,4]");
    expect_error("gemm", {a, Operand(ElemType::i8, {3, 4})}, y, {}, "does not take these operands");
    expect_error("gemm", {a, Operand(ElemType::f16, {3, 5})}, y, {}, "Y must be [M,N] of A and B");
    expect_error("gemm", {a, Operand(ElemType::f16, {3, 4}), Operand(ElemType::f16, {3})}, y, {},
                 "broadcast");
    expect_error("gemm.acc", {a, Operand(ElemType::f16, {3, 4})}, y, {}, "does not take these operands");
    BoundAttr accum;
    accum.name = "accum_type";
    accum.type = ElemType::i32;
    BoundAttrs attrs;
    attrs.list = {accum};
    expect_error("gemm", {a, Operand(ElemType::f16, {3, 4})}, y, attrs, "accum_type must equal f32");
}

// Windows: missing or malformed attributes, outputs larger than derived.
TEST(Rejection, Windows) {
    const Operand x(ElemType::i8, {1, 4, 4, 2});
    BoundAttrs attrs = testing::plain_window();
    attrs.list[0] = ints_attr("pads", {0, 0, 0, -1});
    expect_error("conv2d", {x, Operand(ElemType::i8, {3, 3, 2, 5})}, Operand(ElemType::i8, {1, 2, 2, 5}),
                 attrs, "pads has -1");
    expect_error("conv2d", {x, Operand(ElemType::i8, {3, 3, 2, 5})}, Operand(ElemType::i8, {1, 3, 2, 5}),
                 testing::plain_window(), "must be 2x2 by pads, strides and window");
    expect_error("conv2d", {x, Operand(ElemType::i8, {3, 3, 2, 5})}, Operand(ElemType::i8, {1, 2, 2, 5}), {},
                 "pads is required");
    expect_error("conv2d", {x, Operand(ElemType::i8, {3, 3, 1, 5})}, Operand(ElemType::i8, {1, 2, 2, 5}),
                 testing::plain_window(), "do not fit with groups=1");
    expect_error("maxpool", {x}, Operand(ElemType::i8, {1, 2, 2, 2}), {}, "kernel_shape is required");
}

// Quantisation: mixed operands, unusable scales, zero points outside the type.
TEST(Rejection, Quantisation) {
    Operand x(ElemType::i8, {4});
    const Operand y(ElemType::i8, {4});
    x.quant = testing::per_tensor(0.5, 0);
    expect_error("relu", {x}, y, {}, "some operands are quantised and some are not");
    expect_error("quantize", {Operand(ElemType::f16, {4})}, y, {}, "no quantisation");
    x.quant = testing::per_tensor(0.0, 0);
    expect_error("dequantize", {x}, Operand(ElemType::f16, {4}), {}, "scale 0 is not usable");
    x.quant = testing::per_tensor(1.0, 128);
    expect_error("dequantize", {x}, Operand(ElemType::f16, {4}), {}, "zero point 128 is out of range");
    x.quant.kind = proto::Quant::PER_CHANNEL;
    x.quant.zero_points = {0};
    expect_error("dequantize", {x}, Operand(ElemType::f16, {4}), {}, "4 are needed");
}

}  // namespace
}  // namespace kpu::values
