// Products of integers whose result is the accumulator, and steps whose scale is computed from the values.
#include <fmt/format.h>

#include "compiler/graph/data.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/convolutions.hpp"
#include "compiler/onnx/products/products.hpp"
#include "compiler/onnx/quantized/quantized.hpp"
#include "compiler/quantize/parameters.hpp"

namespace kpu::onnx {
namespace {

/// Integers that stand for themselves, less their zero points.
BoundQuant whole_numbers(Sizes zero_points) {
    BoundQuant quant;
    quant.kind = zero_points.size() > 1 ? proto::Quant::PER_CHANNEL : proto::Quant::PER_TENSOR;
    quant.scales.assign(zero_points.size(), 1);
    quant.zero_points = std::move(zero_points);
    return quant;
}

/// Integers with a constant zero point and the scale 1. `operand`: of the zero point.
ValueId centred(Call& call, size_t x, size_t operand, int64_t axis) {
    BoundQuant quant = whole_numbers(call.has(operand) ? call.ints_of(operand, "zero points") : Sizes{0});
    if (quant.kind == proto::Quant::PER_CHANNEL) {
        quant.axis = static_cast<int>(axis);
        if (axis < 0 || call.shape(x)[static_cast<size_t>(axis)] != static_cast<int64_t>(quant.scales.size()))
            Call::refuse("its zero points are not those of columns");
    }
    if (const std::optional<ValueId> renamed_x = renamed(call, x, quant)) return *renamed_x;
    // the zero points change what the integers stand for: by way of floats, which hold them exactly
    const ElemType elem = call.elem(call.value(x));
    ValueId real = call.cast(call.value(x), ElemType::f32);
    if (call.has(operand)) {
        Sizes places(call.shape(x).size(), 1);
        if (quant.scales.size() > 1)
            places[static_cast<size_t>(axis)] = static_cast<int64_t>(quant.scales.size());
        real = call.binary("sub", real, call.reshape(call.cast(call.value(operand), ElemType::f32), places));
    }
    return call.emit("quantize", {real}, {}, elem, quant);
}

// ---- zero points that are computed

constexpr double lower = 128;  ///< u8 is i8, the type that arrays multiply, and so much

/// Returns whole floats as i8 that products take; what is beyond saturates.
ValueId whole_steps(Call& call, ValueId x) {
    return call.emit("quantize", {x}, {}, ElemType::i8, whole_numbers({0}));
}

/// Returns u8 as i8. What only was raised to u8 is what it was before.
ValueId lowered(Call& call, ValueId x) {
    if (call.elem(x) == ElemType::i8) {
        const bool whole = quantize::equal(call.graph.value(x).quant, whole_numbers({0}));
        return whole ? x : whole_steps(call, call.cast(x, ElemType::f32));
    }
    if (call.elem(x) != ElemType::u8)
        Call::refuse(fmt::format("{} is not taken", kpu::name_of(call.elem(x))));
    const std::vector<int32_t> makers = graph::producers(call.graph);
    const auto source = [&](ValueId id, std::string_view opcode) -> const graph::Node* {
        const int32_t maker = makers[id];
        if (maker < 0) return nullptr;
        const graph::Node& node = call.graph.nodes[static_cast<size_t>(maker)];
        return node.spec().name == opcode ? &node : nullptr;
    };
    const auto is_lower = [&](ValueId id) {
        const graph::Value& value = call.graph.value(id);
        return value.constant() && value.elements() == 1 && graph::numbers(value)[0] == lower;
    };
    const graph::Node* cast = source(x, "cast");
    const graph::Node* add = cast == nullptr ? nullptr : source(cast->inputs[0], "add");
    const graph::Node* from =
        add == nullptr || !is_lower(add->inputs[1]) ? nullptr : source(add->inputs[0], "cast");
    if (from != nullptr && call.elem(from->inputs[0]) == ElemType::i8) return from->inputs[0];
    return whole_steps(call, call.binary("sub", call.cast(x, ElemType::f32), lower));
}

ValueId raised(Call& call, ValueId x) {
    return call.emit("cast", {call.binary("add", call.cast(x, ElemType::f32), lower)}, {}, ElemType::u8);
}

/// Returns i8 everywhere 1.
ValueId ones(Call& call, const Sizes& shape) {
    Call::check_made(shape);
    const std::vector<double> all(static_cast<size_t>(elements_of(shape)), 1);
    return call.graph.add_constant(call.source.name + "/ones", ElemType::i8, graph::dims(shape),
                                   graph::make_numbers(ElemType::i8, all), whole_numbers({0}));
}

/// Returns the products with (x - zero), of products with x and with 1.
ValueId less_zero(Call& call, ValueId product, ValueId zero, ValueId of_ones) {
    if (elements_of(call.sizes(zero)) != 1) Call::refuse("its first operand has a zero point for each row");
    zero = call.cast(call.reshape(zero, {}), ElemType::i32);
    return call.binary("sub", product, call.binary("mul", of_ones, zero));
}

ValueId accumulated(Call& call, ValueId a, ValueId b) {
    const MatmulOperands operands = matmul_operands(call, a, b);
    const ValueId y = call.emit("gemm.acc", {operands.a, operands.b},
                                {graph::type("accum_type", ElemType::i32)}, ElemType::i32);
    return call.reshape(y, operands.shape);
}

/// Multiplies i8 `a`, less its computed zero point, by operand `b`, less the constant one in operand
/// `b_zero`.
ValueId integer_product(Call& call, ValueId a, ValueId zero, size_t b, size_t b_zero) {
    const Sizes of_a = call.sizes(a), of_b = call.shape(b);
    const ValueId w = centred(call, b, b_zero, call.rank(b) - 1);
    Sizes row = of_b;  // one row for each of its matrices
    if (of_b.size() > 1) {
        row[row.size() - 2] = 1;
        row.back() = of_b[of_b.size() - 2];
    }
    ValueId sums = accumulated(call, ones(call, row), w);
    if (of_a.size() == 1 && of_b.size() > 1) {
        Sizes less = call.sizes(sums);
        less.erase(less.end() - 2);
        sums = call.reshape(sums, less);
    }
    return less_zero(call, accumulated(call, a, w), zero, sums);
}

bool is_computed(const Call& call, size_t operand) {
    return call.has(operand) && !call.in(operand).constant();
}

/// Imports a, b, a_zero, b_zero; the result is the accumulator.
void matmul_integer(Call& call) {
    ValueId y = 0;
    if (is_computed(call, 2)) {
        const ValueId zero = lowered(call, call.value(2));
        y = integer_product(call, lowered(call, call.value(0)), zero, 1, 3);
    } else {
        y = accumulated(call, centred(call, 0, 2, -1), centred(call, 1, 3, call.rank(1) - 1));
    }
    call.result(0, y, Type::i32);
}

void conv_integer(Call& call) {
    const Window window = window_of(call, spatial_of(call.shape(1)), spatial_of(call.shape(0)));
    const ValueId w = centred(call, 1, 3, 0);
    const auto convolved = [&](ValueId x) {
        return convolution(call, x, w, std::nullopt, window, call.integer("group", 1), ElemType::i32);
    };
    if (!is_computed(call, 2)) return call.result(0, convolved(centred(call, 0, 2, -1)), Type::i32);
    Sizes image = call.shape(0);
    image[0] = 1;
    const ValueId zero = lowered(call, call.value(2)), x = lowered(call, call.value(0));
    call.result(0, less_zero(call, convolved(x), zero, convolved(ones(call, image))), Type::i32);
}

/// x in i8 steps of a computed scale, their zero point 128 lower than that of u8.
struct DynamicSteps {
    ValueId steps, scale, zero;
};

DynamicSteps dynamic_steps(Call& call, ValueId x) {
    const Sizes all = identity_perm(call.sizes(x).size());
    const ValueId most = call.binary("max", call.reduce("reduce_max", x, all, false), 0.0);
    const ValueId least = call.binary("min", call.reduce("reduce_min", x, all, false), 0.0);
    const ElemType elem = call.elem(most);
    const ValueId range = call.binary("sub", most, least);
    const ValueId zeros = call.emit("equal", {range, call.number(0, elem)}, {}, ElemType::u8);
    const ValueId scale =
        call.emit("where", {zeros, call.number(1, elem), call.binary("div", range, 255.0)}, {}, elem);
    const ValueId first = call.unary("round", call.unary("neg", call.binary("div", least, scale)));
    const ValueId zero = call.emit("clamp", {call.binary("sub", first, lower)},
                                   {graph::real("min_val", -lower), graph::real("max_val", 255 - lower)});
    const ValueId steps = call.unary("round", call.binary("div", x, scale));
    return {whole_steps(call, call.binary("add", steps, zero)), scale, whole_steps(call, zero)};
}

/// Imports DynamicQuantizeLinear: scale and zero point are computed from the values, so they are tensors like
/// others.
void dynamic_quantize(Call& call) {
    const DynamicSteps made = dynamic_steps(call, call.value(0));
    call.result(0, raised(call, made.steps), Type::u8);
    call.result(1, made.scale, call.type(0));
    call.result(2, raised(call, made.zero), Type::u8);
}

/// Accumulators as floats, with the scales of both operands, plus a bias.
void scaled_result(Call& call, ValueId sums, ValueId a_scale, size_t b_scale, size_t bias) {
    ValueId scale = call.value(b_scale);
    scale = call.binary("mul", scale, call.reshape(a_scale, {}));
    ValueId y = call.binary("mul", call.cast(sums, ElemType::f32), scale);
    if (call.has(bias)) y = call.binary("add", y, call.value(bias));
    call.result(0, y, Type::f32);
}

/// Imports com.microsoft: a, b, b_scale, b_zero, bias. `a` gets the steps of DynamicQuantizeLinear.
void dynamic_matmul(Call& call) {
    const DynamicSteps a = dynamic_steps(call, call.value(0));
    scaled_result(call, integer_product(call, a.steps, a.zero, 1, 3), a.scale, 2, 4);
}

/// Imports com.microsoft: a, b, a_scale, b_scale, a_zero, b_zero, bias.
void matmul_integer_to_float(Call& call) {
    if (elements_of(call.shape(2)) != 1) Call::refuse("its first operand has a scale for each row");
    const ValueId a = lowered(call, call.value(0));
    const ValueId zero = call.has(4) ? lowered(call, call.value(4))
                                     : call.number(call.type(0) == Type::u8 ? -lower : 0, ElemType::i32);
    scaled_result(call, integer_product(call, a, zero, 1, 5), call.value(2), 3, 6);
}

}  // namespace

void add_integer_products(Operators& t) {
    t.push_back({"MatMulInteger", matmul_integer, 10});
    t.push_back({"ConvInteger", conv_integer, 10});
    t.push_back({"DynamicQuantizeLinear", dynamic_quantize, 11});
    t.push_back({"DynamicQuantizeMatMul", dynamic_matmul, 1, 999, "com.microsoft"});
    t.push_back({"MatMulIntegerToFloat", matmul_integer_to_float, 1, 999, "com.microsoft"});
}

}  // namespace kpu::onnx
