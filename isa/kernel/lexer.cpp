#include "isa/kernel/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "isa/kernel/types.hpp"

namespace kpu::kernel {
namespace {

/// Classes of tokens that a character can be part of.
enum : uint8_t { letter = 1, digit = 2, hex_digit = 4, punctuation = 8, blank = 16 };
constexpr std::array<uint8_t, 256> make_classes() {
    std::array<uint8_t, 256> classes{};
    const auto add = [&](std::string_view characters, int what) {
        for (const char c : characters) {
            uint8_t& known = classes[static_cast<unsigned char>(c)];
            known = static_cast<uint8_t>(known | what);
        }
    };
    add("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_", letter);
    add("0123456789", digit);
    add("0123456789abcdefABCDEF", hex_digit);
    add("+-*/%&|^~!<>=()[]{}:,.", punctuation);
    add(" \t\r", blank);
    return classes;
}
constexpr std::array<uint8_t, 256> classes = make_classes();

bool is(char c, int what) { return (classes[static_cast<unsigned char>(c)] & what) != 0; }
bool is_letter(char c) { return is(c, letter); }
bool is_digit(char c) { return is(c, digit); }
bool is_hex(char c) { return is(c, hex_digit); }

}  // namespace

bool is_identifier(std::string_view text) {
    return !text.empty() && is_letter(text[0]) &&
           std::all_of(text.begin(), text.end(), [](char c) { return is(c, letter | digit); });
}

std::string quoted(const Token& token) {
    if (token.kind == TokenKind::end) return "the end of the file";
    std::string text;
    for (const char c : token.text.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
    return "`" + text + "`";
}

Lexer::Lexer(std::string_view text) : text_(text) { next_ = scan(); }

const Token& Lexer::peek_second() {
    if (!has_second_) second_ = scan();
    has_second_ = true;
    return second_;
}

Token Lexer::take() {
    const Token taken = next_;
    skip();
    return taken;
}

Token Lexer::make(TokenKind kind, size_t length) {
    Token token;
    token.kind = kind;
    token.text = text_.substr(at_, length);
    token.line = line_;
    token.column = static_cast<uint32_t>(at_ - line_start_ + 1);
    at_ += token.text.size();
    return token;
}

void Lexer::skip_blanks() {
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (is(c, blank)) {
            ++at_;
        } else if (c == '\n') {
            line_start_ = ++at_;
            ++line_;
        } else if (c == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else {
            return;
        }
    }
}

Token Lexer::scan() {
    skip_blanks();
    if (at_ == text_.size()) return make(TokenKind::end, 0);
    const char c = text_[at_];
    if (is_letter(c)) {
        size_t length = 1;
        while (at_ + length < text_.size() && is(text_[at_ + length], letter | digit)) ++length;
        return make(TokenKind::name, length);
    }
    if (is_digit(c)) return scan_number();
    if (c == '"') return scan_string();
    const char behind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const bool pair = behind == '='   ? c == '=' || c == '!' || c == '<' || c == '>'
                      : behind == '>' ? c == '>' || c == '-'
                                      : behind == c && (c == '<' || c == '&' || c == '|' || c == '.');
    if (pair) return make(TokenKind::punct, 2);
    return make(is(c, punctuation) ? TokenKind::punct : TokenKind::bad, 1);
}

/// Scans 12, 0x1f, 7i32, 1.5, 1e-3; `0..4` is two numbers. What does not fit is no number.
Token Lexer::scan_number() {
    const std::string_view rest = text_.substr(at_);
    const auto at = [&](size_t i) { return i < rest.size() ? rest[i] : '\0'; };
    const bool hex = rest[0] == '0' && (at(1) == 'x' || at(1) == 'X');
    size_t length = hex ? 2 : 0;
    while (hex ? is_hex(at(length)) : is_digit(at(length))) ++length;
    bool real = false;
    if (!hex && at(length) == '.' && is_digit(at(length + 1))) {
        real = true;
        for (++length; is_digit(at(length));) ++length;
    }
    const size_t sign = at(length + 1) == '-' || at(length + 1) == '+' ? 2 : 1;
    if (!hex && (at(length) == 'e' || at(length) == 'E') && is_digit(at(length + sign))) {
        real = true;
        for (length += sign; is_digit(at(length));) ++length;
    }
    uint64_t value = 0;
    bool fits = true;
    if (real) {
        float number = 0;
        fits = std::from_chars(rest.data(), rest.data() + length, number).ec == std::errc();
        uint32_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        value = bits;
    } else {
        const char* first = rest.data() + (hex ? 2 : 0);
        const auto read = std::from_chars(first, rest.data() + length, value, hex ? 16 : 10);
        fits = read.ec == std::errc() && read.ptr == rest.data() + length && read.ptr != first;
    }
    size_t end = length;
    while (is_letter(at(end)) || is_digit(at(end))) ++end;
    Token token = make(fits ? (real ? TokenKind::real : TokenKind::integer) : TokenKind::bad, end);
    token.suffix = token.text.substr(length);
    token.integer = value;
    const bool known = token.suffix.empty() ||
                       (!real && (token.suffix == "u32" || token.suffix == "i32" || token.suffix == "u64")) ||
                       (real && token.suffix == "f32");
    if (!known) token.kind = TokenKind::bad;
    return token;
}

Token Lexer::scan_string() {
    size_t length = 1;
    const std::string_view rest = text_.substr(at_);
    while (length < rest.size() && rest[length] != '"' && rest[length] >= ' ' && rest[length] <= '~')
        ++length;
    const bool closed = length < rest.size() && rest[length] == '"';
    return make(closed ? TokenKind::string : TokenKind::bad, closed ? length + 1 : length);
}

}  // namespace kpu::kernel
