// Kernel text to kernels. Blocks are kept on a stack, expressions by precedence with bounded depth, so that no
// input makes the reader recurse without a bound.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/text.hpp"
#include "isa/kernel/expression_reader.hpp"

namespace kpu::kernel {
namespace {

struct Block {
    int statement;
    const StatementKind* kind;
    Token start;
};

class KernelReader : public ExpressionReader {
  public:
    KernelReader(Lexer& lexer, const std::string& path, Diagnostics& diagnostics,
                 std::shared_ptr<proto::KernelBody> first)
        : ExpressionReader(lexer, path, diagnostics), given_(std::move(first)) {}

    std::vector<Source> read_all() {
        try {
            while (peek().kind != TokenKind::end) read_kernel();
        } catch (const Stop&) {
        }
        return std::move(kernels_);
    }

  private:
    void read_kernel() {
        expect("kernel", "at the start of a kernel");
        kernels_.emplace_back();
        Source& source = kernels_.back();
        source.path = path();
        const auto body = given_ != nullptr ? std::exchange(given_, nullptr) : new_body();
        source.body = body;
        body_ = body.get();
        const Token name = expect_name("the kernel's name");
        source.start = {name.line, name.column};
        if (!names_.insert(name.text).second)
            fail(name, fmt::format("a second kernel {}. Fix: rename one.", quoted(name)));
        body_->set_name(std::string(name.text));
        body_->set_rules("gpu");
        if (accept("rules")) {
            expect('(', "before the rule set");
            body_->set_rules(std::string(expect_name("a rule set").text));
            expect(')', "after the rule set");
        }
        read_workgroup();
        expect('(', "before the buffers");
        if (!peek().is(')')) {
            do read_buffer(source);
            while (accept(','));
        }
        expect(')', "after the buffers");
        expect(':', "before the body");
        read_body(source);
    }

    void read_workgroup() {
        expect("workgroup", "before the workgroup's size");
        expect('(', "before the workgroup's size");
        do body_->add_workgroup(static_cast<uint32_t>(expect_integer("a size", UINT32_MAX)));
        while (accept(',') && body_->workgroup_size() < 3);
        while (body_->workgroup_size() < 3) body_->add_workgroup(1);
        expect(')', "after the workgroup's size");
    }

    void read_buffer(Source& source) {
        const Token name = expect_name("a buffer or scalar");
        source.buffers.push_back({name.line, name.column});
        proto::KernelBuffer& buffer = *body_->add_buffer();
        buffer.set_name(std::string(name.text));
        expect(':', "after the name");
        buffer.set_access(proto::KernelBuffer::SCALAR);
        const Token first = expect_name("an access or a type");
        Token type = first;
        if (!parse_type(first.text)) {
            buffer.set_access(access_of(first));
            type = expect_name("an element type");
        }
        if (!parse_type(type.text))
            fail(type,
                 fmt::format("unknown type {}. Fix: did you mean `{}`?", quoted(type), nearest_type(type)));
        buffer.set_type(std::string(type.text));
        if (buffer.access() == proto::KernelBuffer::SCALAR) return;
        expect('[', "after the element type");
        if (!peek().is(']')) {
            const Token at = peek();
            buffer.set_count(static_cast<uint32_t>(expect_integer("a number of elements", UINT32_MAX)));
            if (buffer.count() == 0 && buffer.access() != proto::KernelBuffer::WORKGROUP)
                fail(at, "a buffer of 0 elements. Fix: write [] for as many as are bound.");
        }
        expect(']', "after the number of elements");
        if (accept("bytes")) read_range(buffer);
    }

    void read_range(proto::KernelBuffer& buffer) {
        expect('(', "before the byte range");
        buffer.set_range_begin(expect_integer("the first byte", UINT64_MAX));
        expect(',', "in the byte range");
        buffer.set_range_end(expect_integer("the byte after the last", UINT64_MAX));
        expect(')', "after the byte range");
    }

    proto::KernelBuffer::Access access_of(const Token& word) {
        const std::string upper = [&] {
            std::string text(word.text);
            std::transform(text.begin(), text.end(), text.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : '?'; });
            for (size_t i = 0; i < text.size(); ++i)
                if (word.text[i] == '_') text[i] = '_';
            return text;
        }();
        proto::KernelBuffer::Access access;
        if (!proto::KernelBuffer::Access_Parse(upper, &access) || access == proto::KernelBuffer::SCALAR)
            fail(word, fmt::format("{} is neither an access nor a type. Fix: write read, write, read_write, "
                                   "uniform, workgroup or output, or a scalar's type.",
                                   quoted(word)));
        return access;
    }

    std::string_view nearest_type(const Token& token) const {
        static const std::vector<std::string_view> names = [] {
            std::vector<std::string_view> all;
            for (int i = 1; i < type_count; ++i) all.push_back(name_of(static_cast<Type>(i)));
            return all;
        }();
        static std::string nearest;
        nearest = nearest_name(token.text, names);
        return nearest;
    }

    void read_body(Source& source) {
        const int most = max_statements(body_->rules());
        int nodes = 0, lines = 0;
        while (!(blocks_.empty() && peek().is("endkernel"))) {
            if (peek().kind == TokenKind::end) {
                fail(peek(),
                     blocks_.empty()
                         ? std::string("the kernel has no end. Fix: add endkernel.")
                         : fmt::format("`{}` of line {} has no end. Fix: add {}.", blocks_.back().kind->name,
                                       blocks_.back().start.line, blocks_.back().kind->end));
            }
            if (close_block()) continue;
            const bool line = peek().is("line");
            if ((line ? lines++ : nodes++) == (line ? 3 * most : most))
                fail(peek(),
                     fmt::format("program node count exceeds limit {}. Fix: split the program into smaller "
                                 "kernels or run an optimization pass before lowering.",
                                 most));
            source.statements.push_back({peek().line, peek().column});
            read_statement();
        }
        next();
    }

