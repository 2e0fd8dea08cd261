#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "isa/diagnostics.hpp"
#include "isa/values/problem.hpp"

namespace kpu::values {
namespace {

struct OpName {
    std::string_view name;
    Op op;
};
constexpr std::array<OpName, 13> op_names = {{{"gemm", Op::gemm},
                                              {"matmul", Op::matmul},
                                              {"gemm.acc", Op::gemm_acc},
                                              {"conv2d", Op::conv2d},
                                              {"conv2d.acc", Op::conv2d_acc},
                                              {"relu", Op::relu},
                                              {"add", Op::add},
                                              {"maxpool", Op::maxpool},
                                              {"rmsnorm", Op::rmsnorm},
                                              {"quantize", Op::quantize},
                                              {"dequantize", Op::dequantize},
                                              {"cast", Op::cast},
                                              {"requant", Op::requant}}};

bool is_narrow_integer(ElemType type) {
    return type == ElemType::i4 || type == ElemType::i8 || type == ElemType::i16 || type == ElemType::u8;
}

/// accumulates: Y and C have the accumulator's type; otherwise Y is narrowed and C is a bias.
bool contraction_supported(const std::vector<ElemType>& in, ElemType y, bool accumulates) {
    if (in.size() < 2 || in.size() > 3) return false;
    const bool bias = in.size() == 3;
    if (is_float(in[0]) && is_float(in[1])) {
        if (accumulates) return y == ElemType::f32 && (!bias || in[2] == y);
        return is_float(y) && (!bias || is_float(in[2]));
    }
    if (!is_narrow_integer(in[0]) || !is_narrow_integer(in[1])) return false;
    return (accumulates ? y == ElemType::i32 : is_narrow_integer(y)) && (!bias || in[2] == ElemType::i32);
}

std::string_view canonical_name(Op op) {
    return std::find_if(op_names.begin(), op_names.end(), [op](const OpName& row) { return row.op == op; })
        ->name;
}

void check_quant(Op op, const std::vector<Tensor>& inputs, const Tensor& y) {
    const std::string_view name = canonical_name(op);
    if (op == Op::quantize && !has_quant(y)) {
        throw UserError(
            fmt::format("{}: the output {} has no quantisation. Fix: give its region quant=per_tensor(...).",
                        name, describe(y)));
    }
    if (op == Op::dequantize && !has_quant(inputs[0])) {
        throw UserError(
            fmt::format("{}: the input {} has no quantisation. Fix: give its region quant=per_tensor(...).",
                        name, describe(inputs[0])));
    }
    if (op != Op::relu && op != Op::add && op != Op::maxpool) return;
    const auto differs = [&](const Tensor& in) { return has_quant(in) != has_quant(y); };
    if (std::any_of(inputs.begin(), inputs.end(), differs)) {
        throw UserError(fmt::format(
            "{}: some operands are quantised and some are not. Fix: give every operand quant, or none.",
            name));
    }
    if (has_quant(y) && !is_integer(y.type)) {
        throw UserError(
            fmt::format("{}: {} operands cannot be quantised. Fix: remove quant.", name, name_of(y.type)));
    }
}

}  // namespace

std::optional<Op> find_op(std::string_view opcode_name) {
    for (const OpName& row : op_names) {
        if (row.name == opcode_name) return row.op;
    }
    return std::nullopt;
}

bool types_supported(Op op, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    if (out.size() != 1 || in.empty()) return false;
    const ElemType y = out[0];
    const auto number = [](ElemType type) { return is_float(type) || is_integer(type); };
    const auto all_equal = [&] {
        return std::all_of(in.begin(), in.end(), [y](ElemType t) { return t == y; });
    };
    switch (op) {
        case Op::gemm:
        case Op::conv2d:
            return contraction_supported(in, y, false);
        case Op::matmul:
            return in.size() == 2 && contraction_supported(in, y, false);
        case Op::gemm_acc:
        case Op::conv2d_acc:
            return contraction_supported(in, y, true);
        case Op::relu:
        case Op::maxpool:
            return in.size() == 1 && number(y) && all_equal();
        case Op::add:
            return in.size() == 2 && number(y) && all_equal();
        case Op::rmsnorm:
            return in.size() <= 2 && is_float(y) && all_equal();
        case Op::quantize:
            return in.size() == 1 && is_float(in[0]) && is_integer(y);
        case Op::dequantize:
            return in.size() == 1 && is_integer(in[0]) && is_float(y);
        case Op::cast:
            return in.size() == 1 && number(in[0]) && number(y);
        case Op::requant:
            return in.size() == 1 && in[0] == ElemType::i32 && is_narrow_integer(y);
    }
    return false;
}

void check_operands(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    std::vector<ElemType> in;
    std::vector<ElemType> out;
    in.reserve(inputs.size());
    out.reserve(outputs.size());
    for (const Tensor& tensor : inputs) in.push_back(tensor.type);
    for (const Tensor& tensor : outputs) out.push_back(tensor.type);
    if (!types_supported(op, in, out)) {
        std::string text;
        for (const Tensor& tensor : inputs) text += describe(tensor) + " ";
        text += "->";
        for (const Tensor& tensor : outputs) text += " " + describe(tensor);
        throw UserError(fmt::format("{} does not take these operands: {}. Fix: use types of its families.",
                                    canonical_name(op), text));
    }
    check_quant(op, inputs, outputs[0]);
    if (op <= Op::conv2d_acc || op == Op::maxpool || op == Op::rmsnorm) return;  // own shape rules
    for (const Tensor& tensor : inputs) {
        if (!(tensor.shape == outputs[0].shape)) {
            throw UserError(
                fmt::format("{}: shapes must be identical, not {} and {}. Fix: declare equal shapes.",
                            canonical_name(op), describe(tensor), describe(outputs[0])));
        }
    }
}

}  // namespace kpu::values
