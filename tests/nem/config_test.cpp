// Device and type-family documents, includes, variants.
#include <fmt/format.h>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view full_device = R"(
device base {
    spec_version = "1.0"
    opcode.mandatory { cast.default }
}
device lite extends base {
    topology {
        num_engines = 2
        l2_size_bytes = 1024 * 1024
        device_units { sDMA = 1  WDM = 0 }
        per_engine { NMU = 1 CSTL = 2 DMA = 2 VPU = 1 SEQ = 1 l1_size_bytes = 512 * 1024 }
    }
    unit_characteristics {
        NMU { int8_macs = 4096  fp16_macs = 2048 }
        DMA { bytes_per_cycle = 32 }
    }
    opcode.extended { conv2d.int8<i16>.with_bias eltwise<i32>.default gemm.int4.no_bias quantize<f16, i8>.default }
}
)";

TEST(config, every_part_of_a_device_block_is_kept) {
    const Parsed parsed = parse_text(full_device);
    ASSERT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    EXPECT_FALSE(parsed.document.is_program);
    ASSERT_EQ(parsed.document.devices.size(), 2u);
    const DeviceDecl& base = parsed.document.devices[0];
    EXPECT_EQ(base.spec_version, "1.0");
    EXPECT_TRUE(base.has_mandatory);
    EXPECT_FALSE(base.has_topology);
    const DeviceDecl& lite = parsed.document.devices[1];
    EXPECT_EQ(lite.parent, "base");
    EXPECT_EQ(lite.num_engines, 2);
    EXPECT_EQ(lite.l2_size_bytes, 1 << 20);
    EXPECT_EQ(lite.l1_size_bytes, 512 << 10);
    ASSERT_EQ(lite.per_engine.size(), 5u);
    EXPECT_EQ(lite.per_engine[1].kind, UnitKind::cstl);
    EXPECT_EQ(lite.per_engine[1].count, 2);
    ASSERT_EQ(lite.characteristics.size(), 2u);
    EXPECT_EQ(lite.characteristics[1].first, "DMA");
    EXPECT_EQ(lite.characteristics[1].second[0].value, 32);
    EXPECT_EQ(lite.pos.line, 6u);
}

/// A device block that cannot be read is no inline body of the program after it.
TEST(config, a_broken_device_block_before_a_directive_is_an_error_only) {
    const Parsed parsed = parse_text("device a { [ }\ndevice b\nbuffer D : DDR (size = 4)\n");
    EXPECT_TRUE(parsed.diagnostics.has_errors());
    EXPECT_TRUE(parsed.document.devices.empty());
    EXPECT_EQ(parsed.document.module.program.device().body(), "");
}

TEST(config, a_variant_reference_splits_at_its_last_dot) {
    const Parsed parsed = parse_text(full_device);
    std::vector<std::string> texts;
    for (const VariantRef& ref : parsed.document.devices[1].extended) texts.push_back(ref.text());
    EXPECT_THAT(texts, testing::ElementsAre("conv2d.int8<i16>.with_bias", "eltwise<i32>.default",
                                            "gemm.int4.no_bias", "quantize<f16,i8>.default"));
    EXPECT_EQ(parsed.document.devices[1].extended[2].family, "gemm.int4");
    EXPECT_EQ(parsed.document.devices[0].mandatory[0].family, "cast");
}

TEST(families, the_language_has_13_families_17_must_and_26_may_variants) {
    EXPECT_EQ(standard_families().size(), 13u);
    EXPECT_EQ(all_variants(standard_families(), true).size(), 17u);
    EXPECT_EQ(all_variants(standard_families()).size(), 17u + 26u);
}

TEST(families, the_must_variants_are_those_of_the_language) {
    std::vector<std::string> names;
    for (const TypeVariant& v : all_variants(standard_families(), true)) names.push_back(v.name);
    EXPECT_THAT(names,
                testing::UnorderedElementsAre(
                    "gemm.float<f16>.no_bias", "gemm.float<f16>.with_bias", "gemm.int8<i8>.no_bias",
                    "gemm.int8<i8>.with_bias", "conv2d.float<f16>.no_bias", "conv2d.float<f16>.with_bias",
                    "conv2d.int8<i8>.no_bias", "conv2d.int8<i8>.with_bias", "eltwise<i8>.default",
                    "eltwise<f16>.default", "view<i8>.default", "view<f16>.default", "norm<f16>.default",
                    "softmax<f16>.default", "cast.default", "quantize<f16,i8>.default",
                    "dequantize<i8,f16>.default"));
}

VariantRef ref_of(const std::string& text) {
    const Parsed parsed =
        parse_text(fmt::format("device d {{ spec_version = \"1.0\" opcode.mandatory {{ {} }} }}", text));
    EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    return parsed.document.devices.at(0).mandatory.at(0);
}

