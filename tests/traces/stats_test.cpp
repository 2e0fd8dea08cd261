#include "traces/stats.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

#include "base/diagnostics.hpp"
#include "traces/event.hpp"

namespace kpu::traces {
namespace {

// stats.json is valid JSON of the documented shape, sorted, and gives back every value exactly.
TEST(Stats, JsonHasTheDocumentedShapeAndExactValues) {
    StatSet stats;
    stats.set("b.real", 0.1, "W", "a \"quoted\" meaning");
    stats.set("a.integer", uint64_t{18446744073709551615u}, "cycle", "large");
    stats.set("c.whole", 12.0, "W", "a real without fraction");
    const std::string text = stats.to_json(false);
    const auto json = nlohmann::json::parse(text);
    EXPECT_EQ(json["schema"], 1);
    EXPECT_EQ(json["complete"], false);
    EXPECT_EQ(json["stats"]["a.integer"]["value"].get<uint64_t>(), 18446744073709551615u);
    EXPECT_EQ(json["stats"]["b.real"]["value"].get<double>(), 0.1);
    EXPECT_EQ(json["stats"]["b.real"]["unit"], "W");
    EXPECT_EQ(json["stats"]["b.real"]["meaning"], "a \"quoted\" meaning");
    EXPECT_TRUE(json["stats"]["c.whole"]["value"].is_number_float());
    EXPECT_LT(text.find("a.integer"), text.find("b.real"));
    EXPECT_THAT(text, testing::HasSubstr("\"value\": 0.1,"));
}

// Real numbers are written in the shortest form that reads back equal.
TEST(Stats, RealTextIsShortestAndRoundTrips) {
    EXPECT_EQ(real_text(0.1), "0.1");
    EXPECT_EQ(real_text(3), "3.0");
    EXPECT_EQ(real_text(0), "0.0");
    for (const double value : {1e-300, 1.0 / 3, 6.02214076e23, 123456789012345680.0, 5e-324}) {
        EXPECT_EQ(std::strtod(real_text(value).c_str(), nullptr), value);
    }
}

// A statistic that is not finite or does not exist is our bug, not a number in a file.
TEST(Stats, RefusesWhatIsNotFiniteOrAbsent) {
    StatSet stats;
    EXPECT_THROW(stats.set("x", std::nan(""), "W", ""), InternalError);
    EXPECT_THROW(stats.integer("x"), InternalError);
    stats.set("n", uint64_t{3}, "count", "");
    EXPECT_EQ(stats.real("n"), 3.0);
    stats.set("r", 1.5, "W", "");
    EXPECT_THROW(stats.integer("r"), InternalError);
}

// Every cause has a distinct name in a known group and a sentence of meaning.
TEST(Causes, NamesAreDistinctAndGroupsKnown) {
    std::set<std::string_view> names;
    for (int i = 0; i < cause_count; ++i) {
        const auto cause = static_cast<Cause>(i);
        EXPECT_TRUE(names.insert(full_name_of(cause)).second);
        EXPECT_THAT(group_of(cause), testing::AnyOf("busy", "stalled", "idle"));
        EXPECT_EQ(meaning_of(cause).back(), '.');
        EXPECT_EQ(is_device_cause(cause), i >= unit_cause_count && cause != Cause::unattributed);
    }
    EXPECT_EQ(full_name_of(Cause::stalled_operand_dram_bandwidth), "stalled.operand_dram_bandwidth");
    EXPECT_EQ(name_of(Cause::device_stalled_memory), "memory");
}

}  // namespace
}  // namespace kpu::traces