    bool close_block() {
        if (blocks_.empty()) return false;
        const Block& block = blocks_.back();
        proto::KernelStatement& owner = *body_->mutable_statement(block.statement);
        if (block.kind->kind == Kind::if_ && owner.else_begin() == 0 && peek().is("else")) {
            next();
            expect(':', "after else");
            owner.set_else_begin(static_cast<uint32_t>(body_->statement_size()));
            return true;
        }
        if (!peek().is(block.kind->end)) return false;
        next();
        owner.set_body_end(static_cast<uint32_t>(body_->statement_size()));
        blocks_.pop_back();
        return true;
    }

    void read_statement() {
        const Token first = expect_name("a statement");
        const StatementKind* kind = find_statement_kind(first.text);
        const bool named =
            kind != nullptr && (!kind->parts.empty() || !kind->end.empty() || kind->kind == Kind::let ||
                                kind->kind == Kind::return_ || kind->kind == Kind::barrier);
        if (named && !peek().is('=') && !peek().is('[')) return read_known(first, *kind);
        proto::KernelStatement& statement = *body_->add_statement();
        statement.set_name(first.text.data(), first.text.size());
        statement.set_kind(peek().is('[') ? "store" : "assign");
        if (accept('[')) {
            read_expression(*statement.add_expression());
            expect(']', "after the index");
        } else if (!peek().is('=')) {
            fail(first, fmt::format("{} is not a statement. Fix: did you mean `{}`?", quoted(first),
                                    nearest_kind(first.text)));
        }
        expect('=', "before the value");
        read_expression(*statement.add_expression());
    }

    static std::string nearest_kind(std::string_view text) {
        std::vector<std::string_view> names;
        for (const StatementKind& row : statement_kinds()) names.push_back(row.name);
        return nearest_name(text, names);
    }

    void read_known(const Token& first, const StatementKind& kind) {
        proto::KernelStatement& statement = *body_->add_statement();
        const int index = body_->statement_size() - 1;
        statement.set_kind(kind.name.data(), kind.name.size());
        switch (kind.kind) {
            case Kind::let:
                statement.set_name(std::string(expect_name("a variable").text));
                expect('=', "after the variable");
                read_expression(*statement.add_expression());
                break;
            case Kind::loop:
                statement.set_name(std::string(expect_name("a loop variable").text));
                expect("in", "after the loop variable");
                read_expression(*statement.add_expression());
                expect("..", "between the bounds");
                read_expression(*statement.add_expression());
                break;
            case Kind::if_:
            case Kind::while_:
                read_expression(*statement.add_expression());
                break;
            case Kind::region:
                statement.set_name(expect_string("the region's name"));
                break;
            case Kind::barrier:
                for (const std::string_view word : {"relaxed", "grid"})
                    if (accept(word)) statement.set_tag(std::string(word));
                break;
            default:
                read_parts(statement, kind);
        }
        if (kind.end.empty()) return;
        expect(':', "before the block");
        if (blocks_.size() >= max_nesting)
            fail(first, fmt::format("program nesting depth {} exceeds max 64. Fix: flatten nested "
                                    "If/Loop/Block structures or split the program before lowering.",
                                    blocks_.size() + 1));
        blocks_.push_back({index, &kind, first});
    }

    void read_parts(proto::KernelStatement& statement, const StatementKind& kind) {
        bool first = true;
        for (const Part part : kind.parts) {
            expect(first ? "(" : ",", "before what the statement takes");
            first = false;
            switch (part) {
                case Part::name:
                    statement.set_name(std::string(expect_name("a buffer").text));
                    break;
                case Part::other:
                    statement.set_other(std::string(expect_name("a name").text));
                    break;
                case Part::expression:
                    read_expression(*statement.add_expression());
                    break;
                case Part::tag:
                    statement.set_tag(expect_string("a name in quotes"));
                    break;
                case Part::number:
                    statement.set_number(expect_integer("a number", UINT64_MAX));
                    break;
                case Part::root:
                    statement.set_root(expect_integer("a number", UINT64_MAX));
                    break;
            }
        }
        if (!first) expect(')', "after what the statement takes");
    }

    std::shared_ptr<proto::KernelBody> given_;  ///< body to fill with the first kernel
    proto::KernelBody* body_ = nullptr;
    std::vector<Block> blocks_;
    std::vector<Source> kernels_;
    std::unordered_set<std::string_view> names_;
};

}  // namespace

bool is_kernel_text(std::string_view text) {
    Lexer lexer(text);
    if (!lexer.take().is("kernel") || lexer.take().kind != TokenKind::name) return false;
    return lexer.peek().is("workgroup") || lexer.peek().is("rules");
}

std::vector<Source> parse(std::string_view text, const std::string& path, Diagnostics& diagnostics,
                          std::shared_ptr<proto::KernelBody> body) {
    if (text.size() > max_text_bytes) {
        diagnostics.error({path, 0, 0},
                          fmt::format("the text has more than {} bytes. Fix: split it into several files.",
                                      max_text_bytes));
        return {};
    }
    Lexer lexer(text);
    return KernelReader(lexer, path, diagnostics, std::move(body)).read_all();
}

}  // namespace kpu::kernel