TEST(families, a_variant_is_filled_in_from_its_family) {
    Diagnostics diagnostics;
    const auto v = resolve_variant(ref_of("gemm.int8<i16>.with_bias"), standard_families(), diagnostics);
    ASSERT_TRUE(v.has_value()) << diagnostics.to_string();
    EXPECT_EQ(v->opcode, "gemm");
    EXPECT_EQ(v->family, "gemm.int8");
    EXPECT_EQ(v->accum, ElemType::i32);
    EXPECT_EQ(v->quant, TypeVariant::QuantRule::required);
    ASSERT_EQ(v->bindings.size(), 4u);
    EXPECT_EQ(v->bindings[2].operand, "Y");
    EXPECT_EQ(v->bindings[2].type, ElemType::i16);
    EXPECT_EQ(v->bindings[3].operand, "C");
    EXPECT_EQ(v->bindings[3].type, ElemType::i32);
    const auto q = resolve_variant(ref_of("quantize<f32,i8>.default"), standard_families(), diagnostics);
    ASSERT_TRUE(q.has_value());
    EXPECT_EQ(q->quant_on, "dst");
    const auto none = resolve_variant(ref_of("conv2d.float<f32>.no_bias"), standard_families(), diagnostics);
    ASSERT_TRUE(none.has_value());
    EXPECT_TRUE(none->bindings.back().absent);
    EXPECT_EQ(none->quant, TypeVariant::QuantRule::absent);
}

TEST(families, the_accumulator_of_a_family_may_be_its_parameter_and_gemm_acc_is_its_own_opcode) {
    const Parsed parsed = parse_text(R"(
type_family gemm.acc<A: {i8, f16}, B: {i8, f16}, Acc: {i32, f32}> {
    A: A  B: B  Y: Acc
    accum = Acc
    variants:
        with_addend: { C: Acc } conformance: { MAY<i8, i8, i32> MAY<f16, f16, f32> }
})");
    ASSERT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    const auto variants = all_variants(parsed.document.families);
    ASSERT_EQ(variants.size(), 2u);
    EXPECT_EQ(variants[0].opcode, "gemm.acc");
    EXPECT_EQ(variants[0].accum, ElemType::i32);
    EXPECT_EQ(variants[1].name, "gemm.acc<f16,f16,f32>.with_addend");
    EXPECT_EQ(variants[1].bindings[3].type, ElemType::f32);
}

TEST(families, unknown_families_variants_and_instantiations_are_refused_with_the_nearest) {
    const std::pair<const char*, const char*> cases[] = {
        {"gemm.flota<f16>.no_bias", "did you mean `gemm.float`"},
        {"gemm.float<f16>.bias", "has no variant `bias`. Fix: did you mean `"},
        {"gemm.float<bf16>.with_bias",
         "does not declare `gemm.float<bf16>.with_bias`. Fix: one of gemm.float<f16>"},
        {"gemm.float<f16,f16>.no_bias", "gives 2 type arguments"},
        {"cast<f16>.default", "gives 1 type arguments"}};
    for (const auto& [text, message] : cases) {
        Diagnostics diagnostics;
        EXPECT_FALSE(resolve_variant(ref_of(text), standard_families(), diagnostics).has_value()) << text;
        EXPECT_THAT(diagnostics.to_string(), HasSubstr(message));
    }
}

TEST(includes, declarations_come_first_and_a_program_in_an_included_file_is_ignored) {
    const Parsed parsed = parse_text("include \"a.nem\"\ndevice b extends a { }",
                                     {{"a.nem",
                                       "device a { spec_version = \"1\" opcode.mandatory { } }\nprogram p:\n"
                                       "const X = 1"}});
    ASSERT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    ASSERT_EQ(parsed.document.devices.size(), 2u);
    EXPECT_EQ(parsed.document.devices[0].name, "a");
    EXPECT_EQ(parsed.document.devices[0].pos.file, "a.nem");
    EXPECT_FALSE(parsed.document.is_program);
}

TEST(includes, a_file_included_twice_is_read_once) {
    const std::string base = "device a { spec_version = \"1\" opcode.mandatory { } }";
    const Parsed parsed = parse_text("include \"b\" include \"c\"",
                                     {{"a", base}, {"b", "include \"a\""}, {"c", "include \"a\""}});
    EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    EXPECT_EQ(parsed.document.devices.size(), 1u);
}

TEST(includes, cycles_missing_files_and_duplicates_are_errors) {
    EXPECT_THAT(parse_text("include \"a\"", {{"a", "include \"b\""}, {"b", "include \"a\""}}).errors(),
                HasSubstr("b:1:9: error: include cycle: a -> b -> a"));
    EXPECT_THAT(parse_text("include \"nowhere\"").errors(),
                HasSubstr("cannot find the included file `\"nowhere\"`"));
    const std::string device = "device a { spec_version = \"1\" opcode.mandatory { } }";
    EXPECT_THAT(parse_text("include \"a\"\n" + device, {{"a", device}}).errors(),
                HasSubstr("t.nem:2:8: error: duplicate device name a, first declared at a:1"));
    const std::string family = "type_family f { X: i8 variants: d: { } conformance: { MAY } }";
    EXPECT_THAT(parse_text(family + family).errors(), HasSubstr("duplicate type family name f"));
}

