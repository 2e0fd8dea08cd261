// Values that belong together: formulas over other fields, scaled groups, and arrays that their ports starve.
#include <random>

#include "platforms/formula.hpp"
#include "platforms/parameters.hpp"
#include "platforms/scales.hpp"
#include "platforms/starved.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Platform linked(const std::string& text, const Overrides& overrides = {}) {
    return parse_textproto(text, "dev.textproto", overrides);
}
std::string linked_error(const std::string& text, const Overrides& overrides = {}) {
    return error_of([&] { linked(text, overrides); });
}
std::string set_error(const Overrides& overrides, const char* platform = "edge16") {
    return error_of([&] { load(platform, overrides); });
}
const proto::SystolicArray& array_of(const Platform& platform, int engine = 0) {
    return platform.engine(engine).array();
}

double value_of(const std::string& text) {
    return formula_value(text, [](std::string_view name) { return name == "a.b" ? 12.0 : 5.0; });
}

TEST(Formula, ComputesAsSweepsDo) {
    EXPECT_EQ(value_of("1 + 2 * 3 - 4"), 3);
    EXPECT_EQ(value_of("-(2 - 5) * 64KiB"), 3 * 65536);
    EXPECT_EQ(value_of("7 // 2 + 7 % 4 + -7 // 2 + -7 % 4"), 3 + 3 - 4 + 1);
    EXPECT_EQ(value_of("min(a.b, c.d, 7) / max(2, 1)"), 2.5);
    EXPECT_EQ(value_of("floor(2.5) + ceil(2.5) + round(2.5) + round(3.5) + sqrt(16) + log2(8)"),
              2 + 3 + 2 + 4 + 4 + 3);
}

TEST(Formula, UnitsOfBytes) {
    for (const auto& [unit, power] : {std::pair("KiB", 10), {"MiB", 20}, {"GiB", 30}, {"TiB", 40}})
        EXPECT_EQ(value_of(std::string("3") + unit), std::ldexp(3, power)) << unit;
}

/// Numbers and names of values are no formulas: what is wrong with them is said as of any value.
TEST(Formula, IsTold) {
    for (const char* text : {"a.b", "2*3", "engine.array.rows", "(4)", "min(1,2)", "4 / 2"})
        EXPECT_TRUE(is_formula(text)) << text;
    for (const char* text : {"", "5", "-5", "1e+5", "abc", "abc.", ".5", "5.", "os", "1.2.3"})
        EXPECT_FALSE(is_formula(text)) << text;
    EXPECT_THAT(names_of("2 * a.b + min(c.d, 64KiB) - e[0].f"), testing::ElementsAre("a.b", "c.d", "e[0].f"));
}

TEST(Formula, SaysWhereItIsWrong) {
    const auto error = [](const std::string& text) { return error_of([&] { value_of(text); }); };
    EXPECT_THAT(error("a.b / (c.d - 5)"), HasSubstr("character 5: division by zero"));
    EXPECT_THAT(error("a.b % 0"), HasSubstr("division by zero"));
    EXPECT_THAT(error("2 * "), HasSubstr("character 5: the formula ends here"));
    EXPECT_THAT(error("2 $ 3"), HasSubstr("character 3: `$` is not expected"));
    EXPECT_THAT(error("f(2)"), HasSubstr("there is no function `f`"));
    EXPECT_THAT(error("64kB * 2"), HasSubstr("`kB` is not a unit"));
    EXPECT_THAT(error("floor(1, 2)"), HasSubstr("takes one number, not 2"));
    EXPECT_THAT(error("1e308 * 10"), HasSubstr("not a finite number"));
    EXPECT_THAT(error("sqrt(0 - 1)"), HasSubstr("not a finite number"));
    EXPECT_THAT(error(std::string(500, '(')), HasSubstr("more than 64 brackets"));
    EXPECT_THAT(error(std::string(5000, '-')), HasSubstr("at most 1000"));
}

/// Whatever bytes stand there, a number or a UserError comes out.
TEST(Formula, TakesAnyText) {
    std::mt19937 random(1);
    const std::string bytes = "0123456789.eE+-*/%(),[] abminxfloor_KiB\t\n\"#\xff";
    size_t numbers = 0;
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (size_t i = random() % 12; i-- > 0;) text += bytes[random() % bytes.size()];
        names_of(text);
        try {
            EXPECT_TRUE(std::isfinite(value_of(text))) << text;
            ++numbers;
        } catch (const UserError&) {  // what is no formula
        }
    }
    EXPECT_GT(numbers, 100u);
}

