// Elementwise opcodes: Y[i] = f(X[i]) or f(A[i], B[i]). The functions stand in values/elementwise.cpp.
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

/// As special(); the formula has no meaning for plain integers.
OpcodeSpec real_only(OpcodeSpec row, double cycles) {
    row.integers_need_quant = true;
    return special(std::move(row), cycles);
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

OpcodeSpec clamp() {
    OpcodeSpec row = with(unary("clamp", "Y = min(max(X, min_val), max_val)"),
                          {{"min_val", AttrKind::real, true, "", "lower bound"},
                           {"max_val", AttrKind::real, true, "", "upper bound, at least min_val"}});
    row.shapes = clamp_shape;
    return row;
}

}  // namespace

void add_elementwise(Table& t) {
    const AttrSpec alpha{"alpha", AttrKind::real, true, "", "factor of negative elements"};
    t.push_back(unary("relu", "Y = max(X, 0)"));
    t.push_back(real_only(unary("sigmoid", "Y = 1 / (1 + exp(-X))"), 4));
    t.push_back(real_only(unary("tanh", "Y = tanh(X)"), 4));
    t.push_back(real_only(unary("exp", "Y = exp(X)"), 4));
    t.push_back(real_only(unary("log", "Y = ln(X); NaN below 0"), 4));
    t.push_back(real_only(unary("sqrt", "Y = sqrt(X); NaN below 0"), 4));
    t.push_back(unary("abs", "Y = |X|"));
    t.push_back(unary("neg", "Y = -X"));
    t.push_back(real_only(unary("gelu", "Y = X / 2 * erfc(-X / sqrt(2)), the erf form"), 6));
    t.push_back(real_only(unary("silu", "Y = X * sigmoid(X)"), 5));
    t.push_back(with(unary("leaky_relu", "Y = X < 0 ? alpha * X : X"), {alpha}));
    t.push_back(binary("add", "Y = A + B; equal shapes"));
    t.push_back(binary("sub", "Y = A - B; equal shapes"));
    t.push_back(binary("mul", "Y = A * B; equal shapes"));
    t.push_back(special(binary("div", "Y = A / B; plain integers truncate; equal shapes"), 4));
    t.push_back(binary("min", "Y = min(A, B), NaN propagates, -0 < +0; equal shapes"));
    t.push_back(binary("max", "Y = max(A, B), NaN propagates, -0 < +0; equal shapes"));
    t.push_back(real_only(binary("pow", "Y = A ^ B; equal shapes"), 9));
    t.push_back(clamp());
}

}  // namespace kpu::opcodes
