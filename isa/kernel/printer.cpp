// Kernels to text.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "isa/kernel/form.hpp"
#include "isa/kernel/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::kernel {
namespace {

struct Piece {
    std::string text;
    int precedence;  ///< precedence of its outermost operation; what binds tightest is `tightest`
};
constexpr int tightest = 100, unary = 50;

std::string real_text(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) return fmt::format("bits(0x{:08x})", bits);
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

Piece literal(Op op, uint64_t bits) {
    switch (op) {
        case Op::literal_bool:
            return {bits != 0 ? "true" : "false", tightest};
        case Op::literal_f32: {
            std::string text = real_text(static_cast<uint32_t>(bits));
            return {text, text[0] == '-' ? unary : tightest};
        }
        case Op::literal_i32: {
            const auto value = static_cast<int32_t>(static_cast<uint32_t>(bits));
            return {fmt::format("{}i32", value), value < 0 ? unary : tightest};
        }
        case Op::literal_u64:
            return {fmt::format("{}u64", bits), tightest};
        default:
            return {fmt::format("{}", bits), tightest};
    }
}

std::string in_parentheses(const std::string& text) { return "(" + text + ")"; }

class ExpressionPrinter {
  public:
    std::string run(const proto::KernelExpression& expression) {
        for (const proto::KernelToken& token : expression.token()) add(token, *find_operation(token.op()));
        return stack_.back().text;
    }

  private:
    void add(const proto::KernelToken& token, const Operation& row) {
        switch (row.syntax) {
            case Syntax::literal:
                return stack_.push_back(literal(row.op, token.bits()));
            case Syntax::variable:
                return stack_.push_back({token.name(), tightest});
            case Syntax::axis:
                return stack_.push_back({fmt::format("{}.{}", row.name, token.name()), tightest});
            case Syntax::length:
                return stack_.push_back({fmt::format("len({})", token.name()), tightest});
            case Syntax::load:
                return call(token.name() + "[", std::max<uint64_t>(token.bits(), 1), "]");
            case Syntax::infix:
                return infix(row);
            case Syntax::prefix:
                return prefix(row);
            case Syntax::cast:
                return call(token.name() + "(", 1, ")");
            case Syntax::function:
                return call(std::string(row.name) + "(", row.operands, ")");
            case Syntax::atomic:
                return atomic(token, row);
            case Syntax::tile:
                return call(tile_head(token, row), token.bits(), ")");
        }
    }

    static std::string tile_head(const proto::KernelToken& token, const Operation& row) {
        if (token.name().empty() && token.dims().empty()) return std::string(row.name) + "(";
        const std::string_view between = token.name().empty() || token.dims().empty() ? "" : ", ";
        return fmt::format("{}{{{}{}{}}}(", row.name, token.name(), between, fmt::join(token.dims(), ", "));
    }

    void infix(const Operation& row) {
        Piece right = std::move(stack_.back());
        stack_.pop_back();
        Piece& left = stack_.back();
        if (left.precedence < row.precedence) left.text = in_parentheses(left.text);
        if (right.precedence <= row.precedence) right.text = in_parentheses(right.text);
        left.text += fmt::format(" {} {}", row.symbol, right.text);
        left.precedence = row.precedence;
    }

    void prefix(const Operation& row) {
        Piece& operand = stack_.back();
        if (operand.precedence < unary) operand.text = in_parentheses(operand.text);
        operand = {std::string(row.symbol) + operand.text, unary};
    }

    /// Returns the last `count` pieces as a list.
    std::string take(uint64_t count) {
        std::string text;
        for (size_t i = stack_.size() - count; i < stack_.size(); ++i)
            text += (text.empty() ? "" : ", ") + stack_[i].text;
        stack_.resize(stack_.size() - count);
        return text;
    }

    void call(std::string before, uint64_t count, std::string_view after) {
        before += take(count);
        before += after;
        stack_.push_back({std::move(before), tightest});
    }

    void atomic(const proto::KernelToken& token, const Operation& row) {
        const std::string values = take(row.operands - 1u), index = take(1);
        stack_.push_back({fmt::format("{}({}[{}], {})", row.name, token.name(), index, values), tightest});
    }