/// A formula follows what a later file and --set change; a number in its place replaces it.
TEST(Linked, FormulasFollow) {
    const std::string text = R"(name: "d" extends: "edge16" engine {
        array { cols: "2 * engine.array.rows" } dma { bytes_per_cycle: "engine.array.cols" } })";
    EXPECT_EQ(array_of(linked(text)).cols(), 32u);
    EXPECT_EQ(linked(text).engine(0).dma().bytes_per_cycle(), 32u);
    const Platform wide = linked(text, {{"engine.array.rows", "64"}});
    EXPECT_EQ(array_of(wide).cols(), 128u);
    EXPECT_EQ(array_of(wide).result_bytes_per_cycle(), 512u);
    EXPECT_EQ(wide.engine(0).dma().bytes_per_cycle(), 128u);
    const Platform fixed = linked(text, {{"engine.array.cols", "8"}});
    EXPECT_EQ(array_of(fixed).cols(), 8u);
    EXPECT_EQ(fixed.engine(0).dma().bytes_per_cycle(), 8u);
}

/// However a formula is written.
TEST(Linked, FormulasAreFoundAnywhere) {
    for (const char* field :
         {"cols:\"2*16\"", "cols :\t'2*16'", "cols:\n\"2*16\"", "cols: # \"not here\"\n \"2*16\""}) {
        const std::string text =
            fmt::format("name: \"d\" extends: \"edge16\" engine {{ array {{ {} }} }}", field);
        EXPECT_EQ(array_of(linked(text)).cols(), 32u) << field;
    }
}

TEST(Linked, SetTakesFormulas) {
    const Platform platform = load("npm_lite", {{"engine.array.cols", "engine.array.rows // 2"},
                                                {"engine.array.rows", "32"},
                                                {"l2.size_bytes", "4 * engine.l1.size_bytes"}});
    EXPECT_EQ(array_of(platform).cols(), 16u);
    EXPECT_EQ(platform.l2().size_bytes(), 4u * platform.engine(0).l1().size_bytes());
    EXPECT_EQ(load("edge16", {{"clock.array_mhz", "clock.core_mhz * 1.5"}}).clock().array_mhz(), 600);
}

/// In an engine its own fields are meant; outside, the engines must agree or be told apart.
TEST(Linked, EnginesHaveTheirOwnFields) {
    const std::string text = R"(name: "d" extends: "edge16"
        engine { array { cols: "2 * engine.array.rows" } } engine { array { rows: 8 } } )";
    const Platform two = linked(text);
    EXPECT_EQ(array_of(two, 0).cols(), 32u);
    EXPECT_EQ(array_of(two, 1).cols(), 16u);
    EXPECT_EQ(linked(text + R"( l2 { bytes_per_cycle: "engine[1].array.rows" })").l2().bytes_per_cycle(), 8u);
    EXPECT_THAT(linked_error(text + R"( l2 { bytes_per_cycle: "engine.array.rows" })"),
                HasSubstr("not the same in every engine. Fix: say which one: `engine[0].array.rows`"));
}

TEST(Linked, WrongFormulasHavePlaces) {
    const std::string head = "name: \"d\" extends: \"edge16\"\nengine { array {\n";
    const auto error = [&](const std::string& field) { return linked_error(head + "\t" + field + "\n} }"); };
    EXPECT_THAT(error("cols: \"engine.array.rose\""),
                AllOf(StartsWith("dev.textproto:3:15: error: `engine[0].array.cols`"),
                      HasSubstr("did you mean `engine.array.rows`")));
    EXPECT_THAT(error("rows: \"engine.array.cols\" cols: \"engine.array.rows\""),
                HasSubstr("follow from each other"));
    EXPECT_THAT(error("cols: \"engine.array.cols * 2\""), HasSubstr("follow from each other"));
    EXPECT_THAT(error("cols: \"engine.array.rows / 3\""), HasSubstr("would be 5.33"));
    EXPECT_THAT(error("cols: \"1e6 * engine.array.rows\""),
                AllOf(HasSubstr("dev.textproto:3:15"), HasSubstr("from 1 to 4096")));
    EXPECT_THAT(error("cols: 4 cols: \"2 * 2\""), HasSubstr("stands twice"));
    EXPECT_THAT(error("cols: \"2 * 2\" cols: \"2 * 2\""), HasSubstr("stands twice"));
    EXPECT_THAT(error("cols: \"engine.array.operand_bytes_per_cycle\""),
                HasSubstr("has no value of its own"));
    EXPECT_THAT(error("cols: \"name * 2\""), HasSubstr("not a number of this platform"));
    EXPECT_THAT(error("rate { type: \"i8\" relative: \"1 / 2\" }"),
                HasSubstr("rows of lists take plain numbers"));
    EXPECT_THAT(set_error({{"engine.array.cols", "engine.array.rows / 0"}}),
                StartsWith("--set engine.array.cols=engine.array.rows / 0: `engine.array.rows / 0`, "
                           "character 19: division"));
    EXPECT_THAT(set_error({{"engine.array.rows", "ddr.channels * 3"}, {"ddr.channels", "engine.array.rows"}}),
                HasSubstr("follow from each other"));
}

