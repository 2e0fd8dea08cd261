// Bad input: traces, timing sets, mappings, channels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/diagnostics.hpp"
#include "tests/dram/support.hpp"

namespace kpu::dram {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename Action>
std::string error_of(Action action) {
    try {
        action();
    } catch (const UserError& error) {
        return error.diagnostics().all().empty() ? error.what() : error.diagnostics().to_string();
    }
    return "no error";
}

class TraceText : public testing::Test {
  protected:
    std::string path_ = testing::TempDir() + "kpusim_dram_trace_" + std::to_string(getpid());
    ~TraceText() override { std::remove(path_.c_str()); }
    std::vector<TraceRequest> read(const std::string& text, TraceOptions options = {},
                                   const std::string& device = "DDR4-3200", uint32_t channels = 1) {
        std::ofstream(path_, std::ios::binary) << text;
        const ReplayConfig system{config_of(device), channels};
        TraceFile file(path_, system, options);
        std::vector<TraceRequest> requests;
        while (const auto request = file.next()) requests.push_back(*request);
        return requests;
    }
    std::string error(const std::string& text) {
        return error_of([&] { read(text); });
    }
};

/// Both forms, comments, empty lines, Windows line ends, a last line without its end.
TEST_F(TraceText, BothFormsAreRead) {
    const auto csv = read("# a comment\n0,R,0x40,0\r\n\n1,W,0x1F80,1000\n2,R,128,1000");
    ASSERT_EQ(csv.size(), 3u);
    EXPECT_EQ(csv[1].time, 1600u);
    EXPECT_EQ(csv[1].address, 0x1f80u);
    EXPECT_TRUE(csv[1].is_write);
    EXPECT_EQ(csv[1].line, 4u);
    EXPECT_EQ(csv[2].address, 128u);
    const auto stl = read("0: read 0x40\n1600: write 0x1f80\n");
    ASSERT_EQ(stl.size(), 2u);
    EXPECT_EQ(stl[1].time, 1600u);
    EXPECT_TRUE(stl[1].is_write);
}

/// Each malformed line is refused with its number and a fix.
TEST_F(TraceText, MalformedLinesAreRefusedWithTheirNumber) {
    EXPECT_THAT(error("0,R,0x40,0\n1,X,0x40,0\n"),
                AllOf(HasSubstr(":2:1: error:"), HasSubstr("neither R nor W"), HasSubstr("Fix:")));
    EXPECT_THAT(error("0,R,0x40\n"), AllOf(HasSubstr(":1:1:"), HasSubstr("four cells")));
    EXPECT_THAT(error("0,R,0x40,0,9\n"), HasSubstr("four cells"));
    EXPECT_THAT(error("0,R,0x4g,0\n"), HasSubstr("`0x4g` is not an address"));
    EXPECT_THAT(error("0,R,0x11112222333344445,0\n"), HasSubstr("not an address"));
    EXPECT_THAT(error("0,R,0x40,-1\n"), HasSubstr("not a time"));
    EXPECT_THAT(error("0,R,0x40,nan\n"), HasSubstr("not a time"));
    EXPECT_THAT(error("0,R,0x40,1e30\n"), HasSubstr("not a time"));
    EXPECT_THAT(error("x,R,0x40,0\n"), HasSubstr("not a request number"));
    EXPECT_THAT(error("0,R,0x40,10\n1,R,0x40,9\n"), AllOf(HasSubstr(":2:1:"), HasSubstr("sort the trace")));
    EXPECT_THAT(error("0: read 0x40\n1: fetch 0x40\n"),
                AllOf(HasSubstr(":2:1:"), HasSubstr("neither read nor write")));
    EXPECT_THAT(error("a: read 0x40\n"), HasSubstr("not a clock number"));
    EXPECT_THAT(error("0: read\n"), HasSubstr("not an address"));
    EXPECT_THAT(error("0: read 0x40\nread 0x40\n"), HasSubstr("no colon"));
    EXPECT_THAT(error("hello\n"), HasSubstr("not a request"));
    EXPECT_THAT(error(std::string(10000, 'a')), HasSubstr("longer than"));
    const ReplayConfig any{config_of("DDR4-3200")};
    EXPECT_THAT(error_of([&] { TraceFile("/nonexistent/trace", any); }), HasSubstr("cannot read trace"));
    EXPECT_THAT(error_of([&] { TraceFile("/", any).next(); }), HasSubstr("cannot read"));
}

/// The trace of DRAMSys: lengths in bytes, data, absolute and relative times, clocks of the trace's own.
TEST_F(TraceText, TracesOfDramSys) {
    const auto stl = read("# a comment\n10: (256) read 0x40 \n31:\twrite 0x400140 0x00ff\n32: read 80\n");
    ASSERT_EQ(stl.size(), 6u);  // four bursts of the first line
    for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(stl[i].address, 0x40 + 64 * i);
        EXPECT_EQ(stl[i].time, 10u);
        EXPECT_EQ(stl[i].line, 2u);
        EXPECT_FALSE(stl[i].is_write || stl[i].relative);
    }
    EXPECT_TRUE(stl[4].is_write);
    EXPECT_EQ(stl[4].address, 0x400140u);
    EXPECT_EQ(stl[5].address, 0x80u);
    // 300 MHz beside a DRAM of 1600: 16/3 clocks each, whose rounding does not add up
    std::string lines = "# clock_mhz: 300\n";
    for (int i = 0; i < 300; ++i) lines += "1: (128) read 0x0\n";
    const auto relative = read(lines, {TraceForm::rstl, {}});
    ASSERT_EQ(relative.size(), 600u);
    uint64_t sum = 0;
    for (size_t i = 0; i < relative.size(); ++i) {
        EXPECT_TRUE(relative[i].relative);
        if (i % 2 == 1) {
            EXPECT_EQ(relative[i].time, 0u);
        }
        sum += relative[i].time;
    }
    EXPECT_EQ(sum, 1600u);
    // what is given holds against what the file says
    EXPECT_EQ(read("# clock_mhz: 300\n3: read 0x0\n").at(0).time, 16u);
    EXPECT_EQ(read("# clock_mhz: 300\n3: read 0x0\n", {TraceForm::unknown, 1600.0}).at(0).time, 3u);
    std::remove(path_.c_str());
    path_ += ".rstl";
    EXPECT_EQ(read("3: read 0x0\n3: read 0x0\n").at(1).time, 3u);
    EXPECT_TRUE(read("3: read 0x0\n").at(0).relative);
}

