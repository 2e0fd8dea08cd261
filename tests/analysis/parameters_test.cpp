// Parameters: a schedule is checked for every value that they may have, or says which it was checked for.
#include "analysis/parameters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/text_program.hpp"

namespace kpu::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> messages(const std::string& text, const ParamBindings& given = {}) {
    const auto module = test::module_of(text);
    const DeviceLimits limits;
    const ScheduleReport report =
        check_other_values(module, given, limits, check_schedule(kpu::bind(module, given, limits), limits));
    std::vector<std::string> all;
    for (const Finding& finding : report.findings) all.push_back(finding.message);
    return all;
}

/// Two iterations in flight, slot i mod T.
std::string slots(const std::string& params) {
    return params + R"(buffer X : DDR (size = 4096)
buffer M : L2 (size = 65536)
loop i in [0..9] @max_in_flight(2):
    t = transfer.async(dst=region(M, (i mod T) * 64, 64), src=region(X, i * 64, 64))
endloop
)";
}

// The default is safe and one slot is not: the finding names the value, once.
TEST(Parameters, EveryValueIsChecked) {
    const auto found = messages(slots("#! param T = 2 in [1..64]\n"));
    const auto races = std::count_if(found.begin(), found.end(), [](const std::string& message) {
        return message.find("hazard") != std::string::npos;
    });
    EXPECT_EQ(races, 1);
    EXPECT_THAT(found, testing::Contains(StartsWith("with T = 1: hazard (waw): task `t` (i=1)")));
    EXPECT_THAT(found, testing::Not(testing::Contains(HasSubstr("not proved"))));
}

// A value that is given is the only one.
TEST(Parameters, GivenValuesStay) {
    for (const auto& message : messages(slots("#! param T = 2 in [1..64]\n"), {{"T", 3}}))
        EXPECT_THAT(message, testing::Not(HasSubstr("T =")));
    EXPECT_THAT(messages(slots("#! param T = 2 in [1..64]\n"), {{"T", 1}}),
                testing::Contains(StartsWith("hazard (waw)")));
}

// Findings of the default are told once, without a value.
TEST(Parameters, FindingsOfTheDefaultComeFirst) {
    const auto found = messages(slots("#! param T = 1 in [1..3]\n"));
    ASSERT_FALSE(found.empty());
    EXPECT_THAT(found[0], StartsWith("hazard (waw)"));
    EXPECT_THAT(found, testing::Not(testing::Contains(HasSubstr("with T"))));
}

// Too many values: the ends and the neighbours of the default, and it says so.
TEST(Parameters, TooManyValuesAreNotProved) {
    const auto found = messages(slots("#! param T = 500 in [1..1000]\n"));
    EXPECT_THAT(found, testing::Contains(StartsWith("with T = 1: hazard (waw)")));
    EXPECT_THAT(found, testing::Contains(HasSubstr(
                           "not proved: parameters may have 1000 values, too many to check each. Checked, "
                           "one parameter at a time: T = 1, 499, 500, 501, 1000.")));
    const auto huge = messages(
        slots("#! param T = 2 in [1..9223372036854775807]\n#! param U = 0 in [-9223372036854775807..9]\n"));
    EXPECT_THAT(huge, testing::Contains(HasSubstr("may have over 10^19 values")));
}

// More parameters than there are checks: those that were left out are not named as checked.
TEST(Parameters, OnlyWhatWasCheckedIsNamed) {
    std::string params = "#! param T = 2 in [1..1000]\n";
    for (int i = 0; i < 30; ++i) params += "#! param P" + std::to_string(i) + " = 5 in [0..9]\n";
    const auto found = messages(slots(params));
    EXPECT_THAT(found,
                testing::Contains(AllOf(HasSubstr("T = 1, 2, 3, 1000;"), HasSubstr("P0 = 0, 4, 5, 6, 9;"),
                                        HasSubstr("P29 = 5. Fix:"))));
}

// Two parameters: every pair of values.
TEST(Parameters, PairsOfValues) {
    const std::string text = R"(#! param T = 2 in [1..3]
#! param W = 1 in [0..1]
buffer X : DDR (size = 4096)
buffer M : L2 (size = 65536)
loop i in [0..9] @max_in_flight(2):
    t = transfer.async(dst=region(M, (i mod (T + W)) * 64, 64), src=region(X, i * 64, 64))
endloop
)";
    const auto found = messages(text);
    EXPECT_THAT(found, testing::Contains(StartsWith("with T = 1, W = 0: hazard (waw)")));
}

// Values for which the program does not load.
TEST(Parameters, RefusedValues) {
    const auto found = messages(R"(#! param T = 1 in [0..5]
buffer X : DDR (size = 4096)
buffer M : L2 (size = 128)
t = transfer.async(dst=region(M, T * 64, 64), src=region(X, 0, 64))
)");
    EXPECT_THAT(found, testing::Contains(AllOf(
                           StartsWith("4 of the values that parameters may have are refused, the first with "
                                      "T = 2: "),
                           HasSubstr("ends at byte 192"))));
}

}  // namespace
}  // namespace kpu::analysis
