#include <cmath>

#include "isa/opcodes.hpp"
#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The list of shipped platforms is complete and sorted.
TEST(Shipped, Names) {
    EXPECT_THAT(shipped_names(),
                ElementsAre("core128-fp8", "core128-hbm2", "core128-mx", "edge16", "gemmini16",
                            "gemmini16_big", "npm_lite", "npm_mid", "npm_pro", "npm_quad_cstl", "swkpu-v1",
                            "swkpu-v2", "tile32", "tpu_v3_core", "tpu_v4_core", "wormhole"));
}

/// Returns the variants that a file states: posits of another es come to the posits of their width.
std::vector<TypeVariant> own_variants(const DeviceLimits& limits) {
    std::vector<TypeVariant> own;
    for (const TypeVariant& variant : limits.variants) {
        const auto derived = [](const TypeVariant::Binding& binding) {
            return !binding.absent && !binding.any && without_es(binding.type) != binding.type;
        };
        if (std::none_of(variant.bindings.begin(), variant.bindings.end(), derived)) own.push_back(variant);
    }
    return own;
}

/// Every shipped platform loads, validates, has prices and limits, and its written form loads to the same
/// bytes.
TEST(Shipped, LoadAndRoundTrip) {
    for (const std::string& name : shipped_names()) {
        SCOPED_TRACE(name);
        const Platform platform = load(name);
        EXPECT_EQ(platform.name(), name);
        EXPECT_NO_THROW(validate(platform));
        const std::string text = to_textproto(platform);
        EXPECT_EQ(to_textproto(parse_textproto(text, "again")), text);
        const DeviceLimits limits = limits_of(platform);
        EXPECT_FALSE(limits.agnostic);
        EXPECT_EQ(own_variants(limits).size(), static_cast<size_t>(platform.variant_size()));
        EXPECT_GE(limits.variants.size(), 17u);
        EXPECT_FALSE(energy_prices(platform).actions.empty());
    }
}

/// Figures of the device table of the language: engines, memories, units, MAC rates, tokens.
TEST(Shipped, NpmDevices) {
    struct Row {
        const char* name;
        uint32_t engines;
        uint64_t l2, l1;
        uint32_t nmu, cstl, dma, vpu, sdma, wdm, rows, cols, tokens;
    };
    constexpr uint64_t kib = 1024, mib = 1024 * kib;
    const Row rows[] = {{"npm_lite", 1, mib, 512 * kib, 1, 2, 2, 1, 1, 0, 64, 64, 16},
                        {"npm_mid", 2, 4 * mib, mib, 1, 2, 2, 1, 2, 2, 64, 64, 16},
                        {"npm_pro", 4, 8 * mib, mib, 2, 4, 4, 1, 4, 4, 64, 128, 32},
                        {"npm_quad_cstl", 1, 2 * mib, mib, 1, 4, 4, 1, 2, 0, 64, 64, 16}};
    for (const Row& row : rows) {
        SCOPED_TRACE(row.name);
        const Platform platform = load(row.name);
        const DeviceLimits limits = limits_of(platform);
        EXPECT_EQ(limits.num_engines, row.engines);
        EXPECT_EQ(limits.l2_bytes, row.l2);
        EXPECT_EQ(limits.l1_bytes, row.l1);
        EXPECT_EQ(limits.max_active_tokens, row.tokens);
        EXPECT_EQ(limits.count(UnitKind::nmu), row.nmu);
        EXPECT_EQ(limits.count(UnitKind::cstl), row.cstl);
        EXPECT_EQ(limits.count(UnitKind::dma), row.dma);
        EXPECT_EQ(limits.count(UnitKind::vpu), row.vpu);
        EXPECT_EQ(limits.count(UnitKind::seq), 1u);
        EXPECT_EQ(limits.count(UnitKind::sdma), row.sdma);
        EXPECT_EQ(limits.count(UnitKind::wdm), row.wdm);
        EXPECT_EQ(platform.engine(0).array().rows(), row.rows);
        EXPECT_EQ(platform.engine(0).array().cols(), row.cols);
        EXPECT_EQ(engines_of(platform).size(), row.engines);
    }
    const Platform mid = load("npm_mid");
    const proto::SystolicArray& array = mid.engine(0).array();
    ASSERT_EQ(array.rate_size(), 4);
    EXPECT_EQ(array.rate(1).type(), "i8xi4");
    EXPECT_EQ(array.rate(1).relative(), 4.0);
    EXPECT_EQ(array.rate(2).relative(), 0.25);
    EXPECT_EQ(array.rate(3).type(), "f16");
    EXPECT_EQ(array.rate(3).relative(), 0.5);
}