/// Ramulator 2: addresses, and numbers of a level each, which lie where the mapping puts them.
TEST_F(TraceText, TracesOfRamulator) {
    const auto plain = read("LD 0x1f40\nST 128\n");
    ASSERT_EQ(plain.size(), 2u);
    EXPECT_EQ(plain[0].address, 0x1f40u);
    EXPECT_TRUE(plain[1].is_write);
    EXPECT_EQ(plain[1].address, 128u);
    EXPECT_EQ(plain[1].time, 0u);
    const auto vectors = read("R 0,0,3,1,77,5\nW 1,0,0,0,0,0\n", {}, "DDR4-3200", 2);
    ASSERT_EQ(vectors.size(), 2u);
    // channel by blocks of 256 bytes
    const auto local = [](uint64_t address) { return address / 512 * 256 + address % 256; };
    EXPECT_EQ(vectors[0].address / 256 % 2, 0u);
    const auto place = config_of("DDR4-3200").map.place(local(vectors[0].address));
    EXPECT_EQ(place.bank, 3u * 4 + 1);
    EXPECT_EQ(place.row, 77u);
    EXPECT_EQ(vectors[1].address, 256u);
    // LPDDR4 has no bank groups
    EXPECT_EQ(read("R 0,0,7,1,0\n", {}, "LPDDR4-3200").size(), 1u);
}

