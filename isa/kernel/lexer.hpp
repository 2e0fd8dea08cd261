#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kpu::kernel {

enum class TokenKind : uint8_t { name, integer, real, string, punct, bad, end };

/// A token of kernel text. Line ends mean nothing; `#` begins a comment.
struct Token {
    TokenKind kind = TokenKind::end;
    std::string_view text;
    uint32_t line = 1, column = 1;
    uint64_t integer = 0;     ///< value, or the bits of a real
    std::string_view suffix;  ///< type written after an integer: i32
    bool is(std::string_view punct_or_name) const {
        return (kind == TokenKind::punct || kind == TokenKind::name) && text == punct_or_name;
    }
    bool is(char punct) const {
        return kind == TokenKind::punct && text.size() == 1 && text.front() == punct;
    }
};

class Lexer {
  public:
    explicit Lexer(std::string_view text);
    const Token& peek() const { return next_; }
    const Token& peek_second();
    Token take();
    void skip() {
        next_ = has_second_ ? second_ : scan();
        has_second_ = false;
    }

  private:
    Token scan();
    void skip_blanks();
    Token scan_number();
    Token scan_string();
    Token make(TokenKind kind, size_t length);

    std::string_view text_;
    size_t at_ = 0, line_start_ = 0;
    uint32_t line_ = 1;
    Token next_, second_;
    bool has_second_ = false;
};

/// Returns "`x`", "the end of the file": a token in messages.
std::string quoted(const Token& token);
bool is_identifier(std::string_view text);

}  // namespace kpu::kernel