double peak_gbps(const Platform& platform) {
    const proto::DdrDevice device = ddr_device(platform);
    return device.data_rate_mtps() * 1e-3 * device.bus_width_bits() / 8 * platform.ddr().channels();
}

/// The client's defaults: 16x16 at 500 MHz, 16 lanes, 256 KiB, 2 MiB, 4 GiB, 25.6 GB/s of DRAM, 256 GB/s of
/// SRAM.
TEST(Shipped, DeploymentClient) {
    const Platform platform = load("swkpu-v1");
    const proto::Engine& engine = platform.engine(0);
    EXPECT_EQ(engine.array().rows() * engine.array().cols(), 256u);
    EXPECT_EQ(core_clock(platform).hz(), 500'000'000u);
    EXPECT_EQ(engine.vector().lanes(), 16u);
    EXPECT_EQ(engine.l1().size_bytes(), 262144u);
    EXPECT_EQ(platform.l2().size_bytes(), 2097152u);
    EXPECT_EQ(platform.ddr().size_bytes(), 4294967296u);
    EXPECT_DOUBLE_EQ(peak_gbps(platform), 25.6);
    for (const proto::Sram* sram : {&engine.l1(), &platform.l2()}) {
        EXPECT_DOUBLE_EQ(sram->ports() * sram->bytes_per_cycle() * 0.5, 256.0);
    }
}

/// swkpu-v2 is swkpu-v1 with more types: int4 weights at twice int8, posit8 at the client's 3 of 4 TOPS.
TEST(Shipped, MoreTypes) {
    const Platform first = load("swkpu-v1"), second = load("swkpu-v2");
    std::map<std::string, double> rates;
    for (const proto::MacRate& rate : second.engine(0).array().rate()) rates[rate.type()] = rate.relative();
    const std::map<std::string, double> expected{{"i8", 1},     {"f16", 0.5},     {"i8xi4", 2},
                                                 {"bf16", 0.5}, {"posit8", 0.75}, {"posit16", 0.5}};
    EXPECT_EQ(rates, expected);
    EXPECT_EQ(to_textproto(first).find("posit"), std::string::npos);
    EXPECT_EQ(second.l2().size_bytes(), first.l2().size_bytes());
    EXPECT_DOUBLE_EQ(peak_gbps(second), peak_gbps(first));
    const auto has = [](const Platform& platform, const char* action) {
        const auto prices = energy_prices(platform);
        return std::any_of(prices.actions.begin(), prices.actions.end(),
                           [&](const auto& price) { return price.action == action; });
    };
    for (const char* action : {"mac.posit8", "mac.posit16", "mac.i4", "mac.bf16"}) {
        EXPECT_TRUE(has(second, action)) << action;
        EXPECT_FALSE(has(first, action)) << action;
    }
}

/// core128-fp8 is core128-hbm2 with float8 at twice bf16, as H100 has it.
TEST(Shipped, Float8) {
    const Platform first = load("core128-hbm2"), second = load("core128-fp8");
    std::map<std::string, double> rates;
    for (const proto::MacRate& rate : second.engine(0).array().rate()) rates[rate.type()] = rate.relative();
    EXPECT_DOUBLE_EQ(rates.at("f8e4m3"), 2 * rates.at("bf16"));
    EXPECT_DOUBLE_EQ(rates.at("f8e5m2"), 2 * rates.at("bf16"));
    EXPECT_EQ(rates.size(), first.engine(0).array().rate_size() + 2u);
    EXPECT_EQ(second.engine(0).array().operand_bytes_per_cycle(),
              first.engine(0).array().operand_bytes_per_cycle());
    EXPECT_DOUBLE_EQ(peak_gbps(second), peak_gbps(first));
    std::map<std::string, double> prices;
    for (const auto& price : energy_prices(second).actions) prices[price.action] = price.energy_pj;
    EXPECT_LT(prices.at("mac.f8e5m2"), prices.at("mac.f8e4m3"));
    EXPECT_LT(prices.at("mac.f8e4m3"), prices.at("mac.bf16"));
    EXPECT_GT(prices.at("mac.f8e5m2"), prices.at("mac.i8"));
}

