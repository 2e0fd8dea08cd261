#include <cstdio>
#include <fstream>

#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string parse_error(const std::string& text) {
    return error_of([&] { parse_textproto(text, "dev.textproto"); });
}

/// An unknown field is named with its line and column and the nearest known one.
TEST(Loader, UnknownField) {
    EXPECT_THAT(
        parse_error("name: \"x\"\nclock { core_mhzz: 500 }\n"),
        AllOf(StartsWith("dev.textproto:2:"), HasSubstr(": error: unknown field `core_mhzz` of Clock"),
              HasSubstr("did you mean `core_mhz`?")));
}

/// Bad syntax, bad numbers and repeated single fields are errors with their place.
TEST(Loader, Syntax) {
    EXPECT_THAT(parse_error("name \"x\" {"), StartsWith("dev.textproto:1:"));
    EXPECT_THAT(parse_error("sequencer { max_active_tokens: 99999999999999999999 }"),
                HasSubstr("dev.textproto:1:"));
    EXPECT_THAT(parse_error("sequencer { max_active_tokens: -1 }"), HasSubstr("dev.textproto:1:"));
    EXPECT_THAT(parse_error("name: \"x\"\nname: \"y\"\n"),
                AllOf(StartsWith("dev.textproto:2:"), HasSubstr("name")));
    EXPECT_THAT(parse_error(std::string("na\0me: 1", 8)), StartsWith("dev.textproto:1:"));
    EXPECT_THAT(parse_error("\xff\xfe"), StartsWith("dev.textproto:1:"));
    // in our words, each with its fix
    EXPECT_THAT(parse_error("name: \"x\"\nname: \"y\"\n"), HasSubstr("`name` is given twice. Fix:"));
    EXPECT_THAT(parse_error("name \"x\" {"), AllOf(HasSubstr("`\"x\"` stands where"), HasSubstr("Fix:")));
    for (const char* text : {"\xff\xfe", "{", "name: \"x", "clock { core_mhz: }", "clock { core_mhz: 1e }"})
        EXPECT_THAT(parse_error(text), HasSubstr("Fix: ")) << text;
}

/// Deep nesting of a hostile file is refused, not followed.
TEST(Loader, DeepNesting) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += "engine { ";
    EXPECT_THAT(parse_error(text), HasSubstr("error"));
}

/// A missing field is named by path with its meaning, its unit and what to write; a missing block lists its
/// fields.
TEST(Loader, MissingFields) {
    const std::string text = valid_text();
    EXPECT_THAT(parse_error(replaced(text, "hop_latency_cycles: 2", "")),
                AllOf(HasSubstr("`interconnect.hop_latency_cycles` is missing"), HasSubstr("[cycle]"),
                      HasSubstr("Fix: add `hop_latency_cycles: ")));
    EXPECT_THAT(parse_error(replaced(text, "    rows: 16\n", "")),
                HasSubstr("`engine[0].array.rows` is missing"));
    EXPECT_THAT(
        parse_error("name: \"x\" version: \"1\""),
        AllOf(HasSubstr("`l2` is missing"), HasSubstr("size_bytes, banks"), HasSubstr("`clock` is missing")));
    Platform no_engine = load("swkpu-v1");
    no_engine.clear_engine();
    EXPECT_THAT(parse_error(to_textproto(no_engine)), HasSubstr("`engine` is missing"));
}

/// Values outside their range, no powers of two, unknown enum values: each names field, place and what is
/// allowed.
TEST(Loader, Ranges) {
    const std::string text = valid_text();
    EXPECT_THAT(parse_error(replaced(text, "    rows: 16\n", "    rows: 0\n")),
                AllOf(StartsWith("dev.textproto:"), HasSubstr("`engine[0].array.rows` is 0"),
                      HasSubstr("from 1 to 4096")));
    EXPECT_THAT(parse_error(replaced(text, "core_mhz: 500", "core_mhz: -500")),
                HasSubstr("`clock.core_mhz` is -500"));
    EXPECT_THAT(parse_error(replaced(text, "core_mhz: 500", "core_mhz: nan")),
                HasSubstr("`clock.core_mhz` is nan"));
    EXPECT_THAT(parse_error(replaced(text, "banks: 16", "banks: 12")), HasSubstr("power of two"));
    EXPECT_THAT(parse_error(replaced(text, "dataflow: os", "dataflow: osx")),
                AllOf(HasSubstr("`osx` is not a value of `engine.array.dataflow`"), HasSubstr("os|ws|is")));
    EXPECT_THAT(parse_error(replaced(text, "row_bank_column", "column_row")),
                AllOf(HasSubstr("unknown mapping `column_row`"),
                      HasSubstr("bank_group_interleaved, row_bank_column")));
    EXPECT_THAT(parse_error(replaced(text, "count: 1\n", "count: 1000\n") + replaced(text, "name", "#name")),
                HasSubstr("error"));
}

