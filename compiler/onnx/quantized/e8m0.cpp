#include "compiler/onnx/quantized/e8m0.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace kpu::onnx {

namespace {

constexpr double least_exponent = -127, greatest_exponent = 127;  ///< exponents
constexpr int not_a_number = 255;

}  // namespace

uint8_t e8m0_of(double value) {
    const double size = std::fabs(static_cast<double>(static_cast<float>(value)));
    if (!std::isfinite(size)) return not_a_number;
    if (size < std::numeric_limits<float>::min()) return size > 0 ? 1 : 0;  // f32 has no exponent below
    const int exponent = std::ilogb(size);
    const bool between = size > std::ldexp(1.0, exponent);
    return static_cast<uint8_t>(std::min(exponent + 127 + (between ? 1 : 0), 254));
}

uint8_t e8m0_of_power(double power) {
    return std::isfinite(power) ? static_cast<uint8_t>(std::ilogb(power) + 127) : not_a_number;
}

double number_of_e8m0(uint8_t code) {
    return code == not_a_number ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

ValueId to_e8m0(Call& call, ValueId x) {
    const std::string mode = call.text("round_mode", "up");
    if (mode != "up" && mode != "down" && mode != "nearest")
        Call::refuse(fmt::format("round_mode {} is not known", mode));
    const auto number = [&](double value) { return call.number(value, ElemType::f32); };
    const auto holds = [&](std::string_view opcode, ValueId a, ValueId b) {
        return call.emit(opcode, {a, b}, {}, truth);
    };
    const auto choose = [&](ValueId when, ValueId then, ValueId other) {
        return call.emit("where", {when, then, other}, {}, ElemType::f32);
    };
    const auto one_if = [&](ValueId when) { return call.cast(when, ElemType::f32); };
    const auto power = [&](ValueId exponent) { return call.binary("pow", number(2), exponent); };
    x = call.cast(x, ElemType::f32);
    const ValueId size = call.unary("abs", x);
    // the logarithm may be off by a little: the power tells
    ValueId exponent = call.unary("floor", call.binary("mul", call.unary("log", size), 1 / std::log(2.0)));
    exponent = call.binary("min", call.binary("max", exponent, least_exponent), greatest_exponent);
    const ValueId about = power(exponent);
    exponent = call.binary("sub", exponent, one_if(holds("greater", about, size)));
    exponent =
        call.binary("add", exponent, one_if(holds("less_equal", call.binary("mul", about, 2.0), size)));
    exponent = call.binary("max", exponent, least_exponent);
    const ValueId below = power(exponent), normal = holds("greater", exponent, number(least_exponent));
    ValueId code = call.binary("add", exponent, -least_exponent);
    if (mode == "up") {
        const ValueId up = holds("greater", size, choose(normal, below, number(0)));
        code = call.binary("add", code, one_if(up));
    } else if (mode == "nearest") {
        // without an exponent in f32 a tie stays below
        const ValueId upper = holds("greater_equal", size, call.binary("mul", below, 1.5)),
                      above = holds("greater", size, below);
        code = call.binary("add", code, choose(normal, one_if(upper), one_if(above)));
    }
    if (call.integer("saturate", 1) != 0) code = call.binary("min", code, not_a_number - 1.0);
    const ValueId special = call.emit(
        "or", {call.emit("is_nan", {x}, {}, truth), call.emit("is_inf", {x}, {}, truth)}, {}, truth);
    return call.cast(choose(special, number(not_a_number), code), ElemType::u8);
}

ValueId from_e8m0(Call& call, ValueId x) {
    const ValueId code = call.cast(x, ElemType::f32);
    const ValueId special = call.emit("equal", {code, call.number(not_a_number, ElemType::f32)}, {}, truth);
    const ValueId value =
        call.binary("pow", call.number(2, ElemType::f32), call.binary("sub", code, greatest_exponent));
    return call.emit("where",
                     {special, call.number(std::numeric_limits<double>::quiet_NaN(), ElemType::f32), value},
                     {}, ElemType::f32);
}

}  // namespace kpu::onnx
