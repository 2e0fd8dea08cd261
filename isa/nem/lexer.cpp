#include "isa/nem/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/types.hpp"
#include "base/utf8.hpp"

namespace kpu::nem {
namespace {

enum CharClass : uint8_t { other, blank, comment, digit, letter, punctuation };

constexpr std::array<CharClass, 256> make_classes() {
    std::array<CharClass, 256> table{};
    for (const char c : {' ', '\t', '\r', '\n'}) table[static_cast<uint8_t>(c)] = blank;
    table['#'] = comment;
    for (int c = '0'; c <= '9'; ++c) table[static_cast<size_t>(c)] = digit;
    for (int c = 'a'; c <= 'z'; ++c) table[static_cast<size_t>(c)] = letter;
    for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<size_t>(c)] = letter;
    table['_'] = letter;
    for (const char c :
         {'+', '-', '*', '/', '(', ')', '[', ']', '{', '}', ':', ';', ',', '=', '@', '<', '>', '.'})
        table[static_cast<uint8_t>(c)] = punctuation;
    return table;
}
constexpr std::array<CharClass, 256> classes = make_classes();

CharClass class_of(char c) { return classes[static_cast<uint8_t>(c)]; }

constexpr std::array<bool, 256> make_words() {
    std::array<bool, 256> table{};
    for (size_t c = 0; c < table.size(); ++c) table[c] = classes[c] == letter || classes[c] == digit;
    return table;
}
constexpr std::array<bool, 256> words = make_words();

bool is_word(char c) { return words[static_cast<uint8_t>(c)]; }

struct Reserved {
    std::string_view name;
    Word word;
};
constexpr Reserved reserved[] = {
    {"program", Word::program}, {"device", Word::device}, {"const", Word::const_},
    {"buffer", Word::buffer},   {"let", Word::let},       {"loop", Word::loop},
    {"endloop", Word::endloop}, {"in", Word::in},         {"out", Word::out},
    {"include", Word::include}, {"wait", Word::wait},     {"region", Word::region},
    {"mod", Word::mod},         {"DDR", Word::level},     {"L2", Word::level},
    {"L1", Word::level}};

/// Reserved words and element types, found with one probe of a table: every name of a program is looked up.
class ReservedWords {
  public:
    ReservedWords() noexcept {
        for (const Reserved& entry : reserved) add(entry.name, entry.word);
        for (size_t i = 1; i < elem_type_count; ++i) {
            const auto type = static_cast<ElemType>(i);
            if (bit_width(type) > 0 && name_of(type).size() <= longest) add(name_of(type), Word::elem_type);
        }
    }

    Word find(std::string_view name) const {
        if (name.size() > longest)  // posits of another es are the only such words
            return name[0] == 'p' && parse_elem_type(name) ? Word::elem_type : Word::none;
        const uint64_t key = key_of(name);
        for (size_t slot = slot_of(key);; slot = (slot + 1) % slots_.size()) {
            if (slots_[slot].key == key) return slots_[slot].word;
            if (slots_[slot].key == 0) return Word::none;
        }
    }

  private:
    struct Slot {
        uint64_t key = 0;
        Word word = Word::none;
    };
    static constexpr size_t longest = 8;  // letters that a key holds

    static uint64_t key_of(std::string_view name) {
        uint64_t key = 0;
        for (const char c : name) key = key << 8 | static_cast<uint8_t>(c);
        return key;
    }
    static size_t slot_of(uint64_t key) { return (key * 0x9E3779B97F4A7C15u) >> 56; }
    void add(std::string_view name, Word word) noexcept {
        size_t slot = slot_of(key_of(name));
        while (slots_[slot].key != 0) slot = (slot + 1) % slots_.size();
        slots_[slot] = {key_of(name), word};
    }

