#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::nem {

enum class TokenKind : uint8_t { end, name, integer, real, string, punct, dots, bad };

/// Words that cannot be names; every other word is a name where its context does not ask for it.
enum class Word : uint8_t {
    none,
    program,
    device,
    const_,
    buffer,
    let,
    loop,
    endloop,
    in,
    out,
    include,
    wait,
    region,
    mod,
    elem_type,
    level
};

struct Token {
    TokenKind kind = TokenKind::end;
    Word word = Word::none;
    char punct = 0;           ///< the character of a punct token
    bool line_start = false;  ///< first on its line: where recovery may look for a statement
    uint32_t line = 1;
    uint32_t column = 1;  ///< 1-based, in bytes
    uint32_t offset = 0;  ///< offset of the first byte in the text, which is shorter than 2^28
    std::string_view text;

    bool is(char c) const { return kind == TokenKind::punct && punct == c; }
    bool is(Word w) const { return kind == TokenKind::name && word == w; }
    bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

/// A metadata line, `#! ...`: a comment for other readers of the language.
struct MetaLine {
    std::string_view text;  ///< after "#!"
    uint32_t line = 1;
    uint32_t column = 1;  ///< column in the text
    size_t offset = 0;
};

/// Tokens on demand with a bounded look-ahead. Works in place on `text`, which must outlive the tokens.
class Lexer {
  public:
    explicit Lexer(std::string_view text, uint32_t line = 1, uint32_t column = 1);

    const Token& peek(unsigned ahead = 0) {
        while (filled_ <= ahead) fill();
        return ring_[(head_ + ahead) % ring_.size()];
    }
    Token next() {
        const Token token = peek();
        skip();
        return token;
    }
    /// Does next() for a token that was peeked at.
    void skip() {
        head_ = (head_ + 1) % ring_.size();
        --filled_;
    }
    std::string_view text() const { return text_; }
    /// Returns the next metadata line before `offset`, or null. Valid until the lexer is used again.
    const MetaLine* next_meta(size_t offset);

  private:
    void fill();
    void skip_blanks();
    void skip_comment();
    void scan_rest(Token& token);
    void scan_number(Token& token);
    void scan_string(Token& token);
    char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

    std::string_view text_;
    size_t pos_ = 0;
    size_t line_begin_ = 0;  ///< offset of the first byte of the line, less the starting column
    uint32_t line_;
    uint32_t first_column_;
    bool line_start_ = true;
    std::array<Token, 16> ring_;
    unsigned head_ = 0, filled_ = 0;
    std::vector<MetaLine> metas_;
    size_t next_meta_ = 0;
};

/// Says what is wrong with a bad token, with a fix.
std::string describe_bad(const Token& token);
/// Returns the contents of a string token, escapes resolved. The token must not be bad.
std::string string_value(const Token& token);
/// Names a token as error messages do: `name`, or "the end of the file".
std::string quoted(const Token& token);
Word classify(std::string_view name);
bool is_identifier(std::string_view text);

}  // namespace kpu::nem