/// core128-mx is core128-fp8 with elements of 6 bits at the rate of float8 and of 4 bits at twice that, as B200 has it.
TEST(Shipped, BlockFormats) {
    const Platform first = load("core128-fp8"), second = load("core128-mx");
    std::map<std::string, double> rates;
    for (const proto::MacRate& rate : second.engine(0).array().rate()) rates[rate.type()] = rate.relative();
    EXPECT_DOUBLE_EQ(rates.at("f6e2m3"), rates.at("f8e4m3"));
    EXPECT_DOUBLE_EQ(rates.at("f6e3m2"), rates.at("f8e4m3"));
    EXPECT_DOUBLE_EQ(rates.at("f8e4m3xf4e2m1"), rates.at("f8e4m3"));
    EXPECT_DOUBLE_EQ(rates.at("f4e2m1"), 2 * rates.at("f8e4m3"));
    EXPECT_EQ(second.engine(0).array().operand_bytes_per_cycle(),
              first.engine(0).array().operand_bytes_per_cycle());
    std::map<std::string, double> prices;
    for (const auto& price : energy_prices(second).actions) prices[price.action] = price.energy_pj;
    EXPECT_LT(prices.at("mac.f4e2m1"), prices.at("mac.f6e3m2"));
    EXPECT_LT(prices.at("mac.f6e3m2"), prices.at("mac.f8e5m2"));
    EXPECT_LT(prices.at("mac.f6e2m3"), prices.at("mac.f8e4m3"));
}

/// tile32 has MACs of the four types of the tile schedules; the HBM2 core has its stack's bandwidth.
TEST(Shipped, Tile32AndCore128) {
    const Platform tile = load("tile32");
    std::vector<std::string> types;
    for (const proto::MacRate& rate : tile.engine(0).array().rate()) types.push_back(rate.type());
    EXPECT_THAT(types, testing::UnorderedElementsAre("f32", "f16", "bf16", "i8"));
    EXPECT_EQ(tile.engine(0).l1().size_bytes(), 262144u);
    EXPECT_DOUBLE_EQ(peak_gbps(tile), 25.6);
    const Platform core = load("core128-hbm2");
    EXPECT_EQ(core.engine(0).array().rows(), 128u);
    EXPECT_DOUBLE_EQ(peak_gbps(core), 256.0);
}

/// Operand ports feed the longer side of every array at every type's rate; L1's ports and banks carry two
/// operands, the result and a DMA at once.
TEST(Shipped, ArraysCanBeFed) {
    for (const std::string& name : shipped_names()) {
        SCOPED_TRACE(name);
        const Platform platform = load(name);
        for (const proto::Engine& engine : engines_of(platform)) {
            const proto::SystolicArray& array = engine.array();
            for (const proto::MacRate& rate : array.rate()) {
                const int bits = rate.type().find("32") != std::string::npos   ? 32
                                 : rate.type().find("16") != std::string::npos ? 16
                                 : rate.type() == "f4e2m1"                     ? 4
                                                                               : 8;
                EXPECT_GE(array.operand_bytes_per_cycle(), array.cols() * rate.relative() * bits / 8)
                    << rate.type();
            }
            const proto::Sram& l1 = engine.l1();
            EXPECT_GE(l1.ports(), 4u);
            EXPECT_GE(l1.banks() * l1.bank_width_bytes(), l1.ports() * l1.bytes_per_cycle());
            EXPECT_GE(l1.bytes_per_cycle(), engine.dma().bytes_per_cycle());
        }
    }
}

