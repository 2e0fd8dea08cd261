// Elementwise opcodes: Y[i] = f(X[i]) or f(A[i], B[i]). The functions stand in values/elementwise.cpp.
#include <algorithm>

#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

OpcodeSpec elementwise(std::string_view name, std::vector<OperandSpec> inputs, std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = std::move(inputs);
    row.outputs = {y};
    row.formula = formula;
    row.op_class = OpcodeClass::elementwise;
    row.family = "eltwise";
    row.types = same_numbers;
    row.shapes = same_shape;
    row.in_place_allowed = true;
    row.energy = per_element;
    row.traits.needs = Needs::place;
    row.traits.grouping = Grouping::link;
    row.traits.elementwise = row.traits.requantizes = true;
    row.traits.any_order = row.traits.strips = true;
    return row;
}

OpcodeSpec unary(std::string_view name, std::string_view formula) { return elementwise(name, {x}, formula); }

OpcodeSpec binary(std::string_view name, std::string_view formula) {
    return elementwise(name, {a, b}, formula);
}

/// Costs `cycles` an element, and the energy of a special function whatever its type. Assumed: an
/// exponential, logarithm, division or root runs at a quarter of the rate of an addition, as in shader cores
/// of the field.
OpcodeSpec special(OpcodeSpec row, double cycles) {
    row.cycles = cycles;
    row.energy = special_function;
    return row;
}

/// Does the same as special(); the formula has no meaning for plain integers.
OpcodeSpec real_only(OpcodeSpec row, double cycles) {
    row.integers_need_quant = true;
    return special(std::move(row), cycles);
}

/// Additions and multiplications alone, but with fractions: plain integers are refused.
OpcodeSpec fractional(OpcodeSpec row, double cycles) {
    row.integers_need_quant = true;
    row.cycles = cycles;
    return row;
}

OpcodeSpec with(OpcodeSpec row, std::vector<AttrSpec> attributes) {
    row.attributes = std::move(attributes);
    return row;
}

std::vector<Dims> clamp_shape(const ShapeCase& c) {
    const double low = c.attribute("min_val").real, high = c.attribute("max_val").real;
    std::vector<Dims> result = same_shape(c);
    if (low > high) c.fail("min_val {} is above max_val {}. Fix: swap them.", low, high);
    return result;
}

/// Returns a binary opcode whose result is a condition. Work and energy are those of the operands' type.
OpcodeSpec comparison(std::string_view name, std::string_view formula) {
    OpcodeSpec row = binary(name, formula);
    row.outputs[0].role = OperandRole::condition;
    row.family = "compare";
    row.work = WorkCount::operands;
    return row;
}

/// Returns a property of floats, as a condition.
OpcodeSpec classification(std::string_view name, std::string_view formula) {
    OpcodeSpec row = comparison(name, formula);
    row.inputs = {x};
    row.family = "classify";
    row.types = same_floats;
    return row;
}

/// Conditions to a condition.
OpcodeSpec logic(OpcodeSpec row) {
    for (OperandSpec& operand : row.inputs) operand.role = OperandRole::condition;
    row.outputs[0].role = OperandRole::condition;
    row.family = "logic";
    return row;
}

/// True for bits of plain integers, all of one type.
bool same_integers(const OpcodeSpec&, const std::vector<ElemType>& in, const std::vector<ElemType>& out) {
    const auto fits = [&](ElemType type) {
        return type == in[0] && is_integer(type) && type != ElemType::i4;
    };
    return std::all_of(in.begin(), in.end(), fits) && std::all_of(out.begin(), out.end(), fits);
}

OpcodeSpec of_bits(OpcodeSpec row) {
    for (OperandSpec& operand : row.inputs) operand.role = OperandRole::integer;
    row.outputs[0].role = OperandRole::integer;
    row.types = same_integers;
    return row;
}

void add_bits(Table& t) {
    t.push_back(of_bits(binary("bit_and", "Y = A and B, bit by bit; plain integers; equal shapes")));
    t.push_back(of_bits(binary("bit_or", "Y = A or B, bit by bit; plain integers; equal shapes")));
    t.push_back(of_bits(binary("bit_xor", "Y = A xor B, bit by bit; plain integers; equal shapes")));
    t.push_back(
        of_bits(binary("shift_left",
                       "Y = A * 2^B, without the bits that leave the type; 0 where B is not below its "
                       "number of bits; plain integers; equal shapes")));
    t.push_back(
        of_bits(binary("shift_right",
                       "Y = floor(A / 2^B); B not below the number of bits shifts all of them out; plain "
                       "integers; equal shapes")));
}

OpcodeSpec clamp() {
    OpcodeSpec row = with(unary("clamp", "Y = min(max(X, min_val), max_val)"),
                          {{"min_val", AttrKind::real, true, "", "lower bound"},
                           {"max_val", AttrKind::real, true, "", "upper bound, at least min_val"}});
    row.shapes = clamp_shape;
    row.traits.bounds = true;
    return with_traits(row, InSteps::exact, OfLow::absorbed);
}

