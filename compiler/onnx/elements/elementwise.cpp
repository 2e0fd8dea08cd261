// Operators that are one elementwise opcode, or few of them. Operands broadcast as NumPy's in both worlds.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/quantized/e8m0.hpp"

namespace kpu::onnx {
namespace {

using graph::real;

struct Attr {
    std::string_view name;
    double value;  ///< when the node has none
};

struct Row {
    std::string_view type, opcode;
    std::vector<Attr> attributes;
};

/// Operators that are the opcode, with attributes of the same names.
const std::vector<Row>& rows() {
    static const std::vector<Row> table = {
        {"Relu", "relu", {}},
        {"Sigmoid", "sigmoid", {}},
        {"Tanh", "tanh", {}},
        {"Exp", "exp", {}},
        {"Log", "log", {}},
        {"Sqrt", "sqrt", {}},
        {"Abs", "abs", {}},
        {"Neg", "neg", {}},
        {"Erf", "erf", {}},
        {"Sin", "sin", {}},
        {"Cos", "cos", {}},
        {"Tan", "tan", {}},
        {"Asin", "asin", {}},
        {"Acos", "acos", {}},
        {"Atan", "atan", {}},
        {"Sinh", "sinh", {}},
        {"Cosh", "cosh", {}},
        {"Asinh", "asinh", {}},
        {"Acosh", "acosh", {}},
        {"Atanh", "atanh", {}},
        {"Floor", "floor", {}},
        {"Ceil", "ceil", {}},
        {"Round", "round", {}},
        {"Sign", "sign", {}},
        {"Reciprocal", "reciprocal", {}},
        {"Softplus", "softplus", {}},
        {"Mish", "mish", {}},
        {"HardSwish", "hard_swish", {}},
        {"LeakyRelu", "leaky_relu", {{"alpha", 0.01}}},
        {"Elu", "elu", {{"alpha", 1}}},
        {"Celu", "celu", {{"alpha", 1}}},
        {"Selu", "selu", {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}}},
        {"HardSigmoid", "hard_sigmoid", {{"alpha", 0.2F}, {"beta", 0.5}}},
        {"ThresholdedRelu", "thresholded_relu", {{"alpha", 1}}},
        {"Add", "add", {}},
        {"Sub", "sub", {}},
        {"Mul", "mul", {}},
        {"Div", "div", {}},
        {"PRelu", "prelu", {}},
    };
    return table;
}

void plain(Call& call) {
    for (const Row& row : rows()) {
        if (row.type != call.node.type) continue;
        std::vector<BoundAttr> attrs;
        for (const Attr& attribute : row.attributes)
            attrs.push_back(real(std::string(attribute.name), call.real(attribute.name, attribute.value)));
        std::vector<ValueId> operands;
        for (size_t i = 0; i < call.inputs(); ++i) operands.push_back(call.value(i));
        if (operands.empty()) Call::refuse("operand 0 is missing");
        return call.result(call.emit(row.opcode, operands, attrs));
    }
}

/// Operators of any number of operands, from the left.
void chain(Call& call) {
    const std::string& type = call.node.type;
    const std::string_view opcode = type == "Max" ? "max" : type == "Min" ? "min" : "add";
    ValueId sum = call.value(0);
    for (size_t i = 1; i < call.inputs(); ++i) sum = call.binary(opcode, sum, call.value(i));
    if (type == "Mean") sum = call.binary("mul", sum, 1.0 / static_cast<double>(call.inputs()));
    call.result(sum);
}

void compare(Call& call) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 8> opcodes{
        {{"Equal", "equal"},
         {"Less", "less"},
         {"LessOrEqual", "less_equal"},
         {"Greater", "greater"},
         {"GreaterOrEqual", "greater_equal"},
         {"And", "and"},
         {"Or", "or"},
         {"Xor", "xor"}}};
    for (const auto& [type, opcode] : opcodes) {
        if (call.node.type == type)
            call.result(0, call.emit(opcode, {call.value(0), call.value(1)}, {}, truth), Type::boolean);
    }
}

void negate(Call& call) { call.result(0, call.emit("not", {call.value(0)}, {}, truth), Type::boolean); }

void is_nan(Call& call) { call.result(0, call.emit("is_nan", {call.value(0)}, {}, truth), Type::boolean); }

void is_inf(Call& call) {
    const ValueId result = call.emit("is_inf", {call.value(0)},
                                     {graph::integer("detect_positive", call.integer("detect_positive", 1)),
                                      graph::integer("detect_negative", call.integer("detect_negative", 1))},
                                     truth);
    call.result(0, result, Type::boolean);
}

void where(Call& call) {
    const ValueId a = call.value(1), b = call.value(2);
    call.result(0, call.emit("where", {call.value(0), a, b}, {}, call.elem(a)), call.type(1));
}

