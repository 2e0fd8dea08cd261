#include "isa/expr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>

#include "base/checked.hpp"
#include "base/text.hpp"

namespace kpu {
namespace {

using Token = proto::ExprToken;

std::optional<int64_t> compute(Token::Kind op, int64_t a, int64_t b) {
    switch (op) {
        case Token::ADD:
            return checked_add(a, b);
        case Token::SUB:
            return checked_sub(a, b);
        case Token::MUL:
            return checked_mul(a, b);
        case Token::DIV:
            return checked_div(a, b);
        case Token::MOD:
            return checked_mod(a, b);
        case Token::NEG:
            return checked_sub(0, b);
        default:
            return std::nullopt;
    }
}

/// Returns the value of an expression whose loop variables, if any, stop it: nothing then.
std::optional<int64_t> value_of(const proto::Expr& expr, const std::vector<int64_t>& constants,
                                const std::vector<int64_t>& params) {
    std::array<int64_t, max_expr_stack> stack;
    size_t top = 0;
    for (const Token& token : expr.token()) {
        const auto index = static_cast<size_t>(token.value());
        switch (token.kind()) {
            case Token::INT:
                stack[top++] = token.value();
                break;
            case Token::CONST:
                stack[top++] = constants.at(index);
                break;
            case Token::PARAM:
                stack[top++] = params.at(index);
                break;
            case Token::LOOP:
                return std::nullopt;
            case Token::NEG:
                stack[top - 1] = apply_operator(token.kind(), 0, stack[top - 1]);
                break;
            default:
                --top;
                stack[top - 1] = apply_operator(token.kind(), stack[top - 1], stack[top]);
        }
    }
    return stack[0];
}

/// Collapses the operators of a postfix expression whose operands are all literals.
void push_folded(BoundExpr& out, Token::Kind kind, int64_t value) {
    const size_t operands = is_leaf(kind) ? 0 : is_binary_operator(kind) ? 2 : 1;
    const size_t size = out.kinds.size();
    bool literal = operands > 0 && size >= operands;
    for (size_t i = 0; literal && i < operands; ++i) literal = out.kinds[size - 1 - i] == Token::INT;
    if (literal) {
        const int64_t b = out.values[size - 1];
        const int64_t a = operands == 2 ? out.values[size - 2] : 0;
        value = apply_operator(kind, a, b);
        kind = Token::INT;
        out.kinds.resize(size - operands);
        out.values.resize(size - operands);
    }
    out.kinds.push_back(kind);
    out.values.push_back(value);
}

}  // namespace

bool is_leaf(Token::Kind kind) {
    return kind == Token::INT || kind == Token::CONST || kind == Token::PARAM || kind == Token::LOOP;
}

bool is_binary_operator(Token::Kind kind) {
    return kind == Token::ADD || kind == Token::SUB || kind == Token::MUL || kind == Token::DIV ||
           kind == Token::MOD;
}

int64_t apply_operator(Token::Kind op, int64_t a, int64_t b) {
    if (const std::optional<int64_t> result = compute(op, a, b)) return *result;
    if ((op == Token::DIV || op == Token::MOD) && b == 0) {
        throw UserError("division by zero in an expression. Fix: make the divisor non-zero.");
    }
    if (op == Token::MOD) {
        throw UserError(fmt::format(
            "mod of a negative operand ({} mod {}). Fix: mod takes non-negative integers.", a, b));
    }
    throw UserError(fmt::format(
        "integer overflow beyond 64 bits in an expression ({}, {}). Fix: use smaller numbers.", a, b));
}

BoundExpr compile_expr(const proto::Expr& expr, const std::vector<int64_t>& constants,
                       const std::vector<int64_t>& params) {
    BoundExpr out;
    if (const std::optional<int64_t> value = value_of(expr, constants, params)) {
        out.constant = *value;
        return out;
    }
    out.kinds.reserve(static_cast<size_t>(expr.token_size()));
    out.values.reserve(static_cast<size_t>(expr.token_size()));
    for (const Token& token : expr.token()) {
        const auto index = static_cast<size_t>(token.value());
        switch (token.kind()) {
            case Token::CONST:
                push_folded(out, Token::INT, constants.at(index));
                break;
            case Token::PARAM:
                push_folded(out, Token::INT, params.at(index));
                break;
            default:
                push_folded(out, token.kind(), token.value());
        }
    }
    return out;
}

std::vector<int64_t> eval_constants(const Module& module) {
    std::vector<int64_t> values;
    for (int i = 0; i < module.program.constant_size(); ++i) {
        const proto::Constant& constant = module.program.constant(i);
        try {
            values.push_back(compile_expr(constant.value(), values, {}).constant);
        } catch (const UserError& error) {
            const std::string why = error.what();
            Diagnostics diagnostics;
            diagnostics.error(
                module.pos_of_constant(static_cast<size_t>(i)),
                why.rfind("division by zero", 0) == 0
                    ? fmt::format("division by zero in constant expression of {}. Fix: make the divisor "
                                  "non-zero.",
                                  constant.name())
                    : fmt::format("const {}: {}", constant.name(), why));
            throw UserError(std::move(diagnostics));
        }
    }
    return values;
}

std::vector<int64_t> bind_params(const KPUProgram& program, const ParamBindings& params) {
    std::vector<int64_t> values;
    std::vector<std::string_view> names;
    for (const proto::Param& param : program.param()) {
        values.push_back(param.default_value());
        names.push_back(param.name());
    }
    for (const auto& [name, value] : params) {
        const auto it = std::find(names.begin(), names.end(), name);
        if (it == names.end()) {
            throw UserError(
                names.empty()
                    ? fmt::format("program has no parameter `{}`. Fix: leave --param {} out.", name, name)
                    : fmt::format("program has no parameter `{}`. Fix: did you mean `{}`?", name,
                                  nearest_name(name, names)));
        }
        values[static_cast<size_t>(it - names.begin())] = value;
    }
    for (int i = 0; i < program.param_size(); ++i) {
        const proto::Param& param = program.param(i);
        const int64_t value = values[static_cast<size_t>(i)];
        if (value < param.min() || value > param.max()) {
            throw UserError(
                fmt::format("parameter `{}` is {}, outside [{}..{}]. Fix: bind it to a value in that range.",
                            param.name(), value, param.min(), param.max()));
        }
    }
    return values;
}

namespace {

std::optional<Interval> hull(std::initializer_list<std::optional<int64_t>> values) {
    Interval result{INT64_MAX, INT64_MIN};
    for (const std::optional<int64_t>& value : values) {
        if (!value) return std::nullopt;
        result.lo = std::min(result.lo, *value);
        result.hi = std::max(result.hi, *value);
    }
    return result;
}

std::optional<Interval> apply_interval(Token::Kind op, const Interval& a, const Interval& b) {
    switch (op) {
        case Token::ADD:
            return hull({checked_add(a.lo, b.lo), checked_add(a.hi, b.hi)});
        case Token::SUB:
            return hull({checked_sub(a.lo, b.hi), checked_sub(a.hi, b.lo)});
        case Token::MUL:
            return hull({checked_mul(a.lo, b.lo), checked_mul(a.lo, b.hi), checked_mul(a.hi, b.lo),
                         checked_mul(a.hi, b.hi)});
        case Token::DIV:
            if (b.lo <= 0 && b.hi >= 0) return std::nullopt;
            return hull({checked_div(a.lo, b.lo), checked_div(a.lo, b.hi), checked_div(a.hi, b.lo),
                         checked_div(a.hi, b.hi)});
        case Token::MOD:
            if (a.lo < 0 || b.lo <= 0) return std::nullopt;
            if (b.lo == b.hi && a.lo / b.lo == a.hi / b.lo) return Interval{a.lo % b.lo, a.hi % b.lo};
            return Interval{0, std::min(a.hi, b.hi - 1)};
        default:
            return std::nullopt;
    }
}

}  // namespace

std::optional<Interval> bound_of(const BoundExpr& expr, const std::vector<Interval>& loops) {
    if (expr.is_constant()) return Interval{expr.constant, expr.constant};
    boost::container::small_vector<Interval, 8> stack;
    for (size_t i = 0; i < expr.kinds.size(); ++i) {
        const Token::Kind kind = expr.kinds[i];
        if (kind == Token::INT) {
            stack.push_back({expr.values[i], expr.values[i]});
        } else if (kind == Token::LOOP) {
            const auto depth = static_cast<size_t>(expr.values[i]);
            if (depth >= loops.size()) return std::nullopt;
            stack.push_back(loops[depth]);
        } else {
            const Interval b = stack.back();
            stack.pop_back();
            Interval a{0, 0};
            if (is_binary_operator(kind)) {
                a = stack.back();
                stack.pop_back();
            }
            const auto result = apply_interval(kind == Token::NEG ? Token::SUB : kind, a, b);
            if (!result) return std::nullopt;
            stack.push_back(*result);
        }
    }
    return stack.back();
}

bool follows_parameter(const proto::Loop& loop) {
    const auto asks = [](const proto::Expr& expr) {
        return std::any_of(expr.token().begin(), expr.token().end(), [](const proto::ExprToken& token) {
            return token.kind() == proto::ExprToken::PARAM;
        });
    };
    return asks(loop.first()) || asks(loop.last());
}

}  // namespace kpu