/// An operating point and a formula for one frequency contradict each other.
TEST(Linked, PointsAreNumbersToo) {
    EXPECT_THAT(linked_error(R"(name: "d" extends: "edge16" clock { core_mhz: "2 * 100" core_point: "eco"
        point { name: "eco" mhz: 275 vdd: 0.6 } })"),
                HasSubstr("an operating point gives it 275 as well"));
}

/// Whatever bytes a file has, it is a platform or a UserError.
TEST(Linked, TakesAnyFile) {
    const std::string whole = R"t(name: "d" extends: "edge16" # a comment
	engine { array { rows: 8 cols: "2 * engine.array.rows" } dma: < bytes_per_cycle: "engine[0].array.cols" > }
engine { count: 2 array { rate { type: "i8" relative: 2 } } } l2 { bytes_per_cycle: "max(64, 2KiB)" } scale { capacity: 2 })t";
    ASSERT_EQ(array_of(linked(whole), 1).cols(), 16u);
    const std::string bytes = "\"{}<>[]:#\t\n\\'0a.*-";
    std::mt19937 random(2);
    size_t platforms = 0;
    for (int round = 0; round < 1500; ++round) {
        std::string text = whole;
        for (size_t i = 1 + random() % 3; i-- > 0;) {
            const size_t at = random() % text.size();
            if (random() % 2 == 0)
                text[at] = bytes[random() % bytes.size()];
            else
                text.erase(at, 1 + random() % 20);
        }
        try {
            linked(text);
            ++platforms;
        } catch (const UserError&) {  // what is none
        }
    }
    EXPECT_GT(platforms, 10u);
}

/// A chain over every engine is followed as far as a stack allows, and no further.
TEST(Linked, LongChains) {
    std::string text = "name: \"d\" extends: \"edge16\" ";
    for (int k = 0; k < 900; ++k)
        text += fmt::format("engine {{ array {{ rows: \"engine[{}].array.rows\" }} }} ", k + 1);
    EXPECT_THAT(linked_error(text + "engine { array { rows: 8 } }"), HasSubstr("more than 256 formulas"));
}

TEST(Scale, SetsAGroupAtOnce) {
    const Platform base = load("edge16"), twice = load("edge16", {{"scale.width", "2"}});
    EXPECT_EQ(array_of(twice).rows(), 2 * array_of(base).rows());
    EXPECT_EQ(array_of(twice).operand_bytes_per_cycle(), 2 * array_of(base).operand_bytes_per_cycle());
    EXPECT_EQ(twice.engine(0).vector().lanes(), 2 * base.engine(0).vector().lanes());
    EXPECT_EQ(twice.interconnect().system_link_bytes_per_cycle(),
              2 * base.interconnect().system_link_bytes_per_cycle());
    EXPECT_EQ(twice.l2().size_bytes(), base.l2().size_bytes());
    EXPECT_EQ(to_textproto(load("edge16", {{"scale.width", "1"}})), to_textproto(base));
    const Platform file = linked(R"(name: "d" extends: "edge16" scale { width: 2 })");
    EXPECT_EQ(file.engine(0).DebugString(), twice.engine(0).DebugString());
}

/// Defaults of a NEM device are scaled; what a formula gives follows once, not twice.
TEST(Scale, ReachesDefaultsAndFormulas) {
    EXPECT_EQ(load("npm_lite", {{"scale.links", "2"}}).engine(0).dma().bytes_per_cycle(), 128u);
    const Platform platform =
        linked(R"(name: "d" extends: "edge16" engine { array { cols: "engine.array.rows" } })",
               {{"scale.array", "4"}});
    EXPECT_EQ(array_of(platform).rows(), 64u);
    EXPECT_EQ(array_of(platform).cols(), 64u);
}

