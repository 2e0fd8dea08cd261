// RFC 8259. Arrays and objects that are open stand on a stack of their own, so that no text makes the parser recurse.
#include "base/json_document.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

namespace kpu {

namespace {

/// Characters that stand in a string for themselves, each a byte.
constexpr std::array<bool, 256> make_plain() {
    std::array<bool, 256> plain{};
    for (unsigned c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
    return plain;
}
constexpr std::array<bool, 256> plain = make_plain();

}  // namespace

class JsonParser {
  public:
    explicit JsonParser(JsonDocument& document)
        : document_(document),
          nodes_(document.nodes_),
          at_(document.text_.data()),
          end_(at_ + document.text_.size()) {}

    bool run() {
        if (end_ - at_ >= 3 && std::string_view(at_, 3) == "\xEF\xBB\xBF") at_ += 3;  // a byte order mark
        if (document_.text_.size() >= std::numeric_limits<uint32_t>::max()) return false;
        nodes_.reserve(std::min<size_t>(document_.text_.size() / 4, 1 << 16));  // numbers of a digit or two
        for (;;) {
            if (!value()) return false;
            // `value` has begun an array or object that is not empty, or has ended one or more values
            if (std::exchange(began_, false)) continue;
            for (;;) {
                blanks();
                if (open_.empty()) return at_ == end_;
                if (at_ == end_) return false;
                const char c = *at_++;
                Node& whole = nodes_[open_.back()];
                ++whole.size;
                const bool object = whole.kind == Kind::object;
                if (c == ',') {
                    blanks();
                    if (object && !key()) return false;
                    break;
                }
                if (c != (object ? '}' : ']')) return false;
                whole.after = static_cast<uint32_t>(nodes_.size());
                open_.pop_back();
            }
        }
    }

  private:
    using Node = JsonDocument::Node;
    using Kind = JsonDocument::Kind;

    void blanks() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    }
    Node& add(Kind kind) {
        Node& node = nodes_.emplace_back();
        node.kind = kind;
        return node;
    }
    bool word(std::string_view text, Kind kind, int64_t value) {
        if (std::string_view(at_, static_cast<size_t>(end_ - at_)).substr(0, text.size()) != text)
            return false;
        at_ += text.size();
        add(kind).integer = value;
        return true;
    }

    bool value() {
        blanks();
        if (at_ == end_) return false;
        switch (*at_) {
            case '{':
            case '[':
                return begin(*at_ == '{');
            case '"':
                return string();
            case 't':
                return word("true", Kind::boolean, 1);
            case 'f':
                return word("false", Kind::boolean, 0);
            case 'n':
                return word("null", Kind::null, 0);
            default:
                return number();
        }
    }

    bool begin(bool object) {
        Node& whole = add(object ? Kind::object : Kind::array);
        whole.after = static_cast<uint32_t>(nodes_.size());
        ++at_;
        blanks();
        if (at_ == end_) return false;
        if (*at_ == (object ? '}' : ']')) {
            ++at_;
            return true;
        }
        open_.push_back(static_cast<uint32_t>(nodes_.size() - 1));
        began_ = true;
        return !object || key();
    }
    bool key() {
        if (at_ == end_ || *at_ != '"' || !string()) return false;
        blanks();
        if (at_ == end_ || *at_ != ':') return false;
        ++at_;
        return true;
    }

    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    bool digits() {
        if (at_ == end_ || !is_digit(*at_)) return false;
        while (at_ != end_ && is_digit(*at_)) ++at_;
        return true;
    }
    /// Numbers of so few digits that none overflows, which nearly all are.
    bool small_number() {
        const char* at = at_;
        const bool negative = *at == '-';
        at += negative ? 1 : 0;
        const char* const first = at;
        int64_t value = 0;
        for (; at != end_ && is_digit(*at) && at - first < 18; ++at) value = value * 10 + (*at - '0');
        const ptrdiff_t count = at - first;
        if (count == 0 || (count > 1 && *first == '0')) return false;
        if (at != end_ && (is_digit(*at) || *at == '.' || *at == 'e' || *at == 'E')) return false;
        add(Kind::integer).integer = negative ? -value : value;
        at_ = at;
        return true;
    }
    bool number() {
        if (small_number()) return true;
        const char* const first = at_;
        const bool negative = *at_ == '-';
        if (negative) ++at_;
        if (at_ == end_) return false;
        if (*at_ == '0')
            ++at_;
        else if (!digits())
            return false;
        bool whole = true;
        if (at_ != end_ && *at_ == '.') {
            whole = false;
            ++at_;
            if (!digits()) return false;
        }
        if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
            whole = false;
            ++at_;
            if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
            if (!digits()) return false;
        }
        if (whole) {
            int64_t number = 0;
            uint64_t large = 0;
            if (std::from_chars(first, at_, number).ec == std::errc()) {
                add(Kind::integer).integer = number;
                return true;
            }
            if (!negative && std::from_chars(first, at_, large).ec == std::errc()) {
                add(Kind::integer).integer = static_cast<int64_t>(large);
                return true;
            }
        }
        double real = 0;
        const std::from_chars_result read = std::from_chars(first, at_, real);
        // what is too small is 0, or nearly so
        if (read.ec == std::errc::result_out_of_range)
            real = std::strtod(std::string(first, at_).c_str(), nullptr);
        if (!std::isfinite(real)) return false;
        add(Kind::real);
        return true;
    }

