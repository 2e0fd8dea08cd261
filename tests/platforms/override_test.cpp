#include "support.hpp"

namespace kpu::platforms {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Pinned {
    const char* path;
    const char* value;
    const char* printed;  ///< text that the written platform must then hold
};

class PinnedName : public testing::TestWithParam<Pinned> {};

/// Every name that the design pins for --set changes that field of the platform, and only makes valid
/// platforms.
TEST_P(PinnedName, SetsItsField) {
    const Pinned& pinned = GetParam();
    const Platform before = load("npm_mid");
    const Platform after = load("npm_mid", {{pinned.path, pinned.value}});
    EXPECT_NE(to_textproto(before), to_textproto(after));
    EXPECT_THAT(to_textproto(after), HasSubstr(pinned.printed));
}

INSTANTIATE_TEST_SUITE_P(
    Override, PinnedName,
    testing::Values(Pinned{"clock.core_mhz", "1333.333", "core_mhz: 1333.333\n"},
                    Pinned{"engine.array.rows", "32", "rows: 32\n"},
                    Pinned{"engine.array.cols", "128", "cols: 128\n"},
                    Pinned{"engine.array.dataflow", "ws", "dataflow: ws\n"},
                    Pinned{"engine.array.timing", "compat", "timing: compat\n"},
                    Pinned{"engine.l1.size_bytes", "131072", "size_bytes: 131072\n"},
                    Pinned{"engine.l1.banks", "2", "banks: 2\n"},
                    Pinned{"engine.l1.bytes_per_cycle", "24", "bytes_per_cycle: 24\n"},
                    Pinned{"engine.dma.channels", "7", "channels: 7\n"},
                    Pinned{"engine.dma.bytes_per_cycle", "24", "bytes_per_cycle: 24\n"},
                    Pinned{"engine.vector.lanes", "24", "lanes: 24\n"},
                    Pinned{"sequencer.max_active_tokens", "5", "max_active_tokens: 5\n"},
                    Pinned{"l2.size_bytes", "131072", "size_bytes: 131072\n"},
                    Pinned{"l2.banks", "2", "banks: 2\n"},
                    Pinned{"l2.bytes_per_cycle", "24", "bytes_per_cycle: 24\n"},
                    Pinned{"system_dma.channels", "7", "channels: 7\n"},
                    Pinned{"system_dma.max_outstanding_bursts", "3", "max_outstanding_bursts: 3\n"},
                    Pinned{"ddr.device", "DDR4-3200", "device: \"DDR4-3200\"\n"},
                    Pinned{"ddr.channels", "8", "channels: 8\n"},
                    Pinned{"ddr.mapping", "bank_group_interleaved", "mapping: \"bank_group_interleaved\"\n"},
                    Pinned{"ddr.data_rate_mtps", "1600", "data_rate_mtps: 1600\n"},
                    Pinned{"energy.corner", "low", "corner: low\n"},
                    Pinned{"store_on_dma", "true", "store_on_dma: true\n"}));

Platform two_kinds() {
    Platform platform = load("swkpu-v1");
    *platform.add_engine() = platform.engine(0);
    return platform;
}

/// Without an index every engine changes, with one only that one; unknown indices are errors.
TEST(Override, Indices) {
    Platform platform = two_kinds();
    apply_override(platform, "engine.array.rows", "64");
    EXPECT_EQ(platform.engine(0).array().rows(), 64u);
    EXPECT_EQ(platform.engine(1).array().rows(), 64u);
    apply_override(platform, "engine[1].array.rows", "8");
    EXPECT_EQ(platform.engine(0).array().rows(), 64u);
    EXPECT_EQ(platform.engine(1).array().rows(), 8u);
    EXPECT_THAT(error_of([&] { apply_override(platform, "engine[2].array.rows", "8"); }),
                HasSubstr("`engine[2]` does not exist; the platform has 2 of them"));
    EXPECT_THAT(error_of([&] { apply_override(platform, "l2[0].banks", "8"); }),
                HasSubstr("`l2` is not a list"));
}

/// Rates and costs are addressed by type and opcode; a new one is added.
TEST(Override, ListsByKey) {
    const Platform platform = load("swkpu-v1", {{"engine.array.rate[i8]", "0.5"},
                                                {"engine.array.rate[bf16].relative", "0.25"},
                                                {"engine.vector.cost[relu].cycles_per_element", "3"}});
    const proto::SystolicArray& array = platform.engine(0).array();
    EXPECT_EQ(array.rate(0).relative(), 0.5);
    EXPECT_EQ(array.rate(2).type(), "bf16");
    EXPECT_EQ(array.rate(2).relative(), 0.25);
    EXPECT_EQ(platform.engine(0).vector().cost(1).opcode(), "relu");
    EXPECT_EQ(platform.engine(0).vector().cost(1).passes(), 1u);
}

/// Rows and columns keep the relative rates, so that the peak follows the array, and the ports follow it.
TEST(Override, RatesStay) {
    const Platform platform = load("npm_lite", {{"engine.array.rows", "128"}, {"engine.array.cols", "128"}});
    EXPECT_EQ(platform.engine(0).array().rate(1).relative(), 0.5);
    EXPECT_EQ(platform.engine(0).array().operand_bytes_per_cycle(), 128u);
    EXPECT_EQ(platform.engine(0).array().result_bytes_per_cycle(), 512u);
}

/// Unknown paths name the nearest parameter; values of a wrong type or range say what is allowed.
TEST(Override, Errors) {
    const auto set = [](const std::string& path, const std::string& value) {
        return error_of([&] { load("swkpu-v1", {{path, value}}); });
    };
    EXPECT_THAT(set("engine.array.row", "4"), AllOf(HasSubstr("no parameter `engine.array.row`"),
                                                    HasSubstr("did you mean `engine.array.rows`?")));
    EXPECT_THAT(set("engine[0].arry.rows", "4"), HasSubstr("did you mean `engine.array.rows`?"));
    EXPECT_THAT(set("clock.core_mhz.x", "4"), HasSubstr("no parameter"));
    for (const char* path :
         {"", ".", "engine..rows", "engine[.rows", "engine[].rows", "engine[0]x.rows", "l2."}) {
        EXPECT_THAT(set(path, "4"), HasSubstr("no parameter")) << path;
    }
    EXPECT_THAT(set(std::string(100000, 'a'), "4"), HasSubstr("no parameter"));
    EXPECT_THAT(set("engine.array", "4"), AllOf(HasSubstr("is a group"), HasSubstr("engine.array.rows")));
    EXPECT_THAT(set("engine[0]", "4"), HasSubstr("is a group"));
    EXPECT_THAT(set("variant", "x"), HasSubstr("list of texts"));
    EXPECT_THAT(set("engine.array.rows", "0"), HasSubstr("from 1 to 4096"));
    EXPECT_THAT(set("l2.banks", "3"), HasSubstr("power of two"));
    for (const char* value : {"", "x", "4x", "-4", "4.5", "99999999999"}) {
        EXPECT_THAT(set("engine.array.rows", value), HasSubstr("not a value of type integer")) << value;
    }
    EXPECT_THAT(set("clock.core_mhz", "inf"), HasSubstr("from 0.001 to 100000"));
    EXPECT_THAT(set("energy.corner", "lowest"), HasSubstr("low|nominal|high"));
    EXPECT_THAT(set("ddr.mapping", "x"), HasSubstr("bank_group_interleaved, row_bank_column"));
    EXPECT_THAT(set("store_on_dma", "1"), HasSubstr("boolean"));
    EXPECT_THAT(set("ddr.device", "DDR5"), HasSubstr("unknown device `DDR5`"));
    EXPECT_THAT(set("engine.array.rate[i5]", "1"), HasSubstr("i8xi4"));
}

/// An override may give what the file leaves out.
TEST(Override, ReplacesAMissingField) {
    const std::string path = testing::TempDir() + "kpusim_override_test.textproto";
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    const std::string text = replaced(valid_text(), "    rows: 16\n", "");
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
    EXPECT_EQ(load(path, {{"engine.array.rows", "4"}}).engine(0).array().rows(), 4u);
    std::remove(path.c_str());
}

}  // namespace
}  // namespace kpu::platforms