    std::vector<Piece> stack_;
};

std::string expression_text(const proto::KernelStatement& statement, int index) {
    return ExpressionPrinter().run(statement.expression(index));
}

std::string parts_text(const proto::KernelStatement& s, const StatementKind& kind) {
    std::string text;
    int expression = 0;
    for (const Part part : kind.parts) {
        text += text.empty() ? "(" : ", ";
        switch (part) {
            case Part::name:
                text += s.name();
                break;
            case Part::other:
                text += s.other();
                break;
            case Part::expression:
                text += expression_text(s, expression++);
                break;
            case Part::tag:
                text += fmt::format("\"{}\"", s.tag());
                break;
            case Part::number:
                text += fmt::format("{}", s.number());
                break;
            case Part::root:
                text += fmt::format("{}", s.root());
                break;
        }
    }
    return fmt::format("{}{}{}", kind.name, text, text.empty() ? "" : ")");
}

std::string access_text(proto::KernelBuffer::Access access) {
    std::string text = proto::KernelBuffer::Access_Name(access);
    for (char& c : text) c = c == '_' ? '_' : static_cast<char>(c + 32);
    return text;
}

std::string buffer_text(const proto::KernelBuffer& buffer) {
    if (buffer.access() == proto::KernelBuffer::SCALAR)
        return fmt::format("{}: {}", buffer.name(), buffer.type());
    const bool counted = buffer.count() > 0 || buffer.access() == proto::KernelBuffer::WORKGROUP;
    std::string text = fmt::format("{}: {} {}[{}]", buffer.name(), access_text(buffer.access()),
                                   buffer.type(), counted ? std::to_string(buffer.count()) : "");
    if (buffer.range_begin() != 0 || buffer.range_end() != 0)
        text += fmt::format(" bytes({}, {})", buffer.range_begin(), buffer.range_end());
    return text;
}

constexpr int most_on_one_line = 4;  ///< buffers in the head

std::string head_text(const proto::KernelBody& body) {
    std::string size = std::to_string(body.workgroup(0));
    const int axes = body.workgroup(2) != 1 ? 3 : body.workgroup(1) != 1 ? 2 : 1;
    for (int i = 1; i < axes; ++i) size += fmt::format(", {}", body.workgroup(i));
    std::string text =
        fmt::format("kernel {}{} workgroup({}) (", body.name(),
                    body.rules() == "gpu" ? "" : fmt::format(" rules({})", body.rules()), size);
    const std::string between = ",\n" + std::string(8, ' ');
    for (int i = 0; i < body.buffer_size(); ++i) {
        const std::string next = buffer_text(body.buffer(i));
        if (i > 0) text += body.buffer_size() > most_on_one_line ? between : ", ";
        text += next;
    }
    return text + "):\n";
}

}  // namespace

std::string statement_text(const proto::KernelStatement& s) {
    const StatementKind& kind = *find_statement_kind(s.kind());
    switch (kind.kind) {
        case Kind::let:
            return fmt::format("let {} = {}", s.name(), expression_text(s, 0));
        case Kind::assign:
            return fmt::format("{} = {}", s.name(), expression_text(s, 0));
        case Kind::store:
            return fmt::format("{}[{}] = {}", s.name(), expression_text(s, 0), expression_text(s, 1));
        case Kind::loop:
            return fmt::format("loop {} in {}..{}:", s.name(), expression_text(s, 0), expression_text(s, 1));
        case Kind::if_:
        case Kind::while_:
            return fmt::format("{} {}:", kind.name, expression_text(s, 0));
        case Kind::block:
            return "block:";
        case Kind::region:
            return fmt::format("region \"{}\":", s.name());
        case Kind::barrier:
            return s.tag().empty() ? "barrier" : "barrier " + s.tag();
        default:
            return parts_text(s, kind);
    }
}

namespace {

/// Calls `line(depth, statement)` for each statement, and `line(depth, word)` for each `else:` and end of a block.
template <typename Line>
void each_line(const proto::KernelBody& body, Line&& line) {
    struct Open {
        uint32_t end, else_begin;
        std::string_view word;
    };
    std::vector<Open> open;
    const auto count = static_cast<uint32_t>(body.statement_size());
    for (uint32_t i = 0; i <= count; ++i) {
        const auto say_else = [&] {
            if (open.empty() || open.back().else_begin != i || i == 0) return;
            open.back().else_begin = 0;
            line(open.size() - 1, std::string_view("else:"));
        };
        say_else();
        while (!open.empty() && open.back().end == i) {
            const std::string_view word = open.back().word;
            open.pop_back();
            line(open.size(), word);
            say_else();
        }
        if (i == count) break;
        const proto::KernelStatement& statement = body.statement(static_cast<int>(i));
        line(open.size(), statement);
        const StatementKind& kind = *find_statement_kind(statement.kind());
        if (!kind.end.empty()) open.push_back({statement.body_end(), statement.else_begin(), kind.end});
    }
}

}  // namespace

std::string print(const proto::KernelBody& body) {
    std::string out = head_text(body);
    each_line(body, [&](size_t depth, const auto& what) {
        out.append(4 * (depth + 1), ' ');
        if constexpr (std::is_same_v<std::decay_t<decltype(what)>, std::string_view>)
            out += what;
        else
            out += statement_text(what);
        out += '\n';
    });
    return out + "endkernel\n";
}

Source printed(std::shared_ptr<const proto::KernelBody> shared, const std::string& path, uint32_t& line) {
    const proto::KernelBody& body = *shared;
    Source source;
    source.body = std::move(shared);
    source.path = path;
    source.start = {line, 8};
    line += static_cast<uint32_t>(body.buffer_size() > most_on_one_line ? body.buffer_size() : 1);
    each_line(body, [&](size_t depth, const auto& what) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(what)>, std::string_view>)
            source.statements.push_back({line, static_cast<uint32_t>(4 * (depth + 1) + 1)});
        ++line;
    });
    ++line;
    return source;
}

}  // namespace kpu::kernel