TEST(includes, a_bomb_of_includes_ends_with_an_error) {
    // each file includes a deeper one
    const FileLoader deep = [](const std::string& name, const std::string&) -> std::optional<SourceFile> {
        return SourceFile{name, "include \"" + name + "x\""};
    };
    Diagnostics depth;
    parse("include \"a\"", "t.nem", deep, depth);
    EXPECT_THAT(depth.to_string(), HasSubstr("includes nested deeper than 32 files"));
    // one file includes 1500 others
    std::string wide;
    for (int i = 0; i < 1500; ++i) wide += fmt::format("include \"f{}\"\n", i);
    const FileLoader any = [](const std::string& name, const std::string&) { return SourceFile{name, ""}; };
    Diagnostics count;
    parse(wide, "t.nem", any, count);
    EXPECT_THAT(count.to_string(), HasSubstr("more than 1000 included files"));
}

TEST(includes, the_default_loader_finds_embedded_files) {
    static const EmbeddedFile extra[] = {{"extra_test.nem", "# nothing"}};
    register_embedded(extra, 1);
    const FileLoader loader = default_loader({});
    const auto file = loader("extra_test.nem", "<stdin>");
    ASSERT_TRUE(file.has_value());
    EXPECT_EQ(file->path, "<extra_test.nem>");
    EXPECT_TRUE(loader("families.nem", "<extra_test.nem>").has_value());
    EXPECT_FALSE(loader("/dev/zero", "").has_value());
    EXPECT_FALSE(loader("..", "").has_value());
}

struct BadConfig {
    const char* text;
    const char* message;
};

TEST(config, mistakes_are_named_with_their_place) {
    const std::string topology =
        "device d {{ spec_version = \"1\" topology {{ num_engines = {} l2_size_bytes = {} "
        "per_engine {{ NMU = {} l1_size_bytes = {} }} }} opcode.mandatory {{ }} }}";
    const auto with = [&](const char* engines, const char* l2, const char* nmu, const char* l1) {
        return parse_text(fmt::format(fmt::runtime(topology), engines, l2, nmu, l1)).errors();
    };
    EXPECT_EQ(with("1", "1", "1", "1"), "");
    EXPECT_THAT(with("1", "0", "1", "1"), HasSubstr("memory sizes must be > 0"));
    EXPECT_THAT(with("1", "1", "1", "0"), HasSubstr("memory sizes must be > 0"));
    EXPECT_THAT(with("1", "1 - 2", "1", "1"), HasSubstr("memory sizes must be > 0"));
    EXPECT_THAT(with("0", "1", "1", "1"), HasSubstr("num_engines must be at least 1"));
    EXPECT_THAT(with("1", "1", "0", "1"), HasSubstr("the number of NMU units must be at least 1"));
    EXPECT_THAT(with("1", "1.5", "1", "1"), HasSubstr("memory sizes must be integer"));
    EXPECT_THAT(with("1", "9223372036854775807 * 2", "1", "1"), HasSubstr("does not fit in 64 bits"));
    const BadConfig cases[] = {
        {"device d { opcode.mandatory { } }", "t.nem:1:8: error: device d has no spec_version"},
        {"device d { spec_version = \"1\" }", "has no opcode.mandatory"},
        {"device d extends e { spec_version = \"1\" }", "may not set spec_version"},
        {"device d extends e { sizes { } }", "unknown part `sizes` of a device"},
        {"device d extends e { opcode.extended { } opcode.extended { } }", "second `extended`"},
        {"device d extends e { topology { num_engines = 1 } }", "lacks l2_size_bytes"},
        {"device d extends e { topology { per_engine { XPU = 1 } } }", "unknown unit `XPU`"},
        {"device d extends e { opcode.extended { gemm } }", "names no variant"},
        {"device d extends e { opcode.extended { eltwise<i7>.default } }", "unknown element type `i7`"},
        {"device d extends e {", "found the end of the file"},
        {"type_family f<T: {i8}> { X: U variants: }", "neither an element type nor a parameter of f"},
        {"type_family f<T: {i8}> { X: T variants: d: { } conformance: { MUST<f16> } }",
         "not among the types"},
        {"type_family f<T: {i8}> { X: T variants: d: { } conformance: { MUST } }", "has 1 type parameters"},
        {"type_family f { X: i8 variants: d: { } conformance: { SHOULD } }", "expected MUST or MAY"},
    };
    for (const BadConfig& bad : cases) {
        const Parsed parsed = parse_text(bad.text);
        EXPECT_THAT(parsed.errors(), HasSubstr(bad.message)) << bad.text;
        EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << parsed.errors();
        EXPECT_THAT(parsed.errors(), HasSubstr("Fix: "));
    }
}

TEST(config, after_an_error_the_next_declaration_is_still_checked) {
    const Parsed parsed = parse_text(
        "device a { nonsense }\ndevice b { spec_version = 1 }\n"
        "device c { spec_version = \"1\" opcode.mandatory { } }");
    EXPECT_EQ(parsed.diagnostics.error_count(), 2u) << parsed.errors();
    ASSERT_EQ(parsed.document.devices.size(), 1u);
    EXPECT_EQ(parsed.document.devices[0].name, "c");
}

}  // namespace
}  // namespace kpu::nem
