// Operators that make floats of steps and steps of floats: quantisation is a property of values.
#include "compiler/onnx/quantized/quantized.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/quantized/e8m0.hpp"
#include "compiler/quantize/parameters.hpp"
#include "values/scalar.hpp"

namespace kpu::onnx {

BoundQuant quant_of(Call& call, size_t scale, const Sizes& shape, int64_t given_axis, int64_t block) {
    const Known& scales = call.known(scale, "scales");
    BoundQuant quant;
    for (size_t i = 0; i < scales.size(); ++i) {
        if (!(scales.number(i) > 0) || !std::isfinite(scales.number(i)))
            Call::refuse(fmt::format("a scale of {} is not taken", scales.number(i)));
        quant.scales.push_back(scales.number(i));
    }
    quant.zero_points.assign(quant.scales.size(), 0);
    if (call.has(scale + 1)) {
        const Known& zeros = call.known(scale + 1, "zero points");
        if (zeros.real() || zeros.size() != scales.size())
            Call::refuse("its zero points do not fit to its scales");
        quant.zero_points = zeros.ints;
    }
    quant.kind = proto::Quant::PER_TENSOR;
    if (scales.size() == 1 && scales.shape.size() < 2) return quant;
    const size_t axis = call.axis(given_axis, static_cast<int64_t>(shape.size()));
    quant.axis = static_cast<int>(axis);
    if (scales.shape.size() == 1 && scales.shape[0] == shape[axis]) {
        quant.kind = proto::Quant::PER_CHANNEL;
        return quant;
    }
    // blocks along one axis, the same for all else, are groups; others have no opcode
    Sizes one(shape.size(), 1);
    if (block > 0 && scales.shape.size() == shape.size()) one[axis] = (shape[axis] + block - 1) / block;
    if (block < 1 || scales.shape != one)
        Call::refuse(
            fmt::format("scales {} of a tensor {} are not taken", text_of(scales.shape), text_of(shape)));
    quant.kind = proto::Quant::PER_GROUP;
    quant.group_size = block;
    return quant;
}

namespace {

bool constant_scales(const Call& call, size_t scale) {
    return call.in(scale).constant() && (!call.has(scale + 1) || call.in(scale + 1).constant());
}

/// Spreads scales or zero points to a tensor that broadcasts to `shape`.
ValueId spread(Call& call, size_t operand, const Sizes& shape, int64_t given_axis, int64_t block,
               ElemType elem) {
    ValueId x = call.value(operand);
    if (call.type(operand) == Type::f8e8m0) x = from_e8m0(call, x);
    x = call.cast(x, elem);
    const Sizes s = call.sizes(x);
    if (elements_of(s) == 1) return call.reshape(x, {});
    const size_t axis = call.axis(given_axis, static_cast<int64_t>(shape.size()));
    if (s.size() == 1) {
        Sizes places(shape.size(), 1);
        places[axis] = s[0];
        return call.reshape(x, places);
    }
    if (block < 1 || s.size() != shape.size())
        Call::refuse(fmt::format("scales {} are not taken", text_of(s)));
    Sizes apart = s, repeated = s, whole = s;  // [.., blocks, 1, ..] to [.., blocks, block, ..]
    const auto at = static_cast<int64_t>(axis) + 1;
    apart.insert(apart.begin() + at, 1);
    repeated.insert(repeated.begin() + at, block);
    whole[axis] *= block;
    x = call.reshape(call.expand(call.reshape(x, apart), repeated), whole);
    return whole[axis] == shape[axis] ? x : call.slice(x, static_cast<int64_t>(axis), 0, shape[axis]);
}

/// Computes (x - zero) * scale by arithmetic: for scales that are computed, and integers that also stand for
/// themselves.
ValueId real_of(Call& call, size_t operand, int64_t axis, int64_t block, ElemType elem) {
    const Sizes shape = call.shape(operand);
    ValueId x = call.cast(call.value(operand), ElemType::f32);
    if (call.has(operand + 2))
        x = call.binary("sub", x, spread(call, operand + 2, shape, axis, block, ElemType::f32));
    return call.cast(call.binary("mul", x, spread(call, operand + 1, shape, axis, block, ElemType::f32)),
                     elem);
}

/// Returns u4 as i4, 8 lower with its zero points: the type of weights that arrays multiply.
ValueId lowered_nibbles(Call& call, size_t operand, BoundQuant quant) {
    const Tensor& tensor = *call.in(operand).tensor;
    const graph::NewData made = graph::new_data(tensor.data.size);
    for (uint64_t i = 0; i < tensor.data.size; ++i)
        made.bytes[i] = static_cast<uint8_t>(tensor.data.bytes[i] - 8);
    for (int64_t& zero : quant.zero_points) zero -= 8;
    return call.graph.add_constant(tensor.name, ElemType::i4, graph::dims(tensor.shape), made.data, quant);
}

}  // namespace

std::optional<ValueId> renamed(Call& call, size_t operand, const BoundQuant& quant) {
    const ValueId x = call.value(operand);
    graph::Value& value = call.graph.value(x);
    if (value.quant && quantize::equal(value.quant, quant)) return x;
    if (value.constant())
        return call.graph.add_constant(value.name, value.elem, value.shape, value.data, quant);
    if (value.quant || !call.in(operand).sole) return std::nullopt;
    value.quant = quant;
    return x;
}

ValueId dequantised(Call& call, size_t x, int64_t axis, int64_t block, ElemType elem) {
    if (is_small_float(elem_of(call.type(x)))) return real_of(call, x, axis, block, elem);
    if (constant_scales(call, x + 1)) {
        const BoundQuant quant = quant_of(call, x + 1, call.shape(x), axis, block);
        const bool nibbles = call.in(x).tensor && call.in(x).tensor->nibbles;
        const std::optional<ValueId> steps =
            nibbles ? lowered_nibbles(call, x, quant) : renamed(call, x, quant);
        if (steps) return call.emit("dequantize", {*steps}, {}, elem);
    }
    return real_of(call, x, axis, block, elem);
}

namespace {

/// Returns the type of the zero point, of output_dtype, or uint8.
Type quantized_type(Call& call) {
    if (call.has(2) && call.in(2).tensor && call.in(2).tensor->nibbles) return Type::u4;
    if (call.has(2)) return call.type(2);
    const int64_t type = call.integer("output_dtype", 0);
    return type == 0 ? Type::u8 : static_cast<Type>(type);
}

bool all_zero(const Known& known) {
    for (size_t i = 0; i < known.size(); ++i) {
        if (known.number(i) != 0) return false;
    }
    return true;
}

/// True for types of 2 and 4 bits, in a byte whose type does not saturate there.
bool is_narrower(Type type) {
    return packed_bits(type) > 0 && elem_of(type) != ElemType::i4 && !is_real(type);
}

/// Computes saturate(round(x / scale) + zero), by arithmetic.
ValueId computed_steps(Call& call, int64_t axis, int64_t block, Type type) {
    const Sizes shape = call.shape(0);
    const ValueId x = call.cast(call.value(0), ElemType::f32);
    ValueId steps =
        call.unary("round", call.binary("div", x, spread(call, 1, shape, axis, block, ElemType::f32)));
    if (call.has(2)) steps = call.binary("add", steps, spread(call, 2, shape, axis, block, ElemType::f32));
    if (is_narrower(type)) {
        const double count = std::exp2(packed_bits(type)),
                     low = elem_of(type) == ElemType::u8 ? 0 : -count / 2;
        steps = call.emit("clamp", {steps},
                          {graph::real("min_val", low), graph::real("max_val", low + count - 1)});
    }
    return call.emit("cast", {steps}, {}, elem_of(type));
}

/// Computes x / scale, rounded: there are no steps, and a zero point is 0.
void quantize_to_small_float(Call& call, Type type) {
    const int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
    if (call.has(2) && !all_zero(call.known(2, "zero points")))
        Call::refuse(fmt::format("its zero point of {} is not 0", name_of(type)));
    const ValueId x = call.cast(call.value(0), ElemType::f32);
    const ValueId scaled = call.binary("div", x, spread(call, 1, call.shape(0), axis, block, ElemType::f32));
    call.result(0, call.to_small_float(scaled, elem_of(type)), type);
}

void quantize(Call& call) {
    const Type type = quantized_type(call);
    const ElemType elem = elem_of(type);
    if (is_small_float(elem)) return quantize_to_small_float(call, type);
    if (!is_integer(elem)) Call::refuse(fmt::format("quantisation to {} is not taken", name_of(type)));
    const int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
    if (is_narrower(type) || !constant_scales(call, 1))
        return call.result(0, computed_steps(call, axis, block, type), type);
    const BoundQuant quant = quant_of(call, 1, call.shape(0), axis, block);
    const ValueId x = call.cast(
        call.value(0), is_float(call.elem(call.value(0))) ? call.elem(call.value(0)) : ElemType::f32);
    call.result(0, call.emit("quantize", {x}, {}, elem, quant), type);
}

}  // namespace

std::shared_ptr<const graph::Blocks> blocks_of(graph::Data steps, const Known& scales,
                                               const std::vector<double>& zero_points, size_t axis,
                                               int64_t size) {
    graph::Blocks blocks;
    blocks.steps = std::move(steps);
    blocks.axis = axis;
    blocks.size = size;
    blocks.shape = graph::dims(scales.shape);
    blocks.elem = scales.type == Type::f16 ? ElemType::f16 : ElemType::f32;
    blocks.scales = graph::make_numbers(blocks.elem, scales.reals);
    if (std::any_of(zero_points.begin(), zero_points.end(), [](double zero) { return zero != 0; }))
        blocks.zero_points = graph::make_numbers(blocks.elem, zero_points);
    return std::make_shared<const graph::Blocks>(std::move(blocks));
}

namespace {

/// Returns what u4 has above i4.
double above_i4(Type type) { return type == Type::u4 ? 8 : 0; }

/// Returns the numbers of 4 bits as i4.
template <class Number>
graph::Data nibbles_of(Type type, size_t count, const Number& number) {
    const graph::NewData steps = graph::new_data(graph::data_bytes(ElemType::i4, count));
    for (size_t i = 0; i < count; ++i)
        values::store_saturated(ElemType::i4, steps.bytes, static_cast<int64_t>(i),
                                static_cast<int64_t>(number(i) - above_i4(type)));
    return steps.data;
}

/// Returns the zero points; those of u4 are 8 lower, as its steps are.
std::vector<double> points_of(Type type, const Known& scales, const Known* zeros) {
    std::vector<double> points(scales.size(), -above_i4(type));
    for (size_t i = 0; zeros != nullptr && i < zeros->size(); ++i) points[i] += zeros->number(i);
    return points;
}

/// Returns a constant with scales of its own for each block along an axis, and for whatever lies beside it.
/// It becomes floats here, as (x - zero) * scale in f32; of 4 bits it keeps its blocks too.
std::optional<ValueId> blocks_as_floats(Call& call, int64_t given_axis, int64_t block, ElemType elem) {
    if (block < 1 || !call.in(0).constant() || !constant_scales(call, 1)) return std::nullopt;
    const bool nibbles = call.in(0).tensor && call.in(0).tensor->nibbles;
    const Sizes& shape = call.shape(0);
    const size_t axis = call.axis(given_axis, call.rank(0));
    Sizes blocks = shape;
    blocks[axis] = (shape[axis] + block - 1) / block;
    const Known& scales = call.known(1, "scales");
    const Known* zeros = call.has(2) ? &call.known(2, "zero points") : nullptr;
    if (scales.shape != blocks || (zeros != nullptr && zeros->shape != blocks))
        Call::refuse(fmt::format("scales {} of blocks of {} in a tensor {} are not taken",
                                 text_of(scales.shape), block, text_of(shape)));
    int64_t behind = 1;
    for (size_t d = axis + 1; d < shape.size(); ++d) behind *= shape[d];
    const auto count = static_cast<size_t>(elements_of(shape));
    const auto number = [&from = call.in(0)](size_t i) { return number_of(from, i); };
    std::vector<float> factors, points(scales.size());
    for (size_t i = 0; i < scales.size(); ++i) {
        factors.push_back(static_cast<float>(scales.number(i)));
        if (zeros != nullptr) points[i] = static_cast<float>(zeros->number(i));
    }
    const graph::NewData floats = graph::new_data(graph::data_bytes(elem, count));
    for (size_t i = 0; i < count;) {  // a line of elements that have neighbouring scales
        const auto row = static_cast<int64_t>(i) / behind;
        const int64_t along = row % shape[axis], before = row / shape[axis];
        auto from = static_cast<size_t>((before * blocks[axis] + along / block) * behind);
        for (int64_t j = 0; j < behind; ++j, ++i, ++from)
            values::store_float(elem, floats.bytes, static_cast<int64_t>(i),
                                (static_cast<float>(number(i)) - points[from]) * factors[from]);
    }
    const ValueId id = call.graph.add_constant(call.node.inputs[0], elem, graph::dims(shape), floats.data);
    const Type type = nibbles ? Type::u4 : call.type(0);
    if (type == Type::i4 || type == Type::u4) {
        const auto& tensor = call.in(0).tensor;
        graph::Data steps = type == Type::i4 && tensor ? tensor->data : nibbles_of(type, count, number);
        call.graph.value(id).blocks =
            blocks_of(std::move(steps), scales, points_of(type, scales, zeros), axis, block);
    }
    return id;
}

void dequantize(Call& call) {
    const int64_t axis = call.integer("axis", 1), block = call.integer("block_size", 0);
    Type type = call.type(1);
    if (const int64_t told = call.integer("output_dtype", 0); told != 0) type = static_cast<Type>(told);
    if (!is_float(elem_of(type)))
        Call::refuse(fmt::format("dequantisation to {} is not taken", name_of(type)));
    if (const std::optional<ValueId> floats = blocks_as_floats(call, axis, block, elem_of(type)))
        return call.result(0, *floats, type);
    call.result(0, dequantised(call, 0, axis, block, elem_of(type)), type);
}

}  // namespace

void add_quantized(Operators& t) {
    for (const std::string_view domain : {"", "com.microsoft"}) {
        t.push_back({"QuantizeLinear", quantize, 10, 999, domain});
        t.push_back({"DequantizeLinear", dequantize, 10, 999, domain});
    }
}

}  // namespace kpu::onnx