    std::array<Slot, 256> slots_{};
};
const ReservedWords reserved_words;

/// Returns the offset of the first backslash of `body` that starts no known escape, or npos.
size_t find_bad_escape(std::string_view body) {
    for (size_t i = 0; i < body.size(); ++i) {
        if (body[i] != '\\') continue;
        if (std::string_view("nt\\\"").find(body[i + 1]) == std::string_view::npos) return i;
        ++i;
    }
    return std::string_view::npos;
}

}  // namespace

Word classify(std::string_view name) { return reserved_words.find(name); }

bool is_identifier(std::string_view text) {
    if (text.empty() || class_of(text[0]) != letter) return false;
    for (const char c : text) {
        if (!is_word(c)) return false;
    }
    return true;
}

Lexer::Lexer(std::string_view text, uint32_t line, uint32_t column)
    : text_(text), line_(line), first_column_(column) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") pos_ = line_begin_ = 3;  // byte order mark
}

const MetaLine* Lexer::next_meta(size_t offset) {
    if (next_meta_ == metas_.size()) {
        metas_.clear();
        next_meta_ = 0;
        return nullptr;
    }
    return metas_[next_meta_].offset < offset ? &metas_[next_meta_++] : nullptr;
}

void Lexer::skip_comment() {
    const size_t begin = pos_;
    const size_t end = std::min(text_.find('\n', pos_), text_.size());
    pos_ = end;
    // "#!/..." is how an executable script names its interpreter
    if (end - begin >= 2 && text_[begin + 1] == '!' && at(begin + 2) != '/')
        metas_.push_back({text_.substr(begin + 2, end - begin - 2), line_,
                          static_cast<uint32_t>(begin + 2 - line_begin_) + first_column_, begin});
}

void Lexer::skip_blanks() {
    const char* const text = text_.data();
    const size_t size = text_.size();
    size_t i = pos_;
    for (; i < size; ++i) {
        const char c = text[i];
        if (c == ' ') continue;
        if (c == '\n') {
            ++line_;
            line_begin_ = i + 1;
            first_column_ = 1;
            line_start_ = true;
        } else if (class_of(c) == comment) {
            pos_ = i;
            skip_comment();
            i = pos_ - 1;
        } else if (class_of(c) != blank) {
            break;
        }
    }
    pos_ = i;
}

void Lexer::fill() {
    const char* const text = text_.data();
    const size_t size = text_.size();
    if (pos_ < size && text[pos_] == ' ') ++pos_;  // most tokens follow at once or after one space
    if (pos_ < size && (class_of(text[pos_]) == blank || class_of(text[pos_]) == comment)) skip_blanks();
    const size_t begin = pos_;
    Token& token = ring_[(head_ + filled_) % ring_.size()];
    ++filled_;
    token.word = Word::none;
    token.punct = 0;
    token.line = line_;
    token.column = static_cast<uint32_t>(begin - line_begin_) + first_column_;
    token.offset = static_cast<uint32_t>(begin);
    token.line_start = line_start_;
    line_start_ = false;
    if (begin >= size) {
        token.kind = TokenKind::end;
        token.text = {};
        return;
    }
    const char c = text[begin];
    const CharClass first = class_of(c);
    if (first == letter) {
        size_t end = begin + 1;
        while (end < size && is_word(text[end])) ++end;
        pos_ = end;
        token.kind = TokenKind::name;
        token.text = {text + begin, end - begin};
        token.word = classify(token.text);
        return;
    }
    if (first == punctuation) {
        token.punct = c;
        token.kind = c == '.' && at(begin + 1) == '.' ? TokenKind::dots : TokenKind::punct;
        pos_ = begin + (token.kind == TokenKind::dots ? 2 : 1);
    } else {
        scan_rest(token);
    }
    token.text = {text + begin, pos_ - begin};
}

/// Tokens other than names and punctuation.
void Lexer::scan_rest(Token& token) {
    const char c = text_[pos_];
    if (class_of(c) == digit) {
        scan_number(token);
        return;
    }
    if (c == '"') {
        scan_string(token);
        return;
    }
    // One token for a run of bytes that no token starts with: one error, not one per byte.
    token.kind = TokenKind::bad;
    do {
        ++pos_;
    } while (pos_ < text_.size() && class_of(text_[pos_]) == other && text_[pos_] != '"');
}