TEST_F(TraceText, MalformedLinesOfOtherSimulators) {
    EXPECT_THAT(error("0: (64 read 0x40\n"), AllOf(HasSubstr(":1:1:"), HasSubstr("no closing parenthesis")));
    EXPECT_THAT(error("0: (0) read 0x40\n"), HasSubstr("not a number of bytes"));
    EXPECT_THAT(error("0: (-1) read 0x40\n"), HasSubstr("not a number of bytes"));
    EXPECT_THAT(error("0: (64)\n"), HasSubstr("neither read nor write"));
    EXPECT_THAT(error("0: write 0x40 0xzz\n"), HasSubstr("nor data"));
    EXPECT_THAT(error("0: write 0x40 12 34\n"), HasSubstr("nor data"));
    EXPECT_THAT(error("# clock_mhz: fast\n0: read 0x40\n"), HasSubstr("is not a clock"));
    EXPECT_THAT(error("5: read 0x40\n4: read 0x40\n"), AllOf(HasSubstr(":2:1:"), HasSubstr(".rstl")));
    EXPECT_THAT(error("LD 0x40\nLOAD 0x40\n"), AllOf(HasSubstr(":2:1:"), HasSubstr("none of LD")));
    EXPECT_THAT(error("LD\n"), HasSubstr("two words"));
    EXPECT_THAT(error("LD 0x40 7\n"), HasSubstr("two words"));
    EXPECT_THAT(error("LD 0x4g\n"), HasSubstr("not an address"));
    EXPECT_THAT(error("R 0,0,4,0,0,0\n"),
                AllOf(HasSubstr("`4` is not a valid bank group"), HasSubstr("0 to 3")));
    EXPECT_THAT(error("R 0,0,0,0,0,128\n"), HasSubstr("not a valid column"));
    EXPECT_THAT(error("R 0,0,-1,0,0,0\n"), HasSubstr("not a valid bank group"));
    EXPECT_THAT(error("R 0,0,0,0,0\n"),
                AllOf(HasSubstr("5 numbers, an address of this device 6"), HasSubstr("channel, rank")));
    EXPECT_THAT(error("R 0,0,0,0,0,0,0\n"), HasSubstr("7 numbers"));
}

/// The address of a place is the one that has it, with split fields too.
TEST(DramInput, AddressesOfPlaces) {
    for (const char* order : {"bg col ba ra row", "row:4 bg:1 col:7 bg:1 ba ra row"}) {
        const AddressMap map = config_of("DDR4-3200", order, 2).map;
        for (uint64_t i = 0; i < 2000; ++i) {
            const uint64_t x = i * 0x9e3779b97f4a7c15;
            const AddressMap::Fields fields{x >> 63, x >> 61 & 3, x >> 59 & 3, x >> 40 & 0xffff,
                                            x >> 30 & 127};
            const auto place = map.place(map.address(fields));
            EXPECT_EQ(place.bank, fields.rank * 16 + fields.group * 4 + fields.bank);
            EXPECT_EQ(place.row, fields.row);
        }
    }
}

/// No bytes, however strange, end in anything but requests or a UserError.
TEST_F(TraceText, RandomBytesAreRefusedNotFatal) {
    uint64_t x = 88172645463325252u;
    const std::string letters = "0123456789abcdefxRWLDST,: \nread write#\r\t-.e()";
    for (int i = 0; i < 300; ++i) {
        std::string text;
        // most lines begin as those of one form
        constexpr const char* starts[] = {"",       "0: read 0x", "1: (",         "LD 0x",
                                          "R 0,0,", "0,R,0x",     "# clock_mhz: "};
        text = starts[i % 7];
        for (int k = 0; k < 60; ++k) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            text += letters[x % letters.size()];
        }
        error(text);
    }
}

