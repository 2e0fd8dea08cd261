// Elementwise operators and reductions on constants: integers as int64, floats in binary64 and rounded once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/fold/fold.hpp"

namespace kpu::onnx {
namespace {

struct ElementwiseFold {
    std::string_view type;
    int64_t (*of_ints)(int64_t a, int64_t b);  ///< null: not of integers
    double (*of_reals)(double a, double b);    ///< null: not of floats
    bool condition = false;                    ///< the result is a bool
};

// Overflow wraps, as integers of ONNX do.
int64_t add(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t subtract(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t multiply(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t divide(int64_t a, int64_t b) {
    if (b == 0 || (b == -1 && a == INT64_MIN)) Call::refuse("it divides by zero, or overflows");
    return a / b;
}
int64_t remainder(int64_t a, int64_t b) {
    if (b == 0 || b == -1) {
        if (b == 0) Call::refuse("it divides by zero");
        return 0;
    }
    const int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
int64_t power(int64_t a, int64_t b) {
    int64_t result = 1;
    if (b < 0 || b > 64) Call::refuse(fmt::format("integers to the power {} are not taken", b));
    for (int64_t i = 0; i < b; ++i) result = multiply(result, a);
    return result;
}

const std::vector<ElementwiseFold>& binary_rows() {
    static const std::vector<ElementwiseFold> rows = {
        {"Add", add, [](double a, double b) { return a + b; }},
        {"Sub", subtract, [](double a, double b) { return a - b; }},
        {"Mul", multiply, [](double a, double b) { return a * b; }},
        {"Div", divide, [](double a, double b) { return a / b; }},
        {"Pow", power, [](double a, double b) { return std::pow(a, b); }},
        {"Max", [](int64_t a, int64_t b) { return std::max(a, b); },
         [](double a, double b) { return std::fmax(a, b); }},
        {"Min", [](int64_t a, int64_t b) { return std::min(a, b); },
         [](double a, double b) { return std::fmin(a, b); }},
        {"Mod", remainder, nullptr},
        {"Equal", [](int64_t a, int64_t b) -> int64_t { return a == b; },
         [](double a, double b) -> double { return a == b; }, true},
        {"Less", [](int64_t a, int64_t b) -> int64_t { return a < b; },
         [](double a, double b) -> double { return a < b; }, true},
        {"LessOrEqual", [](int64_t a, int64_t b) -> int64_t { return a <= b; },
         [](double a, double b) -> double { return a <= b; }, true},
        {"Greater", [](int64_t a, int64_t b) -> int64_t { return a > b; },
         [](double a, double b) -> double { return a > b; }, true},
        {"GreaterOrEqual", [](int64_t a, int64_t b) -> int64_t { return a >= b; },
         [](double a, double b) -> double { return a >= b; }, true},
        {"And", [](int64_t a, int64_t b) -> int64_t { return a != 0 && b != 0; }, nullptr, true},
        {"Or", [](int64_t a, int64_t b) -> int64_t { return a != 0 || b != 0; }, nullptr, true},
        {"Xor", [](int64_t a, int64_t b) -> int64_t { return (a != 0) != (b != 0); }, nullptr, true},
    };
    return rows;
}

/// The second operand of these is not used.
const std::vector<ElementwiseFold>& unary_rows() {
    static const std::vector<ElementwiseFold> rows = {
        {"Neg", [](int64_t a, int64_t) { return subtract(0, a); }, [](double a, double) { return -a; }},
        {"Abs", [](int64_t a, int64_t) { return a < 0 ? subtract(0, a) : a; },
         [](double a, double) { return std::fabs(a); }},
        {"Sign", [](int64_t a, int64_t) -> int64_t { return (a > 0) - (a < 0); },
         [](double a, double) -> double { return (a > 0) - (a < 0); }},
        {"Not", [](int64_t a, int64_t) -> int64_t { return a == 0; }, nullptr, true},
        {"Floor", nullptr, [](double a, double) { return std::floor(a); }},
        {"Ceil", nullptr, [](double a, double) { return std::ceil(a); }},
        {"Round", nullptr, [](double a, double) { return std::nearbyint(a); }},
        {"Sqrt", nullptr, [](double a, double) { return std::sqrt(a); }},
        {"Reciprocal", nullptr, [](double a, double) { return 1 / a; }},
        {"IsNaN", nullptr, [](double a, double) -> double { return std::isnan(a); }, true},
    };
    return rows;
}

const ElementwiseFold* find(const std::vector<ElementwiseFold>& rows, std::string_view type) {
    const auto found =
        std::find_if(rows.begin(), rows.end(), [&](const ElementwiseFold& row) { return row.type == type; });
    return found == rows.end() ? nullptr : &*found;
}

Known apply(const ElementwiseFold& row, const Known& a, const Known& b) {
    if (a.real() != b.real()) Call::refuse("its operands have different types");
    const Sizes shape = broadcast_of(a.shape, b.shape);
    const std::vector<int64_t> of_a = broadcast_positions(a.shape, shape),
                               of_b = broadcast_positions(b.shape, shape);
    Known result{row.condition ? Type::boolean : a.type, shape, {}, {}};
    for (size_t i = 0; i < of_a.size(); ++i) {
        const auto p = static_cast<size_t>(of_a[i]), q = static_cast<size_t>(of_b[i]);
        if (!a.real()) {
            if (row.of_ints == nullptr) Call::refuse("it does not take integers");
            result.ints.push_back(wrapped(result.type, row.of_ints(a.ints[p], b.ints[q])));
            continue;
        }
        if (row.of_reals == nullptr) Call::refuse("it does not take floats");
        const double value = row.of_reals(a.reals[p], b.reals[q]);
        if (row.condition) {
            result.ints.push_back(value != 0 ? 1 : 0);
        } else {
            result.reals.push_back(rounded(a.type, value));
        }
    }
    return result;
}

Known converted(const Known& x, Type to, bool saturates = true) {
    if (elem_of(to) == ElemType::none) Call::refuse(fmt::format("tensors of {} are not taken", name_of(to)));
    Known result{to, x.shape, {}, {}};
    for (size_t i = 0; i < x.size(); ++i) {
        if (is_small_float(elem_of(to))) {
            result.reals.push_back(small_float_of_type(to, x.number(i), saturates));
        } else if (result.real()) {
            result.reals.push_back(rounded(to, x.number(i)));
        } else if (!x.real()) {
            result.ints.push_back(wrapped(to, x.ints[i]));
        } else if (to == Type::boolean) {
            result.ints.push_back(x.reals[i] != 0 ? 1 : 0);
        } else {
            const double whole =
                std::isnan(x.reals[i]) ? 0 : std::clamp(std::trunc(x.reals[i]), -9.2e18, 9.2e18);
            result.ints.push_back(wrapped(to, static_cast<int64_t>(whole)));
        }
    }
    return result;
}

/// Raises a base to an exponent of perhaps another type: the result is of the base's.
Known mixed_power(const ElementwiseFold& row, const Known& base, const Known& exponent) {
    return converted(apply(row, converted(base, Type::f64), converted(exponent, Type::f64)), base.type);
}

bool binary(Call& call) {
    const ElementwiseFold* row = find(binary_rows(), call.node.type);
    Known result = call.known(0, "operands");
    for (size_t i = 1; i < call.inputs(); ++i) {
        const Known& next = call.known(i, "operands");
        const bool mixed = row->type == "Pow" && result.real() != next.real();
        result = mixed ? mixed_power(*row, result, next) : apply(*row, result, next);
    }
    call.result(0, std::move(result));
    return true;
}

bool unary(Call& call) {
    const Known& x = call.known(0, "operands");
    call.result(0, apply(*find(unary_rows(), call.node.type), x, x));
    return true;
}

bool cast(Call& call) {
    const bool like = call.node.type == "CastLike";
    const int64_t to = like ? static_cast<int64_t>(call.type(1)) : call.integer("to", 0);
    if (to < 1 || to > 255) Call::refuse(fmt::format("its type {} is not known", to));
    const bool plain = call.text("round_mode", "up") == "up" && call.integer("saturate", 1) != 0;
    if (static_cast<Type>(to) == Type::f8e8m0 && !plain) return false;
    call.result(
        0, converted(call.known(0, "operands"), static_cast<Type>(to), call.integer("saturate", 1) != 0));
    return true;
}

bool where(Call& call) {
    const Known &condition = call.known(0, "operands"), &a = call.known(1, "operands"),
                &b = call.known(2, "operands");
    if (a.type != b.type || condition.real()) Call::refuse("its operands have different types");
    const Sizes shape = broadcast_of(condition.shape, broadcast_of(a.shape, b.shape));
    const std::vector<int64_t> when = broadcast_positions(condition.shape, shape),
                               of_a = broadcast_positions(a.shape, shape),
                               of_b = broadcast_positions(b.shape, shape);
    Known both = a;  // a, then b: one list to pick from
    both.ints.insert(both.ints.end(), b.ints.begin(), b.ints.end());
    both.reals.insert(both.reals.end(), b.reals.begin(), b.reals.end());
    std::vector<int64_t> positions;
    for (size_t i = 0; i < when.size(); ++i) {
        const bool first = condition.ints[static_cast<size_t>(when[i])] != 0;
        positions.push_back(first ? of_a[i] : of_b[i] + static_cast<int64_t>(a.size()));
    }
    call.result(0, picked(both, shape, positions));
    return true;
}

}  // namespace

Folder find_elementwise_folder(std::string_view type) {
    if (find(binary_rows(), type) != nullptr) return binary;
    if (find(unary_rows(), type) != nullptr) return unary;
    if (type == "Cast" || type == "CastLike") return cast;
    return type == "Where" ? where : nullptr;
}

}  // namespace kpu::onnx
