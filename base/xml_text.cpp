#include "base/xml_text.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace kpu {
namespace {

/// True for the production Char of XML 1.0; surrogates are no UTF-8.
bool is_allowed(uint32_t code) {
    if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
    return code != 0xfffe && code != 0xffff;
}

/// Returns the reference to write for a character that means something else as itself: markup, and white
/// space, which attributes turn into blanks and line ends into others. Null: the character stands for itself.
const char* reference(uint32_t code) {
    switch (code) {
        case '&':
            return "&amp;";
        case '<':
            return "&lt;";
        case '>':
            return "&gt;";
        case '"':
            return "&quot;";
        case '\t':
            return "&#9;";
        case '\n':
            return "&#10;";
        case '\r':
            return "&#13;";
        default:
            return nullptr;
    }
}

}  // namespace

std::string xml_text(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t at = 0; at < text.size();) {
        const Utf8Character next = utf8_character(text.substr(at));
        const char* written = reference(next.code);
        if (next.size == 0 || !is_allowed(next.code))
            out += "\xef\xbf\xbd";
        else if (written != nullptr)
            out += written;
        else
            out += text.substr(at, next.size);
        at += std::max<size_t>(next.size, 1);
    }
    return out;
}

}  // namespace kpu
