#include "isa/kernel/expression_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace kpu::kernel {
namespace {

// what a form of max_expression_depth is printed as: at most an operator and its parentheses a level
constexpr int max_recursion = 2 * max_expression_depth;
constexpr int max_tokens = 1 << 16;  // of an expression: of its depth, far more than anyone writes

std::string nearest_function(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Operation& row : operations())
        if (row.syntax == Syntax::function || row.syntax == Syntax::atomic || row.syntax == Syntax::tile)
            names.push_back(row.name);
    return nearest_name(name, names);
}

}  // namespace

ExpressionReader::Deeper::Deeper(ExpressionReader& reader) : reader_(reader) {
    if (++reader.recursion_ <= max_recursion) return;
    --reader.recursion_;  // no destructor will
    reader.fail(reader.peek(), fmt::format("parentheses and operators are nested more than {} deep. Fix: "
                                           "split the expression into intermediate let-bindings.",
                                           max_recursion));
}

void ExpressionReader::fail(const Token& at, std::string message) {
    diagnostics_.error({path_, at.line, at.column}, std::move(message));
    throw Stop{};
}

bool ExpressionReader::accept(std::string_view text) {
    if (!peek().is(text)) return false;
    lexer_.skip();
    return true;
}

void ExpressionReader::expect(std::string_view text, std::string_view where) {
    if (!accept(text))
        fail(peek(), fmt::format("expected `{}` {}, found {}. Fix: write it.", text, where, quoted(peek())));
}

Token ExpressionReader::expect_name(std::string_view what) {
    if (peek().kind != TokenKind::name)
        fail(peek(), fmt::format("expected {}, found {}. Fix: write a name.", what, quoted(peek())));
    return next();
}

std::string ExpressionReader::expect_string(std::string_view what) {
    if (peek().kind != TokenKind::string)
        fail(peek(), fmt::format("expected {}, found {}. Fix: write \"name\".", what, quoted(peek())));
    const std::string_view text = next().text;
    return std::string(text.substr(1, text.size() - 2));
}

uint64_t ExpressionReader::expect_integer(std::string_view what, uint64_t most) {
    if (peek().kind != TokenKind::integer || !peek().suffix.empty() || peek().integer > most)
        fail(peek(), fmt::format("expected {}, found {}. Fix: write an integer of at most {}.", what,
                                 quoted(peek()), most));
    return next().integer;
}

proto::KernelToken& ExpressionReader::emit(Op op, int operands) {
    if (expression_->token_size() == max_tokens)
        fail(peek(), fmt::format("an expression of more than {} parts. Fix: split it with let.", max_tokens));
    const auto first = depths_.end() - operands;
    const int depth = 1 + (operands == 0 ? 0 : *std::max_element(first, depths_.end()));
    if (depth > max_expression_depth) fail(peek(), too_deep(depth));
    depths_.erase(first, depths_.end());
    depths_.push_back(depth);
    proto::KernelToken& token = *expression_->add_token();
    const std::string_view name = operation(op).name;
    token.set_op(name.data(), name.size());
    return token;
}

void ExpressionReader::read_expression(proto::KernelExpression& expression) {
    expression_ = &expression;
    depths_.clear();
    read_infix(1);
}

void ExpressionReader::read_infix(int lowest) {
    read_operand();
    for (;;) {
        const Operation* row = peek().kind == TokenKind::punct ? find_infix(peek().text) : nullptr;
        if (row == nullptr || row->precedence < lowest) return;
        lexer_.skip();
        read_infix(row->precedence + 1);
        emit(row->op, 2);
    }
}

void ExpressionReader::read_operand() {
    const Deeper guard(*this);
    if (accept('-')) return read_minus();
    if (const bool bits = accept('~'); bits || accept('!')) {
        read_operand();
        emit(bits ? Op::bit_not : Op::logical_not, 1);
        return;
    }
    if (accept('(')) {
        read_infix(1);
        return expect(')', "after the expression");
    }
    if (peek().kind == TokenKind::integer || peek().kind == TokenKind::real)
        return read_literal(next(), false);
    if (peek().kind != TokenKind::name)
        fail(peek(), fmt::format("expected a value, found {}. Fix: write a number, a name or a call.",
                                 quoted(peek())));
    read_named();
}

void ExpressionReader::read_minus() {
    const bool number =
        peek().kind == TokenKind::real || (peek().kind == TokenKind::integer && peek().suffix == "i32");
    if (number) return read_literal(next(), true);
    read_operand();
    emit(Op::negate, 1);
}

void ExpressionReader::read_literal(const Token& number, bool negative) {
    if (number.kind == TokenKind::real)
        return emit_literal(Op::literal_f32, number.integer ^ (negative ? 0x80000000u : 0u));
    if (number.suffix == "u64") return emit_literal(Op::literal_u64, number.integer);
    const bool is_signed = number.suffix == "i32";
    const uint64_t most = is_signed ? uint64_t{INT32_MAX} + (negative ? 1 : 0) : UINT32_MAX;
    if (number.integer > most)
        fail(number, fmt::format("{} is not a valid {}. Fix: write a smaller number, or {}u64.",
                                 quoted(number), is_signed ? "i32" : "u32", number.integer));
    const auto bits = static_cast<uint32_t>(number.integer);
    emit_literal(is_signed ? Op::literal_i32 : Op::literal_u32, negative ? 0u - bits : bits);
}

