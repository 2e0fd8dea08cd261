#pragma once

#include <string>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/kernel/lexer.hpp"
#include "isa/kernel/operations.hpp"
#include "isa/kernel/text.hpp"

namespace kpu::kernel {

/// Tokens with error reporting, and expressions, which become postfix as they are read.
class ExpressionReader {
  public:
    ExpressionReader(Lexer& lexer, std::string path, Diagnostics& diagnostics)
        : lexer_(lexer), path_(std::move(path)), diagnostics_(diagnostics) {}

  protected:
    struct Stop {};  ///< thrown after the first mistake: what follows it means little

    const Token& peek() const { return lexer_.peek(); }
    Token next() { return lexer_.take(); }
    bool accept(std::string_view text);
    bool accept(char punct) {
        const bool found = peek().is(punct);
        if (found) lexer_.skip();
        return found;
    }
    void expect(std::string_view text, std::string_view where);
    void expect(char punct, std::string_view where) {
        if (!accept(punct)) expect(std::string_view(&punct, 1), where);
    }
    Token expect_name(std::string_view what);
    std::string expect_string(std::string_view what);
    uint64_t expect_integer(std::string_view what, uint64_t most);
    [[noreturn]] void fail(const Token& at, std::string message);
    const std::string& path() const { return path_; }

    void read_expression(proto::KernelExpression& expression);

  private:
    void read_infix(int lowest);
    void read_operand();
    void read_minus();
    void read_literal(const Token& number, bool negative);
    void read_named();
    void read_call(const Token& name);
    void read_tile(const Token& name, const Operation& operation);
    void read_axis(const Operation& operation);
    int read_arguments();
    /// Adds an operation on the last `operands` values.
    proto::KernelToken& emit(Op op, int operands);
    void emit_literal(Op op, uint64_t bits) { emit(op, 0).set_bits(bits); }

    /// Bounds the reader's own recursion.
    struct Deeper {
        explicit Deeper(ExpressionReader& reader);
        ~Deeper() { --reader_.recursion_; }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        ExpressionReader& reader_;
    };

    Lexer& lexer_;
    std::string path_;
    Diagnostics& diagnostics_;
    proto::KernelExpression* expression_ = nullptr;
    std::vector<int> depths_;  ///< depths of the values that wait for their operation
    int recursion_ = 0;
};

}  // namespace kpu::kernel
