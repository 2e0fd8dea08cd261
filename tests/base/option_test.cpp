#include "base/option.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

using ::testing::HasSubstr;

const std::vector<OptionRow> rows{
    {"name", "a text", ValueKind::text, "nobody"},
    {"source", "a file", ValueKind::file},
    {"count", "a number", ValueKind::integer, "3"},
    {"form", "one of two", ValueKind::choice, "long", {"long", "short"}},
    {"dim", "sizes by name", ValueKind::sizes},
    {"bind", "values by name", ValueKind::pairs},
};

std::string refusal(const GivenOptions& given) {
    try {
        OptionValues(rows, given);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

TEST(Options, HaveTheirDefaults) {
    const OptionValues values(rows, {});
    EXPECT_EQ(values.text("name"), "nobody");
    EXPECT_EQ(values.text("source"), "");
    EXPECT_EQ(values.integer("count"), 3);
    EXPECT_EQ(values.text("form"), "long");
    EXPECT_TRUE(values.sizes("dim").empty());
    EXPECT_TRUE(values.pairs("bind").empty());
}

TEST(Options, TakeWhatIsGivenByKind) {
    const OptionValues values(rows, {{"name", "x"},
                                     {"count", "-4"},
                                     {"form", "short"},
                                     {"dim", "N=1"},
                                     {"dim", "H=-2"},
                                     {"bind", "x=a=b"},
                                     {"bind", "y="}});
    EXPECT_EQ(values.text("name"), "x");
    EXPECT_EQ(values.integer("count"), -4);
    EXPECT_EQ(values.text("form"), "short");
    EXPECT_EQ(values.sizes("dim"), (OptionValues::Sizes{{"N", 1}, {"H", -2}}));
    EXPECT_EQ(values.pairs("bind"), (OptionValues::Pairs{{"x", "a=b"}, {"y", ""}}));
}

TEST(Options, RefuseWhatTheirRowDoesNotTake) {
    EXPECT_THAT(refusal({{"count", "4x"}}), HasSubstr("--count: `4x` is not an integer"));
    EXPECT_THAT(refusal({{"count", "9223372036854775808"}}), HasSubstr("not an integer of 64 bits"));
    EXPECT_THAT(refusal({{"form", "wide"}}),
                HasSubstr("--form does not take `wide`. Fix: give one of long, short."));
    EXPECT_THAT(refusal({{"dim", "N"}}), HasSubstr("--dim takes NAME=INTEGER, not `N`"));
    EXPECT_THAT(refusal({{"dim", "=1"}}), HasSubstr("--dim takes NAME=INTEGER"));
    EXPECT_THAT(refusal({{"dim", "N=one"}}), HasSubstr("`one` is not an integer"));
    EXPECT_THAT(refusal({{"bind", "x"}}), HasSubstr("--bind takes NAME=VALUE, not `x`"));
    EXPECT_THAT(refusal({{"bind", "=1"}}), HasSubstr("--bind takes NAME=VALUE"));
    EXPECT_THAT(refusal({{"nmae", "x"}}), HasSubstr("--nmae is not an option here"));
}

TEST(Options, OfAnotherKindAreABugOfTheReader) {
    const OptionValues values(rows, {});
    EXPECT_THROW(values.integer("name"), InternalError);
    EXPECT_THROW(values.text("nothing"), InternalError);
}

}  // namespace
}  // namespace kpu