/// Names in circulation reach the same device as the plain name.
TEST(Shipped, Aliases) {
    const std::string lite = to_textproto(load("npm_lite"));
    for (const char* alias : {"npm_lite.cfg", "npm_lite_.nem", "npm_lite.nem", "some/folder/npm_lite.cfg"}) {
        EXPECT_EQ(to_textproto(load(alias)), lite) << alias;
        EXPECT_TRUE(is_shipped(alias)) << alias;
    }
    for (const char* other :
         {"npm_baseline_1_0", "kpusim_ext", "ddr_devices", "energy_generic_16nm", "mine", ""}) {
        EXPECT_FALSE(is_shipped(other)) << other;
    }
    const auto loader = file_loader({});
    for (const char* name : {"npm_baseline_1_0.nem", "nem_baseline_1_0.nem", "npm_baseline_1.0.nem",
                             "nem_baseline_1.0.nem", "kpusim_ext.nem"}) {
        EXPECT_TRUE(loader(name, "<test>").has_value()) << name;
    }
    EXPECT_FALSE(loader("no_such_device.nem", "<test>").has_value());
    EXPECT_THAT(error_of([] { load("nem_baseline_1_0"); }), HasSubstr("abstract"));
}

/// Networks compile to every shipped device: each opcode has a variant there, those of int4 where arrays have int4.
TEST(Shipped, EveryOpcodeHasVariants) {
    for (const std::string& name : shipped_names()) {
        const DeviceLimits limits = limits_of(load(name));
        for (const OpcodeSpec& spec : opcode_table()) {
            const auto int4 = [](const TypeVariant& v) { return v.name == "gemm.int4.no_bias"; };
            if (spec.movement || spec.refused) continue;
            if (spec.group_scales && std::none_of(limits.variants.begin(), limits.variants.end(), int4))
                continue;
            const auto blocks = [](const TypeVariant& v) { return v.family == "gemm.mx"; };
            const bool of_blocks =
                spec.family.size() > 3 && spec.family.substr(spec.family.size() - 3) == ".mx";
            if (of_blocks && std::none_of(limits.variants.begin(), limits.variants.end(), blocks)) continue;
            const auto takes = [&](const TypeVariant& v) { return v.opcode == spec.family; };
            EXPECT_TRUE(std::any_of(limits.variants.begin(), limits.variants.end(), takes))
                << name << " has no variant of " << spec.name;
        }
    }
}

/// Without a device, every variant of the language's families and of kpusim_ext.nem is allowed.
TEST(Shipped, AgnosticLimits) {
    const DeviceLimits limits = agnostic_limits();
    EXPECT_TRUE(limits.agnostic);
    size_t extensions = 0, future = 0, conditions = 0, unsigned_elements = 0;
    const std::vector<TypeVariant> variants = own_variants(limits);
    for (const TypeVariant& variant : variants) {
        extensions += variant.family == "gemm.acc" || variant.family == "conv2d.acc" ||
                      variant.family == "gemm.group" || variant.family == "conv2d.group" ||
                      variant.family == "requant" || variant.family == "gemm.mx" ||
                      variant.family == "quantize.mx" || variant.family == "dequantize.mx" ||
                      variant.family.find(".mx.") != std::string::npos ||
                      variant.family == "gemm.float_bias" || variant.family == "quantize.ext" ||
                      variant.family == "dequantize.ext";
        conditions +=
            variant.opcode == "compare" || variant.opcode == "classify" || variant.opcode == "logic";
        const std::string& family = variant.family;
        unsigned_elements += family == "eltwise.ext" || family == "view.ext" || family == "reduce.ext" ||
                             family == "arg_reduce.ext";
        const auto op = find_opcode(variant.opcode);
        future +=
            (op && opcode(*op).future) || family == "reduce" || family == "arg_reduce" || family == "scan";
    }
    EXPECT_EQ(extensions, 18u + 18u + 4u + 4u + 2u + 2u + 7u + 9u + 4u + 6u + 6u + 44u);
    EXPECT_EQ(future, 4u * (6 + 3 + 2 + 4 + 4) + 6 + 6 + 6);  // four convolutions, reductions, searches, sums
    EXPECT_EQ(conditions, 13u + 7u + 1u);
    EXPECT_EQ(unsigned_elements, 4u * 3);
    EXPECT_EQ(variants.size() - extensions - future - conditions - unsigned_elements, 17u + 48u + 22u);
}

}  // namespace
}  // namespace kpu::platforms