/// Integers to a small whole power are products; the opcode is defined on reals.
void power(Call& call) {
    const ValueId x = call.value(0);
    if (is_real(call.type(0)))
        return call.result(call.binary("pow", x, call.cast(call.value(1), call.elem(x))));
    const double exponent = call.number_of(1, "exponents of integers");
    if (exponent < 1 || exponent > 16 || exponent != std::floor(exponent))
        Call::refuse("integers to a power other than 1 to 16");
    ValueId result = x;
    for (int i = 1; i < static_cast<int>(exponent); ++i) result = call.binary("mul", result, x);
    call.result(result);
}

/// True for what has 64 bits in the model and has 32 here: bits that would lie above are refused, or told at
/// run time.
bool is_wide(Type type) { return type == Type::i64 || type == Type::u64; }

/// Returns an operand of bits, in the graph.
ValueId bits_of(Call& call, size_t i) {
    if (is_real(call.type(i))) Call::refuse("its operands are not integers");
    return call.value(i);
}

void bitwise(Call& call) {
    const std::string& type = call.node.type;
    const ValueId x = bits_of(call, 0);
    if (type != "BitwiseNot") {
        const std::string_view opcode = type == "BitwiseAnd"  ? "bit_and"
                                        : type == "BitwiseOr" ? "bit_or"
                                                              : "bit_xor";
        return call.result(call.binary(opcode, x, bits_of(call, 1)));
    }
    if (call.type(0) == Type::u64) Call::refuse("its result has 64 bits, the device's integers have 32");
    const bool is_signed =
        call.elem(x) == ElemType::i8 || call.elem(x) == ElemType::i16 || call.elem(x) == ElemType::i32;
    const double all = is_signed ? -1 : std::exp2(bit_width(call.elem(x))) - 1;
    call.result(call.binary("bit_xor", x, all));
}