void Lexer::scan_number(Token& token) {
    token.kind = TokenKind::integer;
    while (class_of(at(pos_)) == digit) ++pos_;
    if (at(pos_) == '.' && class_of(at(pos_ + 1)) == digit) {
        token.kind = TokenKind::real;
        ++pos_;
        while (class_of(at(pos_)) == digit) ++pos_;
        if (at(pos_) == 'e' || at(pos_) == 'E') {
            const size_t sign = at(pos_ + 1) == '+' || at(pos_ + 1) == '-' ? 1 : 0;
            if (class_of(at(pos_ + 1 + sign)) == digit) {
                pos_ += 1 + sign;
                while (class_of(at(pos_)) == digit) ++pos_;
            }
        }
    }
    if (!is_word(at(pos_))) return;
    token.kind = TokenKind::bad;  // 0x10, 1e-5, 3rd
    while (is_word(at(pos_))) ++pos_;
}

void Lexer::scan_string(Token& token) {
    token.kind = TokenKind::string;
    ++pos_;
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
        pos_ += text_[pos_] == '\\' && pos_ + 1 < text_.size() && text_[pos_ + 1] != '\n' ? 2 : 1;
    }
    if (at(pos_) != '"' || pos_ >= text_.size()) {
        token.kind = TokenKind::bad;
        return;
    }
    ++pos_;
    const std::string_view body = text_.substr(token.offset + 1, pos_ - token.offset - 2);
    if (body.find('\0') != std::string_view::npos || !is_valid_utf8(body) ||
        find_bad_escape(body) != std::string_view::npos)
        token.kind = TokenKind::bad;
}

std::string describe_bad(const Token& token) {
    const char first = token.text[0];
    if (first == '"') {
        if (token.text.size() < 2 || token.text.back() != '"')
            return "unterminated string. Fix: close it with \" on the same line";
        const std::string_view body = token.text.substr(1, token.text.size() - 2);
        if (body.find('\0') != std::string_view::npos) return "NUL byte in a string. Fix: remove it";
        if (!is_valid_utf8(body)) return "string is not valid UTF-8. Fix: save the file as UTF-8";
        return "unknown escape in a string. Fix: use \\n, \\t, \\\\ or \\\"";
    }
    if (class_of(first) == digit)
        return fmt::format(
            "`{}` is not a number. Fix: write decimal digits; a float has digits on both sides of "
            "its dot (1.0e-5)",
            token.text.substr(0, 40));
    if (first == '\0') return "NUL byte outside a comment. Fix: the file must be text; remove it";
    const auto byte = static_cast<uint8_t>(first);
    if (byte > 0x20 && byte < 0x7F) return fmt::format("unexpected character `{}`. Fix: remove it", first);
    return fmt::format(
        "unexpected byte 0x{:02x} outside a comment or string. Fix: names are ASCII letters, digits "
        "and _",
        byte);
}

std::string string_value(const Token& token) {
    std::string value;
    value.reserve(token.text.size());
    for (size_t i = 1; i + 1 < token.text.size(); ++i) {
        char c = token.text[i];
        if (c == '\\') {
            c = token.text[++i];
            if (c == 'n') c = '\n';
            if (c == 't') c = '\t';
        }
        value += c;
    }
    return value;
}

std::string quoted(const Token& token) {
    if (token.kind == TokenKind::end) return "the end of the file";
    constexpr size_t limit = 40;
    if (token.text.size() > limit && is_valid_utf8(token.text.substr(0, limit)))
        return fmt::format("`{}...`", token.text.substr(0, limit));
    return token.text.size() > limit ? "a long string" : fmt::format("`{}`", token.text);
}

}  // namespace kpu::nem
