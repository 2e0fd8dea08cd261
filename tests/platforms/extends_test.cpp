// A platform file that gives the changes of another one, and named groups of variants.
#include <algorithm>
#include <fstream>

#include "platforms/variants.hpp"
#include "support.hpp"
#include "tests/temp_folder.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Platform parse(const std::string& text) { return parse_textproto(text, "dev.textproto"); }
std::string extends_error(const std::string& text) {
    return error_of([&] { parse(text); });
}

/// Only what is said differs, and what follows from it: port widths follow the array.
TEST(Extends, KeepsWhatIsNotSaid) {
    const Platform base = load("npm_pro");
    const Platform half = parse(R"(name: "half" extends: "npm_pro" engine { array { rows: 32 } })");
    Platform expected = load("npm_pro", {{"engine.array.rows", "32"}});
    expected.set_name("half");
    EXPECT_FALSE(half.has_extends());
    expected.clear_description();
    Platform same = half;
    same.clear_description();
    EXPECT_EQ(to_textproto(same), to_textproto(expected));
    EXPECT_NE(to_textproto(half), to_textproto(base));
}

/// Rows of rates and costs are found by their key, a new one is added; variants are added once.
TEST(Extends, MergesListsByKey) {
    const Platform base = load("tile32");
    const Platform own = parse(R"(name: "own" extends: "tile32"
        engine { array { rate { type: "i8" relative: 4 } rate { type: "i8xi4" relative: 8 } } }
        variant: "gemm.int4.no_bias" variant: "eltwise<i8>.default")");
    const auto& rates = own.engine(0).array().rate();
    ASSERT_EQ(rates.size(), base.engine(0).array().rate_size() + 1);
    const auto rate = [&](const std::string& type) {
        return std::find_if(rates.begin(), rates.end(), [&](const auto& r) { return r.type() == type; })
            ->relative();
    };
    EXPECT_EQ(rate("i8"), 4);
    EXPECT_EQ(rate("f32"), 1);
    EXPECT_EQ(rate("i8xi4"), 8);
    EXPECT_EQ(own.variant_size(), base.variant_size() + 1);
}

/// One engine more than the base has begins as a copy of the last.
TEST(Extends, AddsEngines) {
    const Platform mixed = parse(R"(name: "mixed" extends: "edge16" engine {} engine { array { rows: 8 } })");
    ASSERT_EQ(mixed.engine_size(), 2);
    EXPECT_EQ(mixed.engine(0).array().rows(), 16u);
    EXPECT_EQ(mixed.engine(1).array().rows(), 8u);
    EXPECT_EQ(mixed.engine(1).l1().size_bytes(), mixed.engine(0).l1().size_bytes());
}

/// Another DRAM device has its own rate and size.
TEST(Extends, AnotherDramHasItsOwnRate) {
    const Platform own = parse(R"(name: "own" extends: "tile32" ddr { device: "DDR5-4800" channels: 3 })");
    EXPECT_EQ(own.ddr().data_rate_mtps(), 4800u);
    EXPECT_EQ(own.ddr().size_bytes(), 3 * (uint64_t{8} << 30));
}

/// Files extend files beside them, over several steps; a circle is an error, not an end without one.
TEST(Extends, FollowsFiles) {
    const test::TempFolder folder;
    const auto write = [&](const std::string& name, const std::string& text) {
        std::ofstream(folder.file(name)) << text;
    };
    write("a.textproto", R"(name: "a" extends: "edge16" clock { core_mhz: 500 })");
    write("b.textproto", R"(name: "b" extends: "a.textproto" l2 { banks: 8 })");
    const Platform b = load(folder.file("b.textproto"));
    EXPECT_EQ(b.clock().core_mhz(), 500);
    EXPECT_EQ(b.l2().banks(), 8u);
    write("c.textproto", R"(name: "c" extends: "d.textproto")");
    write("d.textproto", R"(name: "d" extends: "c.textproto")");
    EXPECT_THAT(error_of([&] { load(folder.file("c.textproto")); }),
                AllOf(HasSubstr("goes in a circle"), HasSubstr("Fix:")));
}

/// Errors name the file and line of the change; a name is not inherited.
TEST(Extends, Errors) {
    EXPECT_THAT(extends_error("name: \"x\"\nextends: \"npm_pro\"\nl2 { banks: 3 }"),
                AllOf(HasSubstr("dev.textproto:3:6"), HasSubstr("power of two")));
    EXPECT_THAT(extends_error("extends: \"npm_pro\""), HasSubstr("`name` is missing"));
    EXPECT_THAT(extends_error("name: \"x\" extends: \"npm_prp\""), HasSubstr("did you mean `npm_pro`?"));
    EXPECT_THAT(error_of([] { load("edge16", {{"extends", "npm_pro"}}); }), HasSubstr("only a file extends"));
}

/// A group is as if its variants stood there, and those that the file lists come after it.
TEST(VariantSets, StandForTheirVariants) {
    const Platform base = load("edge16");
    const auto has = [](const Platform& platform, const std::string& variant) {
        return std::count(platform.variant().begin(), platform.variant().end(), variant);
    };
    EXPECT_EQ(has(base, "conv2d.float<bf16>.no_bias"), 0);
    const Platform own = parse(R"(name: "own" extends: "edge16" variant_set: "float"
                                  engine { array { rate { type: "bf16" relative: 1 } } })");
    EXPECT_EQ(has(own, "conv2d.float<bf16>.no_bias"), 1);
    EXPECT_EQ(has(own, "eltwise<i8>.default"), 1);
    EXPECT_EQ(own.variant_set_size(), 0);
    EXPECT_THAT(extends_error(R"(name: "x" extends: "edge16" variant_set: "floats")"),
                AllOf(HasSubstr("no group `floats`"), HasSubstr("did you mean `float`?")));
}

/// Every group resolves against the families, with no variant twice, and says what it is.
TEST(VariantSets, HoldKnownVariants) {
    for (const std::string name : {"baseline", "int8", "int4", "integer", "float16", "float32",
                                   "float32_matrix", "bfloat16", "conversions", "network", "float"}) {
        SCOPED_TRACE(name);
        proto::Platform platform;
        platform.add_variant_set(name);
        Diagnostics diagnostics;
        expand_variant_sets(platform, diagnostics);
        EXPECT_FALSE(platform.variant().empty());
        EXPECT_EQ(resolve_variants(platform, diagnostics).size(), size_t(platform.variant_size()));
        EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.to_string();
    }
}

/// The link between DDR and L2 has a width of its own; without one, that of the others.
TEST(SystemLink, FollowsTheOthers) {
    EXPECT_EQ(load("edge16", {{"interconnect.link_bytes_per_cycle", "8"}})
                  .interconnect()
                  .system_link_bytes_per_cycle(),
              8u);
    const Platform own = load("edge16", {{"interconnect.system_link_bytes_per_cycle", "128"}});
    EXPECT_EQ(own.interconnect().system_link_bytes_per_cycle(), 128u);
    EXPECT_NE(own.interconnect().link_bytes_per_cycle(), 128u);
}

}  // namespace
}  // namespace kpu::platforms