/// Reads true, gid.x, len(x), f32(x), min(a, b), b[i] or a variable.
void ExpressionReader::read_named() {
    const Token name = next();
    if (name.text == "true" || name.text == "false")
        return emit_literal(Op::literal_bool, name.text == "true" ? 1 : 0);
    if (peek().is('(') || peek().is('{')) return read_call(name);
    if (accept('[')) {
        int count = 0;
        do {
            read_infix(1);
            ++count;
        } while (accept(','));
        expect(']', "after the index");
        proto::KernelToken& token = emit(Op::load, count);
        token.set_name(name.text.data(), name.text.size());
        if (count > 1) token.set_bits(static_cast<uint64_t>(count));
        return;
    }
    const Operation* row = peek().is('.') ? find_operation(name.text) : nullptr;
    if (row != nullptr && row->syntax == Syntax::axis) return read_axis(*row);
    emit(Op::variable, 0).set_name(name.text.data(), name.text.size());
}

void ExpressionReader::read_axis(const Operation& row) {
    next();
    const Token axis = expect_name("an axis");
    if (axis.text != "x" && axis.text != "y" && axis.text != "z")
        fail(axis,
             fmt::format("invocation/workgroup ID axis {} out of range. Fix: use 0, 1, or 2.", quoted(axis)));
    emit(row.op, 0).set_name(axis.text.data(), axis.text.size());
}

int ExpressionReader::read_arguments() {
    int count = 0;
    if (peek().is(')')) return count;
    do {
        read_infix(1);
        ++count;
    } while (accept(','));
    return count;
}

void ExpressionReader::read_call(const Token& name) {
    if (name.text == "bits" && accept('(')) {
        emit_literal(Op::literal_f32, expect_integer("the bits of an f32", UINT32_MAX));
        return expect(')', "after the bits");
    }
    const std::optional<Type> type = parse_type(name.text);
    const Operation* row = type ? &operation(Op::cast) : find_operation(name.text);
    if (row != nullptr && row->syntax == Syntax::tile) return read_tile(name, *row);
    const bool callable =
        row != nullptr && (row->syntax == Syntax::function || row->syntax == Syntax::atomic ||
                           row->syntax == Syntax::length || row->syntax == Syntax::cast);
    if (!callable)
        fail(name, fmt::format("unknown operation {}. Fix: did you mean `{}`?", quoted(name),
                               nearest_function(name.text)));
    expect('(', "after the operation");
    std::string buffer;
    int count = 0;
    if (row->syntax == Syntax::length || row->syntax == Syntax::atomic)
        buffer = std::string(expect_name("a buffer").text);
    if (row->syntax == Syntax::atomic) {
        expect('[', "after the buffer");
        read_infix(1);
        expect(']', "after the index");
        ++count;
        if (accept(',')) count += read_arguments();
    } else if (row->syntax != Syntax::length) {
        count = read_arguments();
    }
    expect(')', "after the operands");
    if (row->op == Op::atomic_compare_exchange && count == 2)
        fail(name,
             "compare-exchange atomic is missing expected value. Fix: set Expr::Atomic.expected for "
             "AtomicOp::CompareExchange.");
    if (row->syntax == Syntax::atomic && row->operands == 2 && count == 3)
        fail(name,
             "non-compare-exchange atomic includes an expected value. Fix: use Expr::Atomic.expected "
             "only with AtomicOp::CompareExchange.");
    if (count != row->operands)
        fail(name, fmt::format("{} takes {} operands, not {}. Fix: give it {}.", quoted(name), row->operands,
                               count, row->operands));
    proto::KernelToken& token = emit(row->op, count);
    if (type) token.set_name(std::string(name_of(*type)));
    if (!buffer.empty()) token.set_name(buffer);
}

void ExpressionReader::read_tile(const Token& name, const Operation& row) {
    std::vector<int64_t> dims;
    std::string type;
    if (accept('{')) {
        if (peek().kind == TokenKind::name) {
            const Token word = next();
            if (!parse_type(word.text))
                fail(word, fmt::format("unknown type {}. Fix: write a type or a number.", quoted(word)));
            type = std::string(word.text);
            if (!accept(',') && !peek().is('}')) expect('}', "after the type");
        }
        while (!peek().is('}')) {
            const bool negative = accept('-');
            const auto value = static_cast<int64_t>(expect_integer("a number", uint64_t{1} << 40));
            if (dims.size() == 64) fail(name, "more than 64 numbers in braces. Fix: use fewer dimensions.");
            dims.push_back(negative ? -value : value);
            if (!accept(',')) break;
        }
        expect('}', "after the numbers");
    }
    expect('(', "after the operation");
    const int count = read_arguments();
    expect(')', "after the operands");
    proto::KernelToken& token = emit(row.op, count);
    token.set_bits(static_cast<uint64_t>(count));
    token.set_name(type);
    for (const int64_t value : dims) token.add_dims(value);
}

}  // namespace kpu::kernel
