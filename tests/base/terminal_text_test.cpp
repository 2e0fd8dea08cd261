#include "base/terminal_text.hpp"

#include <gtest/gtest.h>

namespace kpu {
namespace {

// Letters of every script, signs, line feeds and tabs stay.
TEST(TerminalText, Plain) {
    for (const char* text :
         {"", "conv1 (Conv)\n\tnext", "Größe", "层", "слой", "طبقة", "█▓▒░·", "e\u0301", "\U0001f600"})
        EXPECT_EQ(terminal_text(text), text);
}

// Controls of 7 and 8 bits, marks of direction and of no width, line separators, tags.
TEST(TerminalText, Hidden) {
    EXPECT_EQ(terminal_text("a\x1b[31mb"), "a\\x1b[31mb");
    EXPECT_EQ(terminal_text(std::string_view("\0\a\b\r\x7f", 5)), "\\x00\\x07\\x08\\x0d\\x7f");
    EXPECT_EQ(terminal_text("\u0085\u009b"), "\\u0085\\u009b");
    EXPECT_EQ(terminal_text("x\u202ey\u2066z\u200f\u061c"), "x\\u202ey\\u2066z\\u200f\\u061c");
    EXPECT_EQ(terminal_text("\u200b\u200d\u2060\ufeff\u00ad"), "\\u200b\\u200d\\u2060\\ufeff\\u00ad");
    EXPECT_EQ(terminal_text("\u2028\u2029"), "\\u2028\\u2029");
    EXPECT_EQ(terminal_text("\U000e0041"), "\\U000e0041");
}

// Bytes that are no UTF-8, whole or cut off, overlong, surrogates, beyond Unicode: 0x9b is a control of 8-bit terminals.
TEST(TerminalText, NoUtf8) {
    EXPECT_EQ(terminal_text("\x9b"
                            "31m"),
              "\\x9b31m");
    EXPECT_EQ(terminal_text("gr\xfc\xdf"), "gr\\xfc\\xdf");
    EXPECT_EQ(terminal_text("\xe2\x82"), "\\xe2\\x82");
    EXPECT_EQ(terminal_text("\xc0\x9b"), "\\xc0\\x9b");
    EXPECT_EQ(terminal_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");
    EXPECT_EQ(terminal_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(terminal_text("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");
}

}  // namespace
}  // namespace kpu
