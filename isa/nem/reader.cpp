#include "isa/nem/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "isa/bound_program.hpp"

namespace kpu::nem {
namespace {

using proto::ExprToken;

std::optional<int64_t> apply(ExprToken::Kind kind, int64_t a, int64_t b) {
    int64_t result = 0;
    switch (kind) {
        case ExprToken::ADD:
            if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
            return result;
        case ExprToken::SUB:
            if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
            return result;
        case ExprToken::MUL:
            if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
            return result;
        case ExprToken::DIV:
            if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
            return a / b;
        case ExprToken::MOD:
            if (a < 0 || b <= 0) return std::nullopt;
            return a % b;
        default:
            return std::nullopt;
    }
}

std::optional<double> apply(ExprToken::Kind kind, double a, double b) {
    switch (kind) {
        case ExprToken::ADD:
            return a + b;
        case ExprToken::SUB:
            return a - b;
        case ExprToken::MUL:
            return a * b;
        case ExprToken::DIV:
            if (b == 0) return std::nullopt;
            return a / b;
        default:
            return std::nullopt;
    }
}

std::optional<int64_t> negate(int64_t a) { return apply(ExprToken::SUB, int64_t{0}, a); }
std::optional<double> negate(double a) { return -a; }

/// Runs the postfix code on a stack; code from parse_expr() never underflows it.
template <typename T>
std::optional<T> fold(const ExprCode& code, const std::vector<std::optional<int64_t>>& constants) {
    boost::container::small_vector<T, 8> stack;
    for (const ExprItem& item : code) {
        std::optional<T> value;
        if (item.is_real) {
            value = static_cast<T>(item.real);
        } else if (item.kind == ExprToken::INT) {
            value = static_cast<T>(item.value);
        } else if (item.kind == ExprToken::CONST) {
            const std::optional<int64_t>& constant = constants[static_cast<size_t>(item.value)];
            if (constant) value = static_cast<T>(*constant);
        } else if (item.kind == ExprToken::NEG) {
            value = negate(stack.back());
            stack.pop_back();
        } else if (item.kind != ExprToken::PARAM && item.kind != ExprToken::LOOP) {
            const T right = stack.back();
            stack.pop_back();
            value = apply(item.kind, stack.back(), right);
            stack.pop_back();
        }
        if (!value) return std::nullopt;
        stack.push_back(*value);
    }
    return stack.back();
}

/// Returns the value; nothing for a literal beyond binary64.
std::optional<double> to_double(std::string_view text) {
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || !std::isfinite(value)) return std::nullopt;
    return value;
}

}  // namespace

bool has_real(const ExprCode& code) {
    return std::any_of(code.begin(), code.end(), [](const ExprItem& item) { return item.is_real; });
}

std::optional<int64_t> fold_integer(const ExprCode& code,
                                    const std::vector<std::optional<int64_t>>& constants) {
    if (has_real(code)) return std::nullopt;
    return fold<int64_t>(code, constants);
}

std::optional<double> fold_real(const ExprCode& code, const std::vector<std::optional<int64_t>>& constants) {
    return fold<double>(code, constants);
}

Reader::Nesting::Nesting(Reader& reader) : reader_(reader) {
    if (reader_.depth_ >= max_nesting)
        reader_.fail(
            reader_.peek(),
            fmt::format("nested deeper than {} levels. Fix: split the expression with let", max_nesting));
    ++reader_.depth_;
}

void Reader::report_at(uint32_t line, uint32_t column, std::string message) {
    if (line == last_error_line_ && column == last_error_column_) return;  // one error a place
    last_error_line_ = line;
    last_error_column_ = column;
    context_.diagnostics.error({path_, line, column}, std::move(message));
    if (++context_.errors >= max_errors) throw TooManyErrors{};
}

void Reader::fail(const Token& token, std::string message) {
    report(token, token.kind == TokenKind::bad ? describe_bad(token) : std::move(message));
    throw SyntaxError{};
}

void Reader::fail_expected(std::string_view wanted) {
    const Token token = peek();
    fail(token, fmt::format("expected {}, found {}. Fix: write {}", wanted, quoted(token), wanted));
}

bool Reader::accept_name(std::string_view word) {
    if (!peek().is_name(word)) return false;
    next();
    return true;
}

void Reader::fail_punct(char punct, std::string_view where) {
    fail_expected(fmt::format("`{}` {}", punct, where));
}

void Reader::expect_name(std::string_view word, std::string_view where) {
    if (!accept_name(word)) fail_expected(fmt::format("`{}` {}", word, where));
}

Token Reader::expect_identifier(std::string_view what) {
    const Token token = peek();
    if (token.kind != TokenKind::name) fail_expected(what);
    if (token.word != Word::none)
        fail(token, fmt::format("`{}` is a reserved word and cannot be {}. Fix: choose another name",
                                token.text, what));
    return next();
}