TEST(Scale, ContradictionsAndBadFactors) {
    EXPECT_THAT(set_error({{"scale.array", "2"}, {"engine.array.rows", "8"}}),
                HasSubstr("`engine.array.rows=8` sets it too"));
    EXPECT_THAT(set_error({{"scale.array", "2"}, {"scale.width", "2"}}), HasSubstr("sets it too"));
    EXPECT_THAT(set_error({{"scale.arry", "2"}}), HasSubstr("did you mean `scale.array`"));
    EXPECT_THAT(set_error({{"scale.array", "two"}}), HasSubstr("is not a factor"));
    EXPECT_THAT(set_error({{"scale.array", "nan"}}), HasSubstr("is not a factor"));
    EXPECT_THAT(set_error({{"scale.array", "1.01"}}), HasSubstr("takes whole numbers"));
    EXPECT_THAT(set_error({{"scale.sram", "3"}}), HasSubstr("power of two"));
    EXPECT_THAT(set_error({{"scale.array", "1024"}}), HasSubstr("from 1 to 4096"));
    EXPECT_THAT(
        linked_error("name: \"d\" extends: \"edge16\"\nscale { array: 2 }\nengine { array { rows: 8 } }"),
        AllOf(StartsWith("dev.textproto:2:9: error: `scale.array`"), HasSubstr("sets it too")));
    EXPECT_THAT(linked_error(valid_text() + "scale { array: 2 }"),
                HasSubstr("only what another platform says"));
    for (const char* bad :
         {"scale: 2", "scale { array }", "scale { array: \"2\" }", "scale { array: 2", "scale"})
        EXPECT_THAT(linked_error(std::string("name: \"d\" extends: \"edge16\" ") + bad),
                    HasSubstr("`scale` holds groups"));
}

/// Every field of a group is a number of platforms, and each group changes a device.
TEST(Scale, GroupsNameFields) {
    for (const ScaleInfo& group : scales()) {
        for (const std::string& field : group.fields) EXPECT_NE(find_parameter(field), nullptr) << field;
        EXPECT_NE(to_textproto(load("edge16", {{group.path, "2"}})), to_textproto(load("edge16")))
            << group.path;
    }
}

std::string starved(const Platform& platform) {
    Diagnostics notes;
    note_starved_arrays(platform, notes);
    return notes.to_string();
}

TEST(Starved, NarrowPortsAreNamed) {
    EXPECT_EQ(starved(load("edge16")), "");
    EXPECT_THAT(starved(load("edge16",
                             {{"engine.array.rows", "64"}, {"engine.array.operand_bytes_per_cycle", "16"}})),
                AllOf(HasSubstr("starves in i8"), HasSubstr("engine.array.operand_bytes_per_cycle brings 16"),
                      HasSubstr("at most 25 %")));
    EXPECT_THAT(starved(load("tile32", {{"engine.l1.ports", "1"}, {"engine.l1.bytes_per_cycle", "32"}})),
                HasSubstr("engine.l1.ports * engine.l1.bytes_per_cycle brings 32"));
    EXPECT_THAT(starved(load("tile32", {{"engine.l1.banks", "1"}, {"engine.l1.bank_width_bytes", "16"}})),
                HasSubstr("engine.l1.banks * engine.l1.bank_width_bytes brings 16"));
    // the stationary operand is no stream
    EXPECT_EQ(starved(load("edge16", {{"engine.array.dataflow", "ws"},
                                      {"engine.array.rows", "8"},
                                      {"engine.array.cols", "64"},
                                      {"engine.array.operand_bytes_per_cycle", "16"}})),
              "");
}

/// Whoever loads a device is told once.
TEST(Starved, LoadingTells) {
    Diagnostics notes;
    load("edge16", {{"engine.array.operand_bytes_per_cycle", "4"}}, {}, &notes);
    EXPECT_THAT(notes.to_string(), HasSubstr("starves in i8"));
}

TEST(Starved, ShippedPlatforms) {
    std::string all;
    for (const std::string& name : shipped_names()) all += starved(load(name));
    EXPECT_EQ(all, "");
}

}  // namespace
}  // namespace kpu::platforms
