#include "platforms/nem_device.hpp"

#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr const char* topology =
    "topology { num_engines = 2 l2_size_bytes = 1048576 device_units { sDMA = 3 }\n"
    "  per_engine { NMU = 1 CSTL = 2 DMA = 2 VPU = 1 SEQ = 1 l1_size_bytes = 65536 } }\n";
constexpr const char* macs = "unit_characteristics { NMU { int8_macs = 512 fp16_macs = 128 } }\n";

struct Outcome {
    Platform platform;
    Diagnostics diagnostics;
};

Outcome resolve(const std::string& devices, const std::string& name) {
    Outcome outcome;
    const std::string text = "include \"npm_baseline_1_0.nem\"\ninclude \"kpusim_ext.nem\"\n" + devices;
    const nem::Document document = nem::parse(text, "dev.nem", file_loader({}), outcome.diagnostics);
    if (outcome.diagnostics.has_errors()) return outcome;
    outcome.platform = from_nem(document, name, outcome.diagnostics);
    return outcome;
}

std::string device(const std::string& name, const std::string& parent, const std::string& body) {
    return "device " + name + " extends " + parent + " {\n" + body + "}\n";
}

/// A child inherits everything, replaces the topology as a whole, merges characteristics per key and unites
/// opcode sets, at any depth.
TEST(NemDevice, Inheritance) {
    const std::string text =
        device("a", "npm_baseline_1_0",
               std::string(topology) +
                   "unit_characteristics { NMU { int8_macs = 512 fp16_macs = 128 } SEQ { "
                   "max_active_tokens = 4 } }\nopcode.extended { eltwise<i32>.default }\n") +
        device("b", "a", "unit_characteristics { NMU { fp16_macs = 256 } DMA { bytes_per_cycle = 48 } }\n") +
        device("c", "b",
               "topology { num_engines = 1 l2_size_bytes = 524288\n  per_engine { NMU = 2 CSTL = 1 DMA = 1 "
               "VPU = 1 "
               "SEQ = 1 l1_size_bytes = 32768 } }\nopcode.extended { eltwise<f32>.default }\n");
    const Outcome c = resolve(text, "c");
    ASSERT_FALSE(c.diagnostics.has_errors()) << c.diagnostics.to_string();
    const proto::Engine& engine = c.platform.engine(0);
    EXPECT_EQ(engine.count(), 1u);
    EXPECT_EQ(c.platform.l2().size_bytes(), 524288u);
    EXPECT_EQ(engine.l1().size_bytes(), 32768u);
    EXPECT_EQ(engine.array().count(), 2u);
    EXPECT_EQ(c.platform.system_dma().channels(), 1u);  // the default: c's topology says nothing, a's is gone
    EXPECT_EQ(engine.array().rows(), 16u);              // 512 = 16 x 32
    EXPECT_EQ(engine.array().cols(), 32u);
    EXPECT_EQ(engine.array().rate(1).relative(), 0.5);
    EXPECT_EQ(engine.dma().bytes_per_cycle(), 48u);
    EXPECT_EQ(c.platform.sequencer().max_active_tokens(), 4u);
    EXPECT_EQ(c.platform.variant_size(), 19);
    EXPECT_THAT(c.platform.variant(),
                AllOf(Contains("eltwise<i32>.default"), Contains("eltwise<f32>.default")));
    const Outcome a = resolve(text, "a");
    EXPECT_EQ(a.platform.system_dma().channels(), 3u);
    EXPECT_EQ(a.platform.engine(0).array().rate(1).relative(), 0.25);
}

