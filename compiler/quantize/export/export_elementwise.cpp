// Elementwise opcodes and conversions in an exported model.
#include <utility>

#include "compiler/quantize/export/export_node.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using ::onnx::TensorProto;

/// Operators with the same operands, and attributes of the same names.
struct Elementwise {
    std::string_view opcode;
    const char* op_type;
    std::vector<std::string_view> attributes = {};
};

const std::vector<Elementwise>& elementwise_rows() {
    static const std::vector<Elementwise> table = {
        {"relu", "Relu"},
        {"sigmoid", "Sigmoid"},
        {"tanh", "Tanh"},
        {"exp", "Exp"},
        {"log", "Log"},
        {"sqrt", "Sqrt"},
        {"abs", "Abs"},
        {"neg", "Neg"},
        {"gelu", "Gelu"},
        {"add", "Add"},
        {"sub", "Sub"},
        {"mul", "Mul"},
        {"div", "Div"},
        {"pow", "Pow"},
        {"min", "Min"},
        {"max", "Max"},
        {"erf", "Erf"},
        {"floor", "Floor"},
        {"ceil", "Ceil"},
        {"round", "Round"},
        {"sign", "Sign"},
        {"reciprocal", "Reciprocal"},
        {"sin", "Sin"},
        {"cos", "Cos"},
        {"tan", "Tan"},
        {"asin", "Asin"},
        {"acos", "Acos"},
        {"atan", "Atan"},
        {"sinh", "Sinh"},
        {"cosh", "Cosh"},
        {"asinh", "Asinh"},
        {"acosh", "Acosh"},
        {"atanh", "Atanh"},
        {"softplus", "Softplus"},
        {"mish", "Mish"},
        {"hard_swish", "HardSwish"},
        {"prelu", "PRelu"},
        {"leaky_relu", "LeakyRelu", {"alpha"}},
        {"elu", "Elu", {"alpha"}},
        {"celu", "Celu", {"alpha"}},
        {"thresholded_relu", "ThresholdedRelu", {"alpha"}},
        {"hard_sigmoid", "HardSigmoid", {"alpha", "beta"}},
        {"selu", "Selu", {"alpha", "gamma"}},
        {"equal", "Equal"},
        {"less", "Less"},
        {"less_equal", "LessOrEqual"},
        {"greater", "Greater"},
        {"greater_equal", "GreaterOrEqual"},
        {"is_nan", "IsNaN"},
        {"is_inf", "IsInf", {"detect_positive", "detect_negative"}},
        {"and", "And"},
        {"or", "Or"},
        {"xor", "Xor"},
        {"bit_and", "BitwiseAnd"},
        {"bit_or", "BitwiseOr"},
        {"bit_xor", "BitwiseXor"},
        {"not", "Not"},
    };
    return table;
}

Names wide_operands(ExportedNode& n) {
    Names names;
    for (size_t i = 0; i < n.inputs(); ++i) names.push_back(n.wide(i));
    return names;
}

void computed(ExportedNode& n, const std::string& name) {
    const bool condition = n.spec.outputs[0].role == OperandRole::condition;
    n.result_of_type(name, condition ? TensorProto::BOOL : ExportedNode::wide_type(n.out()));
}

void clamp(ExportedNode& n) {
    const std::string low = n.number(n.real("min_val")), high = n.number(n.real("max_val"));
    computed(n, n.op("Clip", {n.wide(), low, high}));
}

void silu(ExportedNode& n) { n.result(n.op("Mul", {n.x(), n.op("Sigmoid", {n.x()})})); }

void square(ExportedNode& n) {
    const std::string x = n.wide();
    computed(n, n.op("Mul", {x, x}));
}

void rsqrt(ExportedNode& n) { n.result(n.op("Reciprocal", {n.op("Sqrt", {n.x()})})); }

void gelu_tanh(ExportedNode& n) {
    n.result(n.op("Gelu", {n.x()}, {OnnxWriter::text("approximate", "tanh")}));
}

void not_equal(ExportedNode& n) { computed(n, n.op("Not", {n.op("Equal", wide_operands(n))})); }