void add_activations(Table& t) {
    const AttrSpec steepness{"alpha", AttrKind::real, false, "1", "factor below 0"};
    t.push_back(
        with_traits(real_only(with(unary("elu", "Y = X < 0 ? alpha * (exp(X) - 1) : X"), {steepness}), 5),
                    InSteps::smooth));
    t.push_back(with_traits(real_only(with(unary("celu", "Y = X < 0 ? alpha * (exp(X / alpha) - 1) : X"),
                                           {{"alpha", AttrKind::real, false, "1", "factor below 0"}}),
                                      6),
                            InSteps::smooth));
    t.push_back(with_traits(
        real_only(with(unary("selu", "Y = gamma * (X < 0 ? alpha * (exp(X) - 1) : X)"),
                       {{"alpha", AttrKind::real, false, "1.67326319217681884765625", "factor below 0"},
                        {"gamma", AttrKind::real, false, "1.05070102214813232421875", "factor of all"}}),
                  6),
        InSteps::smooth));
    t.push_back(
        with_traits(real_only(unary("softplus", "Y = ln(1 + exp(X)), as max(X, 0) + ln(1 + exp(-|X|))"), 6),
                    InSteps::smooth));
    t.push_back(with_traits(real_only(unary("mish", "Y = X * tanh(softplus(X))"), 9), InSteps::smooth));
    t.push_back(with_traits(fractional(with(unary("hard_sigmoid", "Y = min(max(alpha * X + beta, 0), 1)"),
                                            {{"alpha", AttrKind::real, false, "0.2", "slope"},
                                             {"beta", AttrKind::real, false, "0.5", "value at 0"}}),
                                       1),
                            InSteps::smooth, OfLow::absorbed));
    t.push_back(with_traits(fractional(unary("hard_swish", "Y = X * min(max(X / 6 + 0.5, 0), 1)"), 2),
                            InSteps::smooth));
    t.push_back(with_traits(
        real_only(unary("gelu_tanh", "Y = X / (1 + exp(-2 * u)), u = sqrt(2 / pi) * (X + 0.044715 * X^3)"),
                  7),
        InSteps::smooth));
    t.push_back(with(unary("thresholded_relu", "Y = X > alpha ? X : 0"),
                     {{"alpha", AttrKind::real, false, "1", "threshold"}}));
    t.push_back(with_traits(elementwise("prelu", {x, {"slope"}}, "Y = X < 0 ? slope * X : X; equal shapes"),
                            InSteps::smooth, Homogeneous::first));
}

void add_functions(Table& t) {
    t.push_back(with_traits(real_only(unary("erf", "Y = erf(X)"), 6), InSteps::smooth, Finite::always));
    t.push_back(real_only(unary("sin", "Y = sin(X), X in radians; NaN of infinities"), 6));
    t.push_back(real_only(unary("cos", "Y = cos(X), X in radians; NaN of infinities"), 6));
    t.push_back(real_only(unary("tan", "Y = tan(X), X in radians; NaN of infinities"), 8));
    t.push_back(real_only(unary("asin", "Y = arcsin(X); NaN outside [-1, 1]"), 8));
    t.push_back(real_only(unary("acos", "Y = arccos(X); NaN outside [-1, 1]"), 8));
    t.push_back(with_traits(real_only(unary("atan", "Y = arctan(X)"), 8), InSteps::smooth));
    t.push_back(real_only(unary("sinh", "Y = sinh(X)"), 6));
    t.push_back(real_only(unary("cosh", "Y = cosh(X)"), 6));
    t.push_back(real_only(unary("asinh", "Y = arsinh(X)"), 8));
    t.push_back(real_only(unary("acosh", "Y = arcosh(X); NaN below 1"), 8));
    t.push_back(real_only(unary("atanh", "Y = artanh(X); NaN outside [-1, 1]"), 8));
    t.push_back(real_only(unary("reciprocal", "Y = 1 / X"), 4));
    t.push_back(real_only(unary("rsqrt", "Y = 1 / sqrt(X); NaN below 0"), 4));
    t.push_back(with_traits(unary("square", "Y = X * X"), InSteps::smooth));
    t.push_back(unary("floor", "Y = the greatest whole number not above X"));
    t.push_back(unary("ceil", "Y = the least whole number not below X"));
    t.push_back(unary("round", "Y = the whole number nearest to X, ties to even"));
    t.push_back(unary("sign", "Y = X > 0 ? 1 : X < 0 ? -1 : 0; NaN stays"));
    t.push_back(
        special(binary("fmod",
                       "Y = A - B * trunc(A / B), exact, sign of A; plain integers modulo 0 are 0; equal "
                       "shapes"),
                4));
    t.push_back(special(binary("floor_mod",
                               "Y = A - B * floor(A / B), sign of B; plain integers modulo 0 are 0; equal "
                               "shapes"),
                        4));
}

