// Rules on which every reader of a kernel relies.
#include "isa/kernel/form.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "isa/kernel/lexer.hpp"
#include "isa/kernel/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::kernel {
namespace {

bool is_plain(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '"'; });
}

class FormCheck {
  public:
    FormCheck(const proto::KernelBody& body, const std::string& origin) : body_(body), origin_(origin) {}

    void run() const {
        if (!is_identifier(body_.name()))
            fail("name", "is not an identifier. Fix: use letters, digits and _.");
        if (body_.rules() != "gpu" && body_.rules() != "xla")
            fail("rules", "names no rule set. Fix: write gpu or xla.");
        if (body_.workgroup_size() != 3)
            fail("workgroup", "needs three sizes. Fix: write 1 for unused axes.");
        for (const proto::KernelBuffer& buffer : body_.buffer()) check_buffer(buffer);
        const auto lines = std::count_if(body_.statement().begin(), body_.statement().end(),
                                         [](const auto& statement) { return statement.kind() == "line"; });
        const int most = max_statements(body_.rules());
        if (body_.statement_size() - lines > most || lines > 3 * most)
            throw UserError(
                fmt::format("{}: program node count exceeds limit {}. Fix: split the program into "
                            "smaller kernels or run an optimization pass before lowering.",
                            where(), most));
        check_statements();
    }

    void check_text() const {
        Diagnostics unread;
        const std::vector<Source> again = parse(print(body_), origin_, unread);
        if (unread.has_errors() || again.size() != 1 ||
            again[0].body->SerializeAsString() != body_.SerializeAsString())
            fail("content",
                 "has what its text cannot hold. Fix: leave fields empty that the statement, "
                 "operation or buffer does not use.");
    }

  private:
    std::string where() const {
        return is_identifier(body_.name()) ? fmt::format("{}: kernel `{}`", origin_, body_.name())
                                           : fmt::format("{}: a kernel", origin_);
    }
    [[noreturn]] void fail(std::string_view field, std::string_view what) const {
        throw UserError(fmt::format("{}: malformed: {} {}", where(), field, what));
    }

    void check_buffer(const proto::KernelBuffer& buffer) const {
        if (!is_identifier(buffer.name()))
            fail("buffer.name", "is not an identifier. Fix: use letters, digits and _.");
        if (!proto::KernelBuffer::Access_IsValid(buffer.access()))
            fail("buffer.access", "is unknown. Fix: use the version that wrote the file.");
        if (!parse_type(buffer.type())) fail("buffer.type", "is unknown. Fix: name a type of kernels.");
    }

    void check_statements() const {
        struct Open {
            int end, else_begin;
        };
        std::vector<Open> open;
        const int count = body_.statement_size();
        for (int i = 0; i < count; ++i) {
            while (!open.empty() && open.back().end == i) open.pop_back();
            const proto::KernelStatement& statement = body_.statement(i);
            const StatementKind* kind = find_statement_kind(statement.kind());
            if (kind == nullptr)
                throw UserError(
                    fmt::format("{}: reference interpreter encountered an unknown Node variant. Fix: "
                                "update vyre-reference before executing this IR.",
                                where()));
            // a block within the then side ends there
            const int limit = open.empty() ? count
                              : open.back().else_begin > i && open.back().else_begin > 0
                                  ? open.back().else_begin
                                  : open.back().end;
            check_statement(statement, *kind, i, limit);
            if (kind->end.empty()) continue;
            open.push_back(
                {static_cast<int>(statement.body_end()), static_cast<int>(statement.else_begin())});
            if (open.size() > static_cast<size_t>(max_nesting))
                throw UserError(
                    fmt::format("{}: program nesting depth {} exceeds max 64. Fix: flatten nested "
                                "If/Loop/Block structures or split the program before lowering.",
                                where(), open.size()));
        }
    }

    void check_statement(const proto::KernelStatement& s, const StatementKind& kind, int index,
                         int limit) const {
        const bool plain = is_plain(s.name()) && is_plain(s.other()) && is_plain(s.tag());
        const bool named = kind.kind == Kind::region || s.name().empty() || is_identifier(s.name());
        if (!plain || !named || !(s.other().empty() || is_identifier(s.other())))
            fail("statement", "has a name that is not an identifier. Fix: use letters, digits and _.");
        if (s.expression_size() != kind.expressions)
            fail("statement", "has another number of expressions than its kind. Fix: give it as many.");
        for (const proto::KernelExpression& expression : s.expression()) check_expression(expression);
        if (kind.end.empty()) return;
        const auto end = static_cast<int64_t>(s.body_end()), other = static_cast<int64_t>(s.else_begin());
        if (end <= index || end > limit)
            fail("body_end", "is outside the enclosing block. Fix: end it there.");
        if (other != 0 && (kind.kind != Kind::if_ || other <= index || other > end))
            fail("else_begin", "is outside the block. Fix: begin it there.");
    }

    void check_expression(const proto::KernelExpression& expression) const {
        std::vector<int>& depths = depths_;
        depths.clear();
        for (const proto::KernelToken& token : expression.token()) {
            const Operation* row = find_operation(token.op());
            if (row == nullptr) fail("operation", "is unknown. Fix: name one of the table of operations.");
            if (!token.name().empty() && !is_identifier(token.name()))
                fail("operation", "names what is not an identifier. Fix: use letters, digits and _.");
            uint64_t operands = row->operands;
            if (row->syntax == Syntax::tile) operands = token.bits();
            if (row->syntax == Syntax::load) operands = std::max<uint64_t>(token.bits(), 1);
            if (operands > depths.size()) fail("expression", "misses operands. Fix: write them before it.");
            int depth = 0;
            for (uint64_t i = 0; i < operands; ++i) {
                depth = std::max(depth, depths.back());
                depths.pop_back();
            }
            if (++depth > max_expression_depth)
                throw UserError(fmt::format("{}: {}", where(), too_deep(depth)));
            depths.push_back(depth);
        }
        if (depths.size() != 1)
            fail("expression", "gives no single value. Fix: give each operand its operation.");
    }

    const proto::KernelBody& body_;
    const std::string& origin_;
    mutable std::vector<int> depths_;  ///< depths of the values on an expression's stack
};

}  // namespace

std::shared_ptr<proto::KernelBody> new_body() {
    const auto arena = std::make_shared<google::protobuf::Arena>();
    return {arena, google::protobuf::Arena::CreateMessage<proto::KernelBody>(arena.get())};
}

std::string too_deep(int depth) {
    return fmt::format(
        "expression nesting depth {} exceeds max {}. Fix: split the expression into intermediate "
        "let-bindings before lowering.",
        depth, max_expression_depth);
}

void check_form(const proto::KernelBody& body, const std::string& origin) { FormCheck(body, origin).run(); }

void check_text(const proto::KernelBody& body, const std::string& origin) {
    FormCheck(body, origin).check_text();
}

}  // namespace kpu::kernel
