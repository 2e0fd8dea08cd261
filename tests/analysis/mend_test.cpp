#include "analysis/mend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/text_program.hpp"

namespace kpu::analysis {
namespace {

using ::testing::HasSubstr;

TEST(Mend, AddsDependenciesAndNarrowsWindows) {
    // A missing token and a window too wide: one change each, and the checker finds nothing more.
    const Mended mended = mend(kpu::bind(test::module_of(R"(buffer X : DDR (size = 4096)
buffer Y : DDR (size = 4096)
buffer T : L2 (size = 128)
loop i in [0..63] @max_in_flight(3):
    load = transfer.async(dst=region(T, i mod 2 * 64, 64), src=region(X, i * 64, 64))
    save = store.async(dst=region(Y, i * 64, 64), src=region(T, i mod 2 * 64, 64))
endloop
)"),
                                         {}, {}),
                               {}, {});
    EXPECT_EQ(mended.changes, 2u);
    EXPECT_TRUE(mended.left.findings.empty());
    const std::string text = nem::print(*mended.module);
    EXPECT_THAT(text, HasSubstr("@max_in_flight(2)"));
    EXPECT_THAT(text, HasSubstr("deps=[load]"));
    EXPECT_EQ(test::findings_of(text), "") << "what is printed is what was checked";
}

TEST(Mend, CarriesTheTokenOfASum) {
    // Each step adds to what the one before left: it needs its token, and the window stays.
    const Mended mended = mend(kpu::bind(test::module_of(R"(buffer X : L2 (size = 64)
buffer S : L1[0] (size = 64)
let s = region(S, 0, 64) elem=i8, shape=[64], strides=[1]
a = transfer.async(dst=region(S, 0, 64), src=region(X, 0, 64))
loop k in [0..7] @max_in_flight(4):
    add.async in s, s out s deps=[a]
endloop
)"),
                                         {}, {}),
                               {}, {});
    EXPECT_EQ(mended.changes, 1u);
    EXPECT_TRUE(mended.left.findings.empty());
    const std::string text = nem::print(*mended.module);
    EXPECT_THAT(text, HasSubstr("#! deps done1[k-1]"));
    EXPECT_THAT(text, HasSubstr("@max_in_flight(4)"));
    EXPECT_EQ(test::findings_of(text), "");
}

TEST(Mend, NamesTasksThatHaveNoToken) {
    // A token is needed where the program gave none; the name is new.
    const Mended mended = mend(kpu::bind(test::module_of(R"(buffer done1 : DDR (size = 64)
buffer T : L2 (size = 64)
transfer.async(dst=region(T, 0, 64), src=region(done1, 0, 64))
transfer.async(dst=region(T, 0, 64), src=region(done1, 0, 64))
)"),
                                         {}, {}),
                               {}, {});
    EXPECT_EQ(mended.changes, 1u);
    EXPECT_THAT(nem::print(*mended.module), HasSubstr("deps=[done2]"));
}

TEST(Mend, LeavesWhatItCannotMend) {
    // Bytes that nobody writes need a writer, which no dependency gives.
    const Mended mended = mend(kpu::bind(test::module_of(R"(buffer Y : DDR (size = 64)
buffer T : L1[0] (size = 64)
save = transfer.async(dst=region(Y, 0, 64), src=region(T, 0, 64))
)"),
                                         {}, {}),
                               {}, {});
    EXPECT_EQ(mended.changes, 0u);
    ASSERT_EQ(mended.left.findings.size(), 1u);
    EXPECT_EQ(mended.left.findings[0].kind, FindingKind::uninitialised);
}

}  // namespace
}  // namespace kpu::analysis