void where(ExportedNode& n) { n.result(n.op("Where", n.operands())); }

void fmod(ExportedNode& n) { computed(n, n.op("Mod", wide_operands(n), {OnnxWriter::integer("fmod", 1)})); }

/// Exports floor_mod: ONNX has it of integers alone.
void floor_mod(ExportedNode& n) {
    const Names x = wide_operands(n);
    if (ExportedNode::wide_type(n.in(0)) != TensorProto::FLOAT) return computed(n, n.op("Mod", x));
    const std::string whole = n.op("Floor", {n.op("Div", x)});
    n.result(n.op("Sub", {x[0], n.op("Mul", {x[1], whole})}));
}

/// Integers saturate, which those of other runtimes do not by themselves. Steps are cast as integers, whatever they stand
/// for.
void cast(ExportedNode& n) {
    const graph::Value &from = n.in(0), &to = n.out();
    const bool steps = from.quant && !to.quant;
    const std::string x = steps ? n.values.steps(n.node.inputs[0]) : n.x();
    const int given = steps ? onnx_type(from.elem) : ExportedValues::type_of(from);
    const int wanted = ExportedValues::type_of(to);
    const bool narrows = !is_float(to.elem) && !to.quant && bit_width(to.elem) < 32 &&
                         (given == TensorProto::FLOAT || bit_width(from.elem) >= bit_width(to.elem));
    if (!narrows || given == wanted) return n.result_of_type(x, given);
    const values::IntegerRange range = values::range_of(to.elem);
    const auto bound = [&](int64_t value) { return n.number(static_cast<double>(value)); };
    const std::string wide = steps ? n.cast(x, TensorProto::FLOAT) : n.wide();
    n.result_of_type(n.op("Clip", {wide, bound(range.low), bound(range.high)}),
                     ExportedNode::wide_type(from));
}

/// ONNX shifts unsigned numbers alone, by less than their bits: all are 64 bits wide, and what leaves the type is cut off.
void shift(ExportedNode& n, const char* direction) {
    if (n.in(0).elem == ElemType::i8 || n.in(0).elem == ElemType::i16)
        n.refuse("ONNX has no shift of signed numbers", "leave --export-qdq out");
    const auto wide = [&](int64_t number) { return n.cast(n.integers({}, {number}), TensorProto::UINT64); };
    const auto operand = [&](size_t i) { return n.cast(n.wide(i), TensorProto::UINT64); };
    const std::string by = n.op("Min", {operand(1), wide(63)});
    std::string y = n.op("BitShift", {operand(0), by}, {OnnxWriter::text("direction", direction)});
    const int bits = bit_width(n.out().elem);
    if (bits < 32) y = n.op("Mod", {y, wide(int64_t{1} << bits)});
    const int type = ExportedValues::type_of(n.out());
    n.result_of_type(n.cast(y, type), type);
}

/// The scales stand on the values.
void requantized(ExportedNode& n) { n.result_of_type(n.x(), ExportedValues::type_of(n.in(0))); }

}  // namespace

void export_elementwise(Exports& t) {
    for (const Elementwise& row : elementwise_rows()) {
        t[row.opcode] = [&row](ExportedNode& n) {
            computed(n, n.op(row.op_type, wide_operands(n), n.attributes(row.attributes)));
        };
    }
    t["clamp"] = clamp;
    t["silu"] = silu;
    t["square"] = square;
    t["rsqrt"] = rsqrt;
    t["gelu_tanh"] = gelu_tanh;
    t["not_equal"] = not_equal;
    t["where"] = where;
    t["fmod"] = fmod;
    t["floor_mod"] = floor_mod;
    t["shift_left"] = [](ExportedNode& n) { shift(n, "LEFT"); };
    t["shift_right"] = [](ExportedNode& n) { shift(n, "RIGHT"); };
    t["cast"] = cast;
    for (const std::string_view opcode : {"quantize", "dequantize", "requant"}) t[opcode] = requantized;
}

}  // namespace kpu::quantize