/// Our keys set platform fields; every one of them is a field; other keys are kept as they are.
TEST(NemDevice, Characteristics) {
    const Outcome outcome =
        resolve(device("d", "npm_baseline_1_0",
                       std::string(topology) +
                           "unit_characteristics { NMU { int8_macs = 4096 rows = 32 cols = 128 }\n"
                           "CSTL { elems_per_cycle = 256 } DMA { descriptor_cycles = 9 } SEQ { "
                           "dispatch_cycles = 5 } SYS { core_mhz = 750 } WDM { magic = 42 } }\n"),
                "d");
    ASSERT_FALSE(outcome.diagnostics.has_errors()) << outcome.diagnostics.to_string();
    const proto::Engine& engine = outcome.platform.engine(0);
    EXPECT_EQ(engine.array().rows(), 32u);
    EXPECT_EQ(engine.array().cols(), 128u);
    EXPECT_EQ(engine.vector().lanes(), 256u);
    EXPECT_EQ(engine.dma().descriptor_cycles(), 9u);
    EXPECT_EQ(outcome.platform.sequencer().dispatch_cycles(), 5u);
    EXPECT_EQ(outcome.platform.clock().core_mhz(), 750.0);
    ASSERT_EQ(outcome.platform.characteristic_size(), 1);
    EXPECT_EQ(outcome.platform.characteristic(0).unit(), "WDM");
    EXPECT_EQ(outcome.platform.characteristic(0).key(), "magic");
    EXPECT_EQ(outcome.platform.characteristic(0).value(), 42);
    for (const CharacteristicKey& key : characteristic_keys()) {
        EXPECT_NE(find_parameter(key.path), nullptr) << key.path;
    }
}

std::string errors(const std::string& devices, const std::string& name) {
    const Outcome outcome = resolve(devices, name);
    EXPECT_TRUE(outcome.diagnostics.has_errors());
    return outcome.diagnostics.to_string();
}

/// Rules of the language: each broken one is an error with the place of the device.
TEST(NemDevice, Rules) {
    EXPECT_THAT(errors(device("d", "npm_baseline_1_0", macs), "d"),
                AllOf(HasSubstr("dev.nem:3:"), HasSubstr("abstract")));
    EXPECT_THAT(errors(device("d", "nobody", topology), "d"), HasSubstr("unknown device `nobody`"));
    EXPECT_THAT(
        errors(device("d", "npm_baseline_1_0", "spec_version = \"1.0\"\n" + std::string(topology) + macs),
               "d"),
        HasSubstr("may not set spec_version"));
    EXPECT_THAT(
        errors("device d { " + std::string(topology) + macs + "opcode.mandatory { cast.default } }", "d"),
        HasSubstr("no spec_version"));
    EXPECT_THAT(errors("device d { spec_version = \"1.0\" " + std::string(topology) + macs +
                           "opcode.mandatory { cast.default } }",
                       "d"),
                AllOf(HasSubstr("gemm.float<f16>.no_bias"), Not(HasSubstr("cast.default"))));
    EXPECT_THAT(errors("device d { spec_version = \"1.0\" " + std::string(topology) + macs + "}", "d"),
                HasSubstr("no opcode.mandatory"));
    EXPECT_THAT(errors(device("d", "npm_baseline_1_0", topology), "d"),
                HasSubstr("NMU.int8_macs must be a power of two"));
    EXPECT_THAT(errors(device("d", "npm_baseline_1_0",
                              std::string(topology) + "unit_characteristics { NMU { int8_macs = 4095 } }\n"),
                       "d"),
                HasSubstr("power of two"));
    EXPECT_THAT(
        errors(device("d", "npm_baseline_1_0",
                      std::string(topology) +
                          "unit_characteristics { NMU { int8_macs = 64 } DMA { bytes_per_cycle = 0 } }\n"),
               "d"),
        HasSubstr("`engine.dma.bytes_per_cycle` is 0"));
    EXPECT_THAT(errors("device a extends b { }\ndevice b extends a { }\n", "a"),
                HasSubstr("extends `b`, which is declared after it"));
}

/// A variant in both sets is a warning, and stands once in the platform.
TEST(NemDevice, OverlapIsAWarning) {
    const Outcome outcome = resolve(
        device("d", "npm_baseline_1_0", std::string(topology) + macs + "opcode.extended { cast.default }\n"),
        "d");
    EXPECT_FALSE(outcome.diagnostics.has_errors()) << outcome.diagnostics.to_string();
    EXPECT_THAT(outcome.diagnostics.to_string(), HasSubstr("both mandatory and extended"));
    EXPECT_EQ(outcome.platform.variant_size(), 17);
}

}  // namespace
}  // namespace kpu::platforms
