// One tile whose energy is summed by hand.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "platforms/energy_table.hpp"
#include "tests/model/device_fixture.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {
namespace {

using builder::Program;
using builder::tensor;

/// Every entry of the shipped table gets a price of its own: a prime, so that no two sums are alike.
class PrimePrices {
  public:
    PrimePrices() {
        proto::EnergyTable table = platforms::find_energy_table("generic_16nm");
        int prime = 1;
        for (proto::EnergyEntry& entry : *table.mutable_entry()) {
            prime = next(prime);
            // the fractions of the clock tree stay what they are: static power is not summed here
            if (entry.component() != "clock") set(entry, prime);
            prices_[entry.component() + "." + entry.action()] = entry.energy_pj();
        }
        std::string text;
        google::protobuf::TextFormat::PrintToString(table, &text);
        std::ofstream(path_) << text;
    }
    ~PrimePrices() { std::remove(path_.c_str()); }
    const std::string& path() const { return path_; }
    double of(const std::string& entry) const { return prices_.at(entry); }

  private:
    static void set(proto::EnergyEntry& entry, int price) {
        entry.set_energy_pj(price);
        entry.set_low(price);
        entry.set_high(price);
    }
    static int next(int number) {
        for (;;) {
            ++number;
            bool prime = true;
            for (int d = 2; d * d <= number; ++d) prime = prime && number % d != 0;
            if (prime) return number;
        }
    }
    std::string path_ = ::testing::TempDir() + std::to_string(getpid()) + "_prime_prices.textproto";
    std::map<std::string, double> prices_;
};

// A 16x16x16 product on a 16x16 array, its operands from DDR by L2 and its result back: 4096 MACs, every
// byte, and the energy of every action to the last digit.
TEST(EnergyCase, OneTileByHand) {
    const PrimePrices prices;
    // 64 KiB is the size that the table prices: no scaling with size
    const auto platform = platform_with(
        "swkpu-v1",
        {{"energy.table", prices.path()}, {"engine.l1.size_bytes", "65536"}, {"l2.size_bytes", "65536"}});
    constexpr int64_t tile = 16 * 16;
    Program p("tile");
    const auto ddr = p.buffer("DDR", Level::ddr, 3 * tile), l2 = p.buffer("L2", Level::l2, 3 * tile);
    const auto l1 = p.l1_buffer("L1", 0, 3 * tile);
    const auto type = tensor(ElemType::i8, {16, 16});
    const auto at = [&](const char* name, builder::Buffer buffer, int64_t slot) {
        return p.region(name, buffer, slot * tile, type);
    };
    const auto a1 = at("a1", l1, 0), b1 = at("b1", l1, 1), y1 = at("y1", l1, 2);
    const auto a2 = at("a2", l2, 0), b2 = at("b2", l2, 1), y2 = at("y2", l2, 2);
    const auto load_a = p.transfer("load_a", a2, at("a", ddr, 0));
    const auto load_b = p.transfer("load_b", b2, at("b", ddr, 1));
    const auto to_a = p.transfer("to_a", a1, a2).after({load_a});
    const auto to_b = p.transfer("to_b", b1, b2).after({load_b});
    const auto work =
        p.compute("gemm", {a1, b1}, {y1}, "work").attr("accum_type", ElemType::i32).after({to_a, to_b});
    const auto save = p.store("save", y2, y1).after({work});
    p.transfer("out", at("y", ddr, 2), y2).after({save});
    const BoundProgram program = bound(p, platform);
    Device device(platform, program, nullptr, {});
    ASSERT_EQ(device.run(), RunStatus::finished);
    Outcome r;
    device.finish(r.stats);

    EXPECT_EQ(stat(r, "ops.macs"), 4096u);
    EXPECT_EQ(stat(r, "bytes.dram.read"), 512u);
    EXPECT_EQ(stat(r, "bytes.dram.write"), 256u);
    EXPECT_EQ(stat(r, "bytes.l2.read"), 512u + 256u);   // A and B to L1, Y to DDR
    EXPECT_EQ(stat(r, "bytes.l2.write"), 512u + 256u);  // A and B from DDR, Y from L1
    EXPECT_EQ(stat(r, "bytes.l1.read"), 512u + 256u);   // the array's operands, the store's source
    EXPECT_EQ(stat(r, "bytes.l1.write"), 512u + 256u);  // A and B, the array's result

    // an output-stationary pass over K = 16: 46 cycles of fill and drain, 16 of products
    constexpr uint64_t elements = 16 * 16, pass = 46 + 16;
    constexpr double l1_word = 32, l2_word = 64;
    const double sram = prices.of("sram.read.64kib"), ratio = prices.of("sram.write_ratio");
    const double hop = prices.of("noc.router") + 2 * prices.of("noc.wire");
    struct Expected {
        uint64_t count;
        double price;
    };
    const std::map<std::string, Expected> expected = {
        {"array.mac.i8", {4096, prices.of("array.mac.i8")}},
        {"array.pe.shift", {4096, prices.of("array.pe.shift")}},
        {"array.pe.idle", {elements * pass - 4096, prices.of("array.pe.idle")}},
        {"l1.read", {768 / 32, sram * l1_word}},
        {"l1.write", {768 / 32, sram * l1_word * ratio}},
        {"l2.read", {768 / 64, sram * l2_word}},
        {"l2.write", {768 / 64, sram * l2_word * ratio}},
        {"noc.byte", {512 + 512 + 256 + 256, hop}},            // one link each
        {"dma.descriptor", {6, prices.of("dma.descriptor")}},  // five transfers and the store
        {"dma.burst", {6 * 256 / 64, prices.of("dma.burst")}},
        {"ctrl.instr", {7, prices.of("ctrl.instr")}},
        {"phy.burst", {768 / 64, prices.of("phy.bit") * 64 * 8}},
    };
    double by_hand = 0, dram = 0;
    size_t found = 0;
    for (const traces::EnergyLedger::Row& row : device.ledger().summary()) {
        const std::string key = row.component + "." + row.action;
        // commands of the DRAM are priced by its currents, not by the table: their counts
        if (key == "dram.read") {
            EXPECT_EQ(row.count, 512u / 64);
        } else if (key == "dram.write") {
            EXPECT_EQ(row.count, 256u / 64);
        }
        if (row.component == "dram" && row.per != "ps") dram += row.energy_pj;
        const auto entry = expected.find(key);
        if (entry == expected.end()) continue;
        ++found;
        EXPECT_EQ(row.count, entry->second.count) << key;
        EXPECT_DOUBLE_EQ(row.energy_per_action_pj, entry->second.price) << key;
        EXPECT_DOUBLE_EQ(row.energy_pj, double(entry->second.count) * entry->second.price) << key;
        by_hand += double(entry->second.count) * entry->second.price;
    }
    EXPECT_EQ(found, expected.size());
    EXPECT_DOUBLE_EQ(device.ledger().dynamic_pj(), by_hand + dram);
}

}  // namespace
}  // namespace kpu::model