/// Shifts bits. Of 64 bits a shift to the left is a product, which is cut, and told, where it needs more than
/// 32 bits.
void bit_shift(Call& call) {
    const std::string direction = call.text("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        Call::refuse(fmt::format("its direction {} is not known", direction));
    const ValueId x = bits_of(call, 0), by = bits_of(call, 1);
    if (direction == "RIGHT") return call.result(call.binary("shift_right", x, by));
    if (!is_wide(call.type(0))) return call.result(call.binary("shift_left", x, by));
    const ValueId most = call.binary("min", by, 30.0);  // all but 0 is cut by then
    const ValueId one = call.number(1, call.elem(x));
    const ValueId product = call.binary("mul", x, call.binary("shift_left", one, most));
    const ValueId rest =
        call.binary("shift_left", one, call.binary("min", call.binary("sub", by, most), 30.0));
    call.result(call.binary("mul", product, rest));
}

void modulo(Call& call) {
    const bool truncates = call.integer("fmod", 0) != 0;
    call.result(call.binary(truncates ? "fmod" : "floor_mod", call.value(0), call.value(1)));
}

/// Bounds are attributes until opset 10, then operands, either of which may be absent.
void clip(Call& call) {
    const double most = std::numeric_limits<float>::max();
    const ValueId x = call.value(0);
    if (call.opset < 11) {
        const double low = call.real("min", -most), high = call.real("max", most);
        return call.result(call.emit("clamp", {x}, {real("min_val", low), real("max_val", high)}));
    }
    const bool constant = (!call.has(1) || call.in(1).constant()) && (!call.has(2) || call.in(2).constant());
    if (!call.has(1) && !call.has(2)) return call.result(0, call.in(0));
    if (constant) {
        const double low = call.has(1) ? call.number_of(1, "bounds") : -INFINITY;
        const double high = call.has(2) ? call.number_of(2, "bounds") : INFINITY;
        // where they cross, the upper one counts
        return call.result(
            call.emit("clamp", {x}, {real("min_val", std::min(low, high)), real("max_val", high)}));
    }
    ValueId result = x;
    if (call.has(1)) result = call.binary("max", result, call.value(1));
    if (call.has(2)) result = call.binary("min", result, call.value(2));
    call.result(result);
}

void gelu(Call& call) {
    const bool tanh = call.text("approximate", "none") == "tanh";
    call.result(call.unary(tanh ? "gelu_tanh" : "gelu", call.value(0)));
}

/// Computes A * sigmoid(alpha * A) * B.
void swiglu(Call& call) {
    if (call.shape(0) != call.shape(1)) Call::refuse("its operands have unlike shapes");
    const ValueId a = call.value(0),
                  gate = call.unary("sigmoid", call.binary("mul", a, call.real("alpha", 1)));
    call.result(call.binary("mul", call.binary("mul", a, gate), call.value(1)));
}

void swish(Call& call) {
    const ValueId x = call.value(0);
    const double alpha = call.real("alpha", 1);
    if (alpha == 1) return call.result(call.unary("silu", x));
    call.result(call.binary("mul", x, call.unary("sigmoid", call.binary("mul", x, alpha))));
}

void softsign(Call& call) {
    const ValueId x = call.value(0);
    call.result(call.binary("div", x, call.binary("add", call.unary("abs", x), 1.0)));
}

/// Computes: x < -lambd: x + bias; x > lambd: x - bias; else 0.
void shrink(Call& call) {
    const ValueId x = call.value(0);
    const double bias = call.real("bias", 0), threshold = call.real("lambd", 0.5);
    const ValueId zero = call.number(0, call.elem(x));
    const auto beyond = [&](std::string_view opcode, double bound) {
        return call.emit(opcode, {x, call.number(bound, call.elem(x))}, {}, truth);
    };
    const auto choose = [&](ValueId when, ValueId then, ValueId other) {
        return call.emit("where", {when, then, other}, {}, call.elem(x));
    };
    const ValueId above = choose(beyond("greater", threshold), call.binary("sub", x, bias), zero);
    call.result(choose(beyond("less", -threshold), call.binary("add", x, bias), above));
}

/// Returns the low bits of x, one element in a byte.
ValueId low_bits(Call& call, ValueId x, Type to) {
    const double sign = std::exp2(packed_bits(to) - 1);
    x = call.binary("bit_and", call.cast(x, ElemType::i32), 2 * sign - 1);
    if (to == Type::u4 || to == Type::u2) return call.cast(x, ElemType::u8);
    return call.cast(call.binary("sub", call.binary("bit_xor", x, sign), sign), ElemType::i8);
}

/// Converts types: float to integer truncates in both worlds; into bool anything but 0 is true.
void convert(Call& call, Type to) {
    const Type from = call.type(0);
    const ElemType elem = elem_of(to);
    if (elem == ElemType::none) Call::refuse(fmt::format("tensors of {} are not taken", name_of(to)));
    if (from == to) return call.result(0, call.in(0));
    ValueId x = call.value(0);
    if (from == Type::f8e8m0) x = from_e8m0(call, x);
    if (to == Type::f8e8m0) {
        x = to_e8m0(call, x);
    } else if (to == Type::boolean) {
        x = call.emit("not_equal", {x, call.number(0, call.elem(x))}, {}, truth);
    } else if (is_small_float(elem)) {
        x = call.to_small_float(x, elem);
    } else if (packed_bits(to) > 0) {
        x = low_bits(call, x, to);
    } else {
        x = call.cast(x, elem);
    }
    call.result(0, x, to);
}

void cast(Call& call) {
    const int64_t to = call.integer("to", 0);
    if (to < 1 || to > 255) Call::refuse(fmt::format("its type {} is not known", to));
    convert(call, static_cast<Type>(to));
}

void cast_like(Call& call) {
    if (call.in(0).constant() && !call.any_stand_in() && fold(call)) return;
    convert(call, call.type(1));
}

void identity(Call& call) { call.result(0, call.given(0)); }

/// Passes the input on: at inference nothing is dropped.
void dropout(Call& call) {
    if (call.opset >= 12 && call.has(2) && call.number_of(2, "training mode") != 0) {
        const bool nothing = !call.has(1) ? false : call.number_of(1, "ratio") == 0;
        if (!nothing) Call::refuse("it is in training mode");
    }
    call.result(0, call.in(0));
    if (!call.wants(1)) return;
    const Sizes& shape = call.shape(0);
    Call::check_made(shape);
    call.result(1, Known{Type::boolean, shape, Sizes(static_cast<size_t>(elements_of(shape)), 1), {}});
}

}  // namespace

void add_elementwise(Operators& t) {
    for (const Row& row : rows()) t.push_back({row.type, plain});
    for (const std::string_view type : {"Sum", "Mean", "Max", "Min"}) t.push_back({type, chain});
    for (const std::string_view type :
         {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"})
        t.push_back({type, compare});
    t.push_back({"Not", negate});
    t.push_back({"IsNaN", is_nan, 9});
    t.push_back({"IsInf", is_inf, 10});
    t.push_back({"Where", where, 9});
    t.push_back({"Pow", power});
    t.push_back({"Mod", modulo, 10});
    for (const std::string_view type : {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"})
        t.push_back({type, bitwise, 18});
    t.push_back({"BitShift", bit_shift, 11});
    t.push_back({"Clip", clip});
    t.push_back({"Gelu", gelu, 20});
    t.push_back({"Swish", swish, 24});
    t.push_back({"SwiGLU", swiglu, 28});
    t.push_back({"Softsign", softsign});
    t.push_back({"Shrink", shrink, 9});
    t.push_back({"Cast", cast});
    t.push_back({"CastLike", cast_like, 15});
    t.push_back({"Identity", identity});
    t.push_back({"Dropout", dropout});
}

}  // namespace kpu::onnx