/// Rules that tie fields together: MAC types, costs, DRAM device, rate and size, variants, duplicates.
TEST(Loader, Rules) {
    const std::string text = valid_text();
    EXPECT_THAT(parse_error(replaced(text, "type: \"i8\"", "type: \"i9\"")),
                HasSubstr("`engine[0].array.rate.type` is `i9`"));
    EXPECT_THAT(parse_error(replaced(text, "type: \"f16\"", "type: \"i8\"")),
                HasSubstr("has type `i8` twice"));
    EXPECT_THAT(parse_error(replaced(text, "opcode: \"rmsnorm\"", "opcode: \"rmsnrm\"")),
                AllOf(HasSubstr("unknown opcode `rmsnrm`"), HasSubstr("did you mean `rmsnorm`?")));
    EXPECT_THAT(parse_error(replaced(text, "LPDDR4-3200", "LPDDR4-3201")),
                AllOf(HasSubstr("unknown device `LPDDR4-3201`"), HasSubstr("did you mean `LPDDR4-3200`?")));
    EXPECT_THAT(parse_error(replaced(text, "data_rate_mtps: 3200", "data_rate_mtps: 4266")),
                HasSubstr("up to 3200"));
    EXPECT_THAT(parse_error(replaced(text, "size_bytes: 4294967296", "size_bytes: 4294967297")),
                HasSubstr("2 channels of LPDDR4-3200 hold 4294967296"));
    EXPECT_THAT(parse_error(replaced(text, "gemm.int8<i8>.no_bias", "gemm.int9<i8>.no_bias")),
                AllOf(StartsWith("dev.textproto:"), HasSubstr("unknown type family `gemm.int9`")));
    EXPECT_THAT(parse_error(replaced(text, "gemm.int8<i8>.no_bias", "gemm")),
                HasSubstr("`gemm` is not a type variant"));
    EXPECT_THAT(parse_error(replaced(text, "gemm.int8<i8>.no_bias", "gemm.int8<i8>.with_bias")),
                HasSubstr("twice"));
    EXPECT_THAT(parse_error(replaced(text, "\"generic_16nm\"", "\"generic_3nm\"")),
                HasSubstr("`energy.table`: `generic_3nm` is neither"));
}

/// Optional fields get their documented defaults, and port widths follow the array.
TEST(Loader, Defaults) {
    Platform platform = load("swkpu-v1");
    platform.clear_energy();
    platform.mutable_engine(0)->mutable_array()->clear_operand_bytes_per_cycle();
    platform.mutable_engine(0)->mutable_array()->set_cols(32);
    platform.mutable_engine(0)->mutable_array()->clear_result_bytes_per_cycle();
    platform.mutable_ddr()->clear_size_bytes();
    const Platform filled = parse_textproto(to_textproto(platform), "dev.textproto");
    EXPECT_EQ(filled.energy().table(), "generic_16nm");
    EXPECT_EQ(filled.energy().corner(), proto::Energy::nominal);
    EXPECT_TRUE(filled.energy().clock_gating());
    EXPECT_FALSE(filled.energy().has_vdd());
    EXPECT_EQ(filled.engine(0).array().operand_bytes_per_cycle(), 32u);
    EXPECT_EQ(filled.engine(0).array().result_bytes_per_cycle(), 128u);
    EXPECT_EQ(filled.ddr().size_bytes(), 4294967296u);
}

/// Neither file nor shipped name: the nearest shipped name is offered. A file is read from disk and from -I
/// folders.
TEST(Loader, Files) {
    EXPECT_THAT(error_of([] { load("npm_light"); }),
                AllOf(HasSubstr("platform `npm_light`"), HasSubstr("did you mean `npm_lite`?")));
    EXPECT_THAT(error_of([] { load(""); }), HasSubstr("neither a file"));
    EXPECT_THAT(error_of([] { load("/"); }), HasSubstr("neither a file"));
    const std::string folder = testing::TempDir(), path = folder + "kpusim_platform_test.textproto";
    std::ofstream(path) << replaced(valid_text(), "name: \"swkpu-v1\"", "name: \"mine\"");
    EXPECT_EQ(load(path).name(), "mine");
    EXPECT_EQ(load("kpusim_platform_test.textproto", {}, {folder}).name(), "mine");
    std::remove(path.c_str());
}

/// Engines are numbered over the list, each repeated count times; of mixed engines limits hold what all have.
TEST(Loader, MixedEngines) {
    Platform platform = load("swkpu-v1");
    platform.mutable_engine(0)->set_count(2);
    *platform.add_engine() = platform.engine(0);
    platform.mutable_engine(1)->set_count(1);
    platform.mutable_engine(1)->mutable_l1()->set_size_bytes(131072);
    platform.mutable_engine(1)->mutable_dma()->set_channels(1);
    validate(platform);
    EXPECT_EQ(engines_of(platform).size(), 3u);
    EXPECT_EQ(engines_of(platform)[2].get().l1().size_bytes(), 131072u);
    const DeviceLimits limits = limits_of(platform);
    EXPECT_EQ(limits.num_engines, 3u);
    EXPECT_EQ(limits.l1_bytes, 131072u);
    EXPECT_EQ(limits.count(UnitKind::dma), 1u);
    platform.mutable_engine(0)->set_count(1024);
    EXPECT_THAT(error_of([&] { validate(platform); }), HasSubstr("1025 engines"));
}

}  // namespace
}  // namespace kpu::platforms