    /// Up to the quotation mark behind it.
    bool string() {
        const char* const first = ++at_;
        for (;;) {
            while (at_ != end_ && plain[static_cast<unsigned char>(*at_)]) ++at_;
            if (at_ == end_ || *at_ == '"' || *at_ == '\\') break;
            if (!utf8()) return false;  // control characters too
        }
        if (at_ == end_) return false;
        std::string_view text(first, static_cast<size_t>(at_ - first));
        if (*at_ == '\\') {
            std::string& own = document_.unescaped_.emplace_back(text);
            if (!escaped(own)) return false;
            text = own;
        }
        ++at_;
        Node& node = add(Kind::string);
        node.text = text.data();
        node.size = static_cast<uint32_t>(text.size());
        return true;
    }
    bool escaped(std::string& text) {
        while (at_ != end_ && *at_ != '"') {
            const auto c = static_cast<unsigned char>(*at_);
            if (c == '\\') {
                ++at_;
                if (!escape(text)) return false;
                continue;
            }
            const char* const first = at_;
            if (c < 0x20 || (c < 0x80 ? (++at_, false) : !utf8())) return false;
            text.append(first, at_);
        }
        return at_ != end_;
    }
    bool escape(std::string& text) {
        if (at_ == end_) return false;
        switch (const char c = *at_++) {
            case '"':
            case '\\':
            case '/':
                text += c;
                return true;
            case 'b':
                text += '\b';
                return true;
            case 'f':
                text += '\f';
                return true;
            case 'n':
                text += '\n';
                return true;
            case 'r':
                text += '\r';
                return true;
            case 't':
                text += '\t';
                return true;
            case 'u':
                return code_point(text);
            default:
                return false;
        }
    }
    bool hex(uint32_t& code) {
        if (end_ - at_ < 4) return false;
        const auto read = std::from_chars(at_, at_ + 4, code, 16);
        if (read.ec != std::errc() || read.ptr != at_ + 4) return false;
        at_ += 4;
        return true;
    }
    bool code_point(std::string& text) {
        uint32_t code = 0, low = 0;
        if (!hex(code)) return false;
        if (code >= 0xD800 && code <= 0xDFFF) {  // the first of a pair
            if (code >= 0xDC00 || end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return false;
            at_ += 2;
            if (!hex(low) || low < 0xDC00 || low > 0xDFFF) return false;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        const auto put = [&](uint32_t bits) { text += static_cast<char>(bits); };
        if (code < 0x80) {
            put(code);
        } else if (code < 0x800) {
            put(0xC0 | code >> 6);
            put(0x80 | (code & 0x3F));
        } else if (code < 0x10000) {
            put(0xE0 | code >> 12);
            put(0x80 | (code >> 6 & 0x3F));
            put(0x80 | (code & 0x3F));
        } else {
            put(0xF0 | code >> 18);
            put(0x80 | (code >> 12 & 0x3F));
            put(0x80 | (code >> 6 & 0x3F));
            put(0x80 | (code & 0x3F));
        }
        return true;
    }

    /// One character of more than a byte: RFC 3629, section 4.
    bool utf8() {
        const auto byte = [&](ptrdiff_t i) {
            return i < end_ - at_ ? static_cast<unsigned char>(at_[i]) : 0u;
        };
        const auto tail = [&](ptrdiff_t i) { return (byte(i) & 0xC0) == 0x80; };
        const unsigned first = byte(0), second = byte(1);
        ptrdiff_t length = 0;
        if (first >= 0xC2 && first <= 0xDF)
            length = 2;
        else if (first >= 0xE0 && first <= 0xEF)
            length = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ? 0 : 3;
        else if (first >= 0xF0 && first <= 0xF4)
            length = (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F) ? 0 : 4;
        for (ptrdiff_t i = 1; i < length; ++i)
            if (!tail(i)) return false;
        at_ += length;
        return length > 0;
    }

    JsonDocument& document_;
    std::vector<Node>& nodes_;
    const char* at_;
    const char* const end_;
    std::vector<uint32_t> open_;  ///< nodes of the arrays and objects around the next value
    bool began_ = false;
};

std::shared_ptr<const JsonDocument> JsonDocument::parse(std::string text) {
    const auto document = std::make_shared<JsonDocument>();
    document->text_ = std::move(text);
    return JsonParser(*document).run() ? document : nullptr;
}

const JsonDocument::Node JsonDocument::no_node{};

JsonValue JsonDocument::root() const { return {this, 0}; }

JsonValue JsonValue::find(std::string_view key) const {
    JsonValue found;
    if (!is_object()) return found;
    for (Iterator at = begin(), last = end(); at != last; ++at)
        if (at.key() == key) found = at.value();
    return found;
}

}  // namespace kpu
