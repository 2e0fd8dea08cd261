#include "base/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

std::string error_of(std::string_view text) {
    try {
        parse_json(text);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

TEST(Json, TextsComeBack) {
    const std::string text = R"({"a":[1,-2,0.5,null,true],"b":"\u00e4\n"})";
    const nlohmann::json value = parse_json(text);
    EXPECT_EQ(value["b"], "ä\n");
    EXPECT_EQ(parse_json(json_text(value)), value);
    EXPECT_EQ(parse_json(json_text(value, 2)), value);
    EXPECT_EQ(json_text(value, 2).substr(0, 8), "{\n  \"a\":");
}

TEST(Json, OtherTextsAreRefused) {
    EXPECT_EQ(error_of(""), "no JSON at byte 1");
    EXPECT_EQ(error_of("{\"a\": }"), "no JSON at byte 7");
    EXPECT_EQ(error_of("[1e999]"), "a number beyond double");
    EXPECT_THAT(error_of(std::string(1'000'000, '[')), testing::HasSubstr("no JSON"));
}

TEST(Json, BytesThatAreNoText) {
    EXPECT_EQ(json_quoted("a\"b\xff"), "\"a\\\"b\xef\xbf\xbd\"");
    EXPECT_THROW(exact_json_text("\xff"), UserError);
    EXPECT_EQ(exact_json_text("ok"), "\"ok\"");
}

/// The short way gives what the long one gives, for every character in every place.
TEST(Json, QuotedAsAnyDocument) {
    for (int code = 0; code < 256; ++code) {
        const auto c = static_cast<char>(code);
        for (const std::string& text : {std::string(1, c), "a" + std::string(1, c), std::string(1, c) + "b"})
            EXPECT_EQ(json_quoted(text), json_text(nlohmann::json(text))) << code;
    }
    EXPECT_EQ(json_quoted(""), "\"\"");
}

}  // namespace
}  // namespace kpu
