#pragma once

#include <boost/container/small_vector.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/nem/context.hpp"
#include "isa/nem/lexer.hpp"

namespace kpu::nem {

/// A step of a postfix expression while it is read: that of the program form, or a float literal.
struct ExprItem {
    proto::ExprToken::Kind kind = proto::ExprToken::INT;
    bool is_real = false;
    int64_t value = 0;
    double real = 0;
};
using ExprCode = boost::container::small_vector<ExprItem, 8>;  ///< most expressions are short

bool has_real(const ExprCode& code);
/// Returns the value of an expression over integers only (and the given constants); nothing on overflow,
/// division by zero, a negative operand of mod, or a name without a value.
std::optional<int64_t> fold_integer(const ExprCode& code,
                                    const std::vector<std::optional<int64_t>>& constants);
/// Returns the value of an expression that holds a float, over literals and constants.
std::optional<double> fold_real(const ExprCode& code, const std::vector<std::optional<int64_t>>& constants);

/// Tokens of one file with error reporting and expressions: what the readers of both kinds of document build
/// on.
class Reader {
  public:
    Reader(Lexer& lexer, Context& context, std::string path)
        : lexer_(lexer), context_(context), path_(std::move(path)) {}
    virtual ~Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

  protected:
    const Token& peek(unsigned ahead = 0) { return lexer_.peek(ahead); }
    Token next() { return lexer_.next(); }
    bool at_end() { return peek().kind == TokenKind::end; }
    bool accept(char punct) {
        if (!peek().is(punct)) return false;
        lexer_.skip();
        return true;
    }
    bool accept_name(std::string_view word);
    void expect(char punct, std::string_view where) {
        if (!accept(punct)) fail_punct(punct, where);
    }
    void expect_name(std::string_view word, std::string_view where);
    /// Returns a name that the user chooses; reserved words are refused.
    Token expect_identifier(std::string_view what);
    /// Returns a name or a reserved word: names of other name spaces (layouts, operands, units).
    Token expect_word(std::string_view what);
    std::string expect_string(std::string_view what);
    ElemType expect_elem_type();
    int64_t expect_integer(std::string_view what);

    SourcePos pos_of(const Token& token) const { return {path_, token.line, token.column}; }
    void report(const Token& token, std::string message) {
        report_at(token.line, token.column, std::move(message));
    }
    void report_at(uint32_t line, uint32_t column, std::string message);
    [[noreturn]] void fail(const Token& token, std::string message);
    [[noreturn]] void fail_expected(std::string_view wanted);
    [[noreturn]] void fail_punct(char punct, std::string_view where);

    /// Parses expr of the grammar. Floats are kept; the caller refuses them where integers are due.
    ExprCode parse_expr();
    /// Returns an expression that must be integer: otherwise "<what> must be integer".
    ExprCode parse_integer_expr(std::string_view what);

    /// Appends what a name stands for; reports and throws when it stands for nothing an expression can hold.
    virtual void append_name(const Token& name, ExprCode& code) = 0;
    /// Guards recursion on input depth.
    struct Nesting {
        explicit Nesting(Reader& reader);
        ~Nesting() { --reader_.depth_; }
        Nesting(const Nesting&) = delete;
        Nesting& operator=(const Nesting&) = delete;
        Reader& reader_;
    };

    Lexer& lexer_;
    Context& context_;
    std::string path_;

  private:
    void parse_sum(ExprCode& code);
    void parse_term(ExprCode& code);
    void parse_unary(ExprCode& code);
    void parse_primary(ExprCode& code);
    void append_integer(const Token& token, bool negative, ExprCode& code);
    void append(const Token& at, ExprCode& code, ExprItem item);

    unsigned depth_ = 0;
    uint32_t last_error_line_ = 0, last_error_column_ = 0;
};

}  // namespace kpu::nem