Token Reader::expect_word(std::string_view what) {
    if (peek().kind != TokenKind::name) fail_expected(what);
    return next();
}

std::string Reader::expect_string(std::string_view what) {
    if (peek().kind != TokenKind::string) fail_expected(what);
    return string_value(next());
}

ElemType Reader::expect_elem_type() {
    const Token token = peek();
    if (token.is(Word::elem_type)) return *parse_elem_type(next().text);
    if (token.kind != TokenKind::name) fail_expected("an element type");
    fail(token,
         fmt::format(
             "unknown element type `{}`. Fix: one of i4 i8 i16 i32 u8 u16 u32 f16 bf16 f32 posit8 "
             "posit16 f8e4m3 f8e5m2 f6e2m3 f6e3m2 f4e2m1 posit8_es1 posit8_es2 posit16_es0 posit16_es2",
             token.text.substr(0, 40)));
}

int64_t Reader::expect_integer(std::string_view what) {
    const bool negative = accept('-');
    if (peek().kind == TokenKind::real)
        fail(peek(), fmt::format("{} must be integer. Fix: drop the fraction", what));
    if (peek().kind != TokenKind::integer) fail_expected(what);
    ExprCode code;
    append_integer(next(), negative, code);
    return code.back().value;
}

ExprCode Reader::parse_expr() {
    const Token start = peek();
    ExprCode code;
    parse_sum(code);
    int stack = 0;
    for (const ExprItem& item : code) {
        const bool leaf = item.kind <= ExprToken::LOOP;
        stack += leaf ? 1 : item.kind == ExprToken::NEG ? 0 : -1;
        if (stack > max_expr_stack)
            fail(start,
                 fmt::format("expression needs more than {} operands at once. Fix: split it into constants",
                             max_expr_stack));
    }
    return code;
}

ExprCode Reader::parse_integer_expr(std::string_view what) {
    const Token start = peek();
    ExprCode code = parse_expr();
    if (has_real(code))
        fail(start, fmt::format("{} must be integer. Fix: write an integer expression", what));
    return code;
}

void Reader::append(const Token& at, ExprCode& code, ExprItem item) {
    if (code.size() >= max_expr_tokens)
        fail(at,
             fmt::format("expression of more than {} terms after substitution. Fix: split it into constants",
                         max_expr_tokens));
    code.push_back(item);
}

void Reader::parse_sum(ExprCode& code) {
    parse_term(code);
    while (peek().is('+') || peek().is('-')) {
        const Token op = next();
        parse_term(code);
        append(op, code, {op.is('+') ? ExprToken::ADD : ExprToken::SUB});
    }
}

void Reader::parse_term(ExprCode& code) {
    parse_unary(code);
    while (peek().is('*') || peek().is('/') || peek().is(Word::mod)) {
        const Token op = next();
        parse_unary(code);
        append(op, code, {op.is('*') ? ExprToken::MUL : op.is('/') ? ExprToken::DIV : ExprToken::MOD});
    }
}

void Reader::parse_unary(ExprCode& code) {
    if (!peek().is('-')) {
        parse_primary(code);
        return;
    }
    const Nesting nesting(*this);
    const Token minus = next();
    // A sign belongs to its literal, so that the least 64-bit integer can be written.
    if (peek().kind == TokenKind::integer) {
        append_integer(next(), true, code);
        return;
    }
    const bool literal = peek().kind == TokenKind::real;
    parse_unary(code);
    if (literal) {
        code.back().real = -code.back().real;
    } else {
        append(minus, code, {ExprToken::NEG});
    }
}

void Reader::append_integer(const Token& token, bool negative, ExprCode& code) {
    uint64_t magnitude = 0;
    const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), magnitude);
    const uint64_t limit = (uint64_t{1} << 63) - (negative ? 0 : 1);
    if (result.ec != std::errc() || magnitude > limit)
        fail(token,
             fmt::format("integer {} does not fit in 64 bits. Fix: use a value below 2^63", quoted(token)));
    const auto value = static_cast<int64_t>(negative ? ~magnitude + 1 : magnitude);
    append(token, code, {ExprToken::INT, false, value});
}

void Reader::parse_primary(ExprCode& code) {
    const Token token = peek();
    if (token.kind == TokenKind::integer) {
        append_integer(next(), false, code);
    } else if (token.kind == TokenKind::real) {
        const std::optional<double> value = to_double(token.text);
        if (!value)
            fail(token, fmt::format("float {} is out of range. Fix: use a binary64 value", quoted(token)));
        next();
        append(token, code, {ExprToken::INT, true, 0, *value});
    } else if (token.is('(')) {
        const Nesting nesting(*this);
        next();
        parse_sum(code);
        expect(')', "to close the parenthesis");
    } else if (token.kind == TokenKind::name && token.word == Word::none) {
        next();
        append_name(token, code);
        if (code.size() > max_expr_tokens) append(token, code, {});  // reports
    } else {
        fail_expected("an expression");
    }
}

}  // namespace kpu::nem