void add_conditions(Table& t) {
    t.push_back(comparison("equal", "Y = A == B; equal shapes"));
    t.push_back(comparison("not_equal", "Y = A != B, NaN differs from all; equal shapes"));
    t.push_back(comparison("less", "Y = A < B; equal shapes"));
    t.push_back(comparison("less_equal", "Y = A <= B; equal shapes"));
    t.push_back(comparison("greater", "Y = A > B; equal shapes"));
    t.push_back(comparison("greater_equal", "Y = A >= B; equal shapes"));
    t.push_back(classification("is_nan", "Y = X is NaN"));
    t.push_back(with(classification("is_inf", "Y = X is an infinity of a detected sign"),
                     {{"detect_positive", AttrKind::boolean, false, "true", "whether +infinity counts"},
                      {"detect_negative", AttrKind::boolean, false, "true", "whether -infinity counts"}}));
    t.push_back(logic(binary("and", "Y = A and B; equal shapes")));
    t.push_back(logic(binary("or", "Y = A or B; equal shapes")));
    t.push_back(logic(binary("xor", "Y = one of A and B, not both; equal shapes")));
    t.push_back(logic(unary("not", "Y = not X")));
    t.push_back(with_traits(elementwise("where", {{"condition", false, OperandRole::condition}, a, b},
                                        "Y = condition ? A : B; equal shapes"),
                            InSteps::smooth, Finite::of_finite, OfLow::low));
}

}  // namespace

void add_elementwise(Table& t) {
    const AttrSpec alpha{"alpha", AttrKind::real, true, "", "factor of negative elements"};
    t.push_back(with_traits(unary("relu", "Y = max(X, 0)"), InSteps::exact, Homogeneous::first,
                            Finite::of_finite, OfLow::never_low));
    t.back().traits.bounds = true;
    t.push_back(with_traits(real_only(unary("sigmoid", "Y = 1 / (1 + exp(-X))"), 4), InSteps::smooth,
                            Finite::always, OfLow::never_low));
    t.push_back(with_traits(real_only(unary("tanh", "Y = tanh(X)"), 4), InSteps::smooth, Finite::always,
                            OfLow::absorbed));
    t.push_back(with_traits(real_only(unary("exp", "Y = exp(X)"), 4), OfLow::never_low));
    t.push_back(real_only(unary("log", "Y = ln(X); NaN below 0"), 4));
    t.push_back(real_only(unary("sqrt", "Y = sqrt(X); NaN below 0"), 4));
    t.push_back(with_traits(unary("abs", "Y = |X|"), InSteps::exact, Homogeneous::first, Finite::of_finite));
    t.push_back(with_traits(unary("neg", "Y = -X"), InSteps::exact, Homogeneous::first, Finite::of_finite));
    t.push_back(with_traits(real_only(unary("gelu", "Y = X / 2 * erfc(-X / sqrt(2)), the erf form"), 6),
                            InSteps::smooth));
    t.push_back(with_traits(real_only(unary("silu", "Y = X * sigmoid(X)"), 5), InSteps::smooth));
    t.push_back(with_traits(with(unary("leaky_relu", "Y = X < 0 ? alpha * X : X"), {alpha}), InSteps::smooth,
                            Homogeneous::first));
    t.push_back(with_traits(binary("add", "Y = A + B; equal shapes"), InSteps::smooth, Homogeneous::together,
                            Finite::of_finite, OfLow::low));
    t.push_back(with_traits(binary("sub", "Y = A - B; equal shapes"), InSteps::smooth, Homogeneous::together,
                            Finite::of_finite, OfLow::low_of_first));
    t.push_back(with_traits(binary("mul", "Y = A * B; equal shapes"), InSteps::smooth, Finite::of_finite,
                            OfLow::low_if_positive));
    t.push_back(with_traits(special(binary("div", "Y = A / B; plain integers truncate; equal shapes"), 4),
                            InSteps::by_constant, OfLow::low_if_positive));
    t.push_back(with_traits(binary("min", "Y = min(A, B), NaN propagates, -0 < +0; equal shapes"),
                            InSteps::exact, Homogeneous::together, Finite::of_finite, OfLow::low));
    t.push_back(with_traits(binary("max", "Y = max(A, B), NaN propagates, -0 < +0; equal shapes"),
                            InSteps::exact, Homogeneous::together, Finite::of_finite, OfLow::low));
    t.push_back(real_only(binary("pow", "Y = A ^ B; equal shapes"), 9));
    add_functions(t);
    add_activations(t);
    add_conditions(t);
    add_bits(t);
    t.push_back(clamp());
}

}  // namespace kpu::opcodes