/// An address beyond the memory is refused with its line.
TEST(DramInput, AddressesMustLieInTheMemory) {
    const auto with = [](uint64_t address, uint32_t channels) {
        return error_of([=] {
            ListTrace trace({{0, 0, false, 1}, {0, address, false, 2}});
            replay({config_of("DDR4-3200"), channels}, trace);
        });
    };
    EXPECT_THAT(with(uint64_t{8} << 30, 1),
                AllOf(HasSubstr("list:2:1:"), HasSubstr("0x200000000"), HasSubstr("Fix:")));
    EXPECT_EQ(with((uint64_t{8} << 30) - 1, 1), "no error");
    EXPECT_EQ(with(uint64_t{8} << 30, 2), "no error");
}

TEST(DramInput, ImpossibleSystemsAreRefused) {
    const auto with = [](ReplayConfig config) {
        return error_of([&] {
            ListTrace trace({});
            replay(config, trace);
        });
    };
    EXPECT_THAT(with({config_of("DDR4-3200"), 0}), AllOf(HasSubstr("0 DRAM channels"), HasSubstr("Fix:")));
    EXPECT_THAT(with({config_of("DDR4-3200"), 1, 100}), HasSubstr("multiple of the burst"));
    EXPECT_THAT(with({config_of("DDR4-3200"), 1, 256, 0}), HasSubstr("outstanding"));
    EXPECT_THAT(error_of([] { config_of("DDR4-3200", "bank_group_interleaved", 0); }),
                HasSubstr("`ranks` is 0"));
    EXPECT_THAT(error_of([] { config_of("DDR4-3200", "bank_group_interleaved", 8); }),
                HasSubstr("at most 64 banks"));
}

/// A timing set that no device can have names both sides of the broken relation.
TEST(DramInput, ImpossibleTimingsAreRefused) {
    const auto with = [](auto change) {
        proto::DdrDevice device = platforms::rated_ddr_device("DDR4-3200");
        change(device);
        return error_of([&] { make_config(device, platforms::default_ddr_controller(), "row_bank_column"); });
    };
    EXPECT_EQ(with([](auto&) {}), "no error");
    EXPECT_THAT(with([](auto& d) { d.set_trc(73); }),
                AllOf(HasSubstr("tRC = 73"), HasSubstr("tRAS + tRP = 74"), HasSubstr("Fix:")));
    EXPECT_THAT(with([](auto& d) {
                    d.set_tras(21);
                    d.set_trc(74);
                }),
                HasSubstr("tRAS = 21"));
    EXPECT_THAT(with([](auto& d) { d.set_tccd_l(3); }), HasSubstr("tCCD_L = 3"));
    EXPECT_THAT(with([](auto& d) { d.set_trrd_l(3); }), HasSubstr("tRRD_L = 3"));
    EXPECT_THAT(with([](auto& d) { d.set_twtr_l(3); }), HasSubstr("tWTR_L = 3"));
    EXPECT_THAT(with([](auto& d) { d.set_rd_to_wr(5); }), HasSubstr("CL + burst = 26"));
    EXPECT_THAT(with([](auto& d) { d.set_trefi(600); }), HasSubstr("tREFI = 600"));
    EXPECT_THAT(with([](auto& d) { d.set_txs(500); }), HasSubstr("tXS = 500"));
    EXPECT_THAT(with([](auto& d) { d.set_cl(0); }), HasSubstr("`cl` is 0 clocks"));
    EXPECT_THAT(with([](auto& d) { d.set_cl(0xffffffff); }), HasSubstr("`cl`"));
    EXPECT_THAT(with([](auto& d) { d.set_rows(1000); }), HasSubstr("power of two"));
    EXPECT_THAT(with([](auto& d) { d.set_tck_ns(0); }), HasSubstr("tck_ns"));
    EXPECT_THAT(with([](auto& d) { d.set_row_bytes(32); }), HasSubstr("row_bytes = 32"));
}

