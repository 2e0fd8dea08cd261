#include "base/json_document.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/name_index.hpp"

namespace kpu {
namespace {

/// Returns the value as the library that owns its parts would have it.
nlohmann::json owned(const JsonValue& value) {
    if (value.is_boolean()) return value.boolean();
    if (value.is_integer()) return value.integer();
    if (value.is_string()) return std::string(value.string());
    if (value.is_array()) {
        auto list = nlohmann::json::array();
        for (const JsonValue one : value) list.push_back(owned(one));
        EXPECT_EQ(list.size(), value.size());
        return list;
    }
    if (value.is_object()) {
        auto object = nlohmann::json::object();
        for (auto item = value.begin(), last = value.end(); item != last; ++item)
            object[std::string(item.key())] = owned(item.value());
        return object;
    }
    return nullptr;
}

/// Numbers with a point are not looked at.
nlohmann::json without_reals(nlohmann::json value) {
    if (value.is_number_float()) return nullptr;
    if (value.is_number_unsigned()) return value.get<int64_t>();
    if (value.is_structured())
        for (auto& one : value) one = without_reals(std::move(one));
    return value;
}

/// Checks that both readers accept a text, or neither; and read the same.
void compare(const std::string& text) {
    const auto document = JsonDocument::parse(text);
    const auto expected = nlohmann::json::parse(text, nullptr, false);
    ASSERT_EQ(document == nullptr, expected.is_discarded()) << text;
    if (document != nullptr) {
        EXPECT_EQ(owned(document->root()), without_reals(expected)) << text;
    }
}

TEST(JsonDocument, ReadsWhatTheLibraryReads) {
    for (const char* text : {"",
                             " ",
                             "1",
                             "-0",
                             "01",
                             "+1",
                             "-",
                             "1.",
                             ".5",
                             "1.5",
                             "1e5",
                             "1E+05",
                             "1e",
                             "1e400",
                             "-1e400",
                             "1e-400",
                             "9223372036854775807",
                             "-9223372036854775808",
                             "18446744073709551615",
                             "99999999999999999999",
                             "\"a\"",
                             "\"a",
                             "\"\\n\\\"\\\\\\/\\b\\f\\r\\t\"",
                             "\"\\x\"",
                             "\"\\u00e9\\u20ac\"",
                             "\"\\ud83d\\ude00\"",
                             "\"\\ud83d\"",
                             "\"\\ude00\"",
                             "\"\\u12g4\"",
                             "\"\\u+123\"",
                             "\"\xc3\xa9\"",
                             "\"\xe2\x82\xac\"",
                             "\"\xf0\x9f\x98\x80\"",
                             "\"\xc3\"",
                             "\"\xc0\x80\"",
                             "\"\xed\xa0\x80\"",
                             "\"\xf4\x90\x80\x80\"",
                             "\"\xff\"",
                             "\"a\tb\"",
                             "\"\x7f\"",
                             "[]",
                             "[ ]",
                             "[1,2]",
                             "[1,]",
                             "[,1]",
                             "[1 2]",
                             "[1",
                             "]",
                             "[[],[[]]]",
                             "{}",
                             "{ }",
                             "{\"a\":1}",
                             "{\"a\":1,}",
                             "{\"a\"}",
                             "{a:1}",
                             "{\"a\":1 \"b\":2}",
                             "{\"a\":1,\"a\":2}",
                             "{\"\":[{}]}",
                             "{\"a\":{\"b\":[1,{\"c\":null}]}}",
                             "true",
                             "tru",
                             "truee",
                             "false",
                             "null",
                             "nul",
                             "[true,false,null]",
                             "1 2",
                             "[]]",
                             "\xEF\xBB\xBF[1]",
                             "\xEF\xBB[1]",
                             "/**/1",
                             "[\f1]",
                             " \r\n\t[ 1 , 2 ] \n"})
        compare(text);
    compare(std::string("\0", 1));
    compare(std::string("[1\0]", 4));
}

TEST(JsonDocument, ReadsMutatedTextsAsTheLibraryDoes) {
    const std::string good =
        R"({"a": [1, -2, 3.5e2, "x\u00e9\n\"", true, null], "b": {"c": [], "d": {}, "e": "é€"}, "f": [[[0]]]})";
    std::mt19937 random(1);
    const std::string pieces = "{}[]\",:0123456789.eE+-\\u truefalsn\xc3\xa9\x80";
    for (int i = 0; i < 20000; ++i) {
        std::string text = good;
        for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
            const size_t at = random() % text.size();
            const char piece = pieces[random() % pieces.size()];
            switch (random() % 3) {
                case 0:
                    text[at] = piece;
                    break;
                case 1:
                    text.insert(at, 1, piece);
                    break;
                default:
                    text.erase(at, 1);
            }
        }
        compare(text);
    }
}

TEST(JsonDocument, FindsMembersAndLooksIntoNothing) {
    const auto document = JsonDocument::parse(R"({"a": 1, "b": {"a": [2]}, "a": 3})");
    ASSERT_NE(document, nullptr);
    const JsonValue root = document->root();
    EXPECT_EQ(root.size(), 3U);
    EXPECT_EQ(root.find("a").integer(), 3);
    EXPECT_EQ((*root.find("b").find("a").begin()).integer(), 2);
    const JsonValue none = root.find("c");
    EXPECT_FALSE(none);
    EXPECT_FALSE(none.find("a"));
    EXPECT_FALSE(none.is_integer() || none.is_string() || none.is_array() || none.is_object());
    EXPECT_EQ(none.size(), 0U);
    for (const JsonValue one : none) ADD_FAILURE() << one.size();
    EXPECT_FALSE(root.find("b").find("a").find("a"));
}

TEST(JsonDocument, IsNotRecursive) {
    const std::string deep(1 << 20, '[');
    EXPECT_EQ(JsonDocument::parse(deep), nullptr);
    EXPECT_NE(JsonDocument::parse(deep + std::string(1 << 20, ']')), nullptr);
}

struct Row {
    std::string_view name;
    int number;
};

TEST(NameIndex, FindsEveryRowAndNothingElse) {
    std::vector<std::string> names;
    std::vector<Row> named;
    for (int i = 0; i < 200; ++i) names.push_back("n" + std::to_string(i * 7919));
    names.push_back("a");
    for (size_t i = 0; i < names.size(); ++i) named.push_back({names[i], static_cast<int>(i)});
    named.push_back({"", -1});
    named.push_back({"a", -1});  // the first counts
    const NameIndex<Row> index(named, &Row::name);
    for (size_t i = 0; i < names.size(); ++i) {
        ASSERT_NE(index.find(names[i]), nullptr) << names[i];
        EXPECT_EQ(index.find(names[i])->number, static_cast<int>(i));
    }
    for (const char* none : {"", "b", "n", "n1", "aa"}) EXPECT_EQ(index.find(none), nullptr) << none;
}

}  // namespace
}  // namespace kpu
