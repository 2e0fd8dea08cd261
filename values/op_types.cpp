#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/diagnostics.hpp"
#include "values/problem.hpp"

namespace kpu::values {
namespace {

/// Opcode names in the order of Op.
constexpr std::string_view op_names[] = {"gemm",        "matmul",     "gemm.acc",   "conv2d",
                                         "conv2d.acc",  "conv1d",     "conv3d",     "depthwise_conv2d",
                                         "relu",        "sigmoid",    "tanh",       "exp",
                                         "log",         "sqrt",       "abs",        "neg",
                                         "gelu",        "silu",       "leaky_relu", "clamp",
                                         "add",         "sub",        "mul",        "div",
                                         "min",         "max",        "pow",        "maxpool",
                                         "avgpool",     "layernorm",  "rmsnorm",    "softmax",
                                         "log_softmax", "transpose",  "reshape",    "slice",
                                         "concat",      "split",      "pad",        "gather",
                                         "reduce_sum",  "reduce_max", "reduce_min", "argmax",
                                         "argmin",      "quantize",   "dequantize", "cast",
                                         "requant"};

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

std::string_view name_of(Op op) { return op_names[static_cast<size_t>(op)]; }

/// Quantised operands are read as real numbers by all of these, so all or none must be quantised. Views copy
/// elements and must mean the same on both sides.
bool uniform_quant(Op op) {
    return is_pointwise(op) || op == Op::maxpool || op == Op::avgpool || is_view(op) ||
           (is_reduction(op) && !is_search(op));
}

void check_quant(Op op, const std::vector<Tensor>& inputs, const Tensor& y) {
    const std::string_view name = name_of(op);
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
    if (!uniform_quant(op)) return;
    const size_t count = op == Op::gather ? 1 : inputs.size();
    for (size_t i = 0; i < count; ++i) {
        if (has_quant(inputs[i]) == has_quant(y)) continue;
        throw UserError(fmt::format(
            "{}: some operands are quantised and some are not. Fix: give every operand quant, or none.",
            name));
    }
    if (has_quant(y) && !is_integer(y.type)) {
        throw UserError(
            fmt::format("{}: {} operands cannot be quantised. Fix: remove quant.", name, name_of(y.type)));
    }
    const std::optional<OpcodeId> id = find_opcode(name);
    if (id && opcode(*id).integers_need_quant && is_integer(y.type) && !has_quant(y)) {
        throw UserError(
            fmt::format("{}: {} operands have no quantisation, and the formula no integer meaning. "
                        "Fix: give every operand quant, or use a float type.",
                        name, name_of(y.type)));
    }
}

}  // namespace

std::optional<Op> find_op(std::string_view opcode_name) {
    for (size_t i = 0; i < std::size(op_names); ++i) {
        if (op_names[i] == opcode_name) return static_cast<Op>(i);
    }
    return std::nullopt;
}

bool types_supported(Op op, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    if (out.empty() || in.empty() || (out.size() != 1 && op != Op::split)) return false;
    const ElemType y = out[0];
    const auto number = [](ElemType type) { return is_float(type) || is_integer(type); };
    const auto index = [](ElemType type) { return is_integer(type) && type != ElemType::i4; };
    const auto equal = [y](ElemType t) { return t == y; };
    const bool same = std::all_of(in.begin(), in.end(), equal) && std::all_of(out.begin(), out.end(), equal);
    if (is_pointwise(op)) return in.size() == (is_unary(op) ? 1U : 2U) && number(y) && same;
    if (is_search(op)) return in.size() == 1 && number(in[0]) && index(y);
    if (op == Op::gather) return in.size() == 2 && in[0] == y && number(y) && index(in[1]);
    if (is_view(op) || is_reduction(op)) return (in.size() == 1 || op == Op::concat) && number(y) && same;
    switch (op) {
        case Op::matmul:
            return in.size() == 2 && contraction_supported(in, y, false);
        case Op::gemm_acc:
        case Op::conv2d_acc:
            return contraction_supported(in, y, true);
        case Op::maxpool:
        case Op::avgpool:
            return in.size() == 1 && number(y) && same;
        case Op::layernorm:
            return in.size() <= 3 && is_float(y) && same;
        case Op::rmsnorm:
            return in.size() <= 2 && is_float(y) && same;
        case Op::softmax:
        case Op::log_softmax:
            return in.size() == 1 && is_float(y) && same;
        case Op::quantize:
            return in.size() == 1 && is_float(in[0]) && is_integer(y);
        case Op::dequantize:
            return in.size() == 1 && is_integer(in[0]) && is_float(y);
        case Op::cast:
            return in.size() == 1 && number(in[0]) && number(y);
        case Op::requant:
            return in.size() == 1 && in[0] == ElemType::i32 && is_narrow_integer(y);
        default:  // the other contractions
            return contraction_supported(in, y, false);
    }
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
                                    name_of(op), text));
    }
    for (const Tensor& output : outputs) check_quant(op, inputs, output);
    const bool own_rules =
        is_contraction(op) || op == Op::maxpool || op == Op::avgpool || is_view(op) || is_reduction(op);
    if (own_rules) return;
    const size_t count = is_norm(op) ? 1 : inputs.size();  // scale and bias have rules of their own
    for (size_t i = 0; i < count; ++i) {
        if (inputs[i].shape == outputs[0].shape) continue;
        throw UserError(fmt::format("{}: shapes must be identical, not {} and {}. Fix: declare equal shapes.",
                                    name_of(op), describe(inputs[i]), describe(outputs[0])));
    }
}

}  // namespace kpu::values