TEST(DramInput, ImpossibleControllersAreRefused) {
    const auto with = [](auto change) {
        proto::DdrController controller = platforms::default_ddr_controller();
        change(controller);
        return error_of(
            [&] { make_config(platforms::rated_ddr_device("DDR4-3200"), controller, "row_bank_column"); });
    };
    EXPECT_THAT(with([](auto& c) { c.set_write_high(33); }),
                AllOf(HasSubstr("`write_high` is 33"), HasSubstr("Fix: give 1 to 32")));
    EXPECT_THAT(with([](auto& c) { c.set_write_low(26); }), HasSubstr("`write_low` is 26"));
    EXPECT_THAT(with([](auto& c) { c.set_read_queue(0); }), HasSubstr("`read_queue` is 0"));
    EXPECT_THAT(with([](auto& c) { c.set_row_hit_cap(0); }), HasSubstr("`row_hit_cap` is 0"));
}

/// A mapping covers each bit of the address exactly once.
TEST(DramInput, MappingsMustCoverTheAddress) {
    const auto with = [](const std::string& mapping) {
        return error_of([&] { config_of("DDR4-3200", mapping); });
    };
    EXPECT_EQ(with("bg:2 col:7 ba:2 row:16"), "no error");
    EXPECT_EQ(with("col:2,bg,col,ba,row"), "no error");
    EXPECT_THAT(with("bg:2 col:6 ba:2 row:16"),
                AllOf(HasSubstr("6 bits of the column"), HasSubstr("the device has 7"), HasSubstr("Fix:")));
    EXPECT_THAT(with("bg col row"), HasSubstr("0 bits of the bank (`ba`)"));
    EXPECT_THAT(with("bg col ba row ra:1"), HasSubstr("1 bits of the rank"));
    EXPECT_THAT(with("bg bg col ba row"), HasSubstr("stands twice"));
    EXPECT_THAT(with("bg colum ba row"),
                AllOf(HasSubstr("`colum` is not a field"), HasSubstr("did you mean `col`?")));
    EXPECT_THAT(with("bg col:x ba row"), HasSubstr("not a number of bits"));
    EXPECT_THAT(with("bank_interleaved"),
                AllOf(HasSubstr("no address mapping"), HasSubstr("row_bank_column")));
    EXPECT_THAT(with(" "), HasSubstr("empty"));
}

/// Places of addresses by the bit lists of the reference: DDR4 bg[1:0] col[8:2] ba[10:9] row[26:11] and
/// col[6:0] bg[8:7] ba[10:9] row[26:11]; a split field; ranks above banks.
TEST(DramInput, MappingsPlaceAddresses) {
    for (uint64_t i = 0; i < 1000; ++i) {
        const uint64_t a = i * 0x9e3779b97f4a7c15 >> 20 & ((1u << 27) - 1);
        const auto bgi = config_of("DDR4-3200").map.place(a << 6);
        EXPECT_EQ(bgi.bank, (a & 3) * 4 + (a >> 9 & 3));
        EXPECT_EQ(bgi.row, a >> 11);
        const auto rbc = config_of("DDR4-3200", "row_bank_column").map.place(a << 6);
        EXPECT_EQ(rbc.bank, (a >> 7 & 3) * 4 + (a >> 9 & 3));
        EXPECT_EQ(rbc.row, a >> 11);
        const auto split = config_of("DDR4-3200", "row:4 bg:1 col:7 bg:1 ba row").map.place(a << 6);
        EXPECT_EQ(split.bank, ((a >> 4 & 1) + (a >> 12 & 1) * 2) * 4 + (a >> 13 & 3));
        EXPECT_EQ(split.row, (a & 15) + (a >> 15 << 4));
        const auto ranks = config_of("DDR4-3200", "col bg ba ra row", 2).map.place(a << 6);
        EXPECT_EQ(ranks.bank, (a >> 11 & 1) * 16 + (a >> 7 & 3) * 4 + (a >> 9 & 3));
    }
}

}  // namespace
}  // namespace kpu::dram
