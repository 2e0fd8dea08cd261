// Closed forms of scratchpads and links against the memory system's own arithmetic, access by access.
#include "model/timing/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "model/memory/sram.hpp"

namespace kpu::timing {
namespace {

constexpr uint64_t core_hz = 1'000'000'000;

struct Case {
    proto::Sram sram;
    model::SramConfig config;
    double cycle = 1;  ///< cycles of the core
    uint32_t blocks = 1;
    uint32_t bytes() const { return blocks * config.interleave_bytes; }
    model::Sram made() const {
        const auto hz = static_cast<uint64_t>(double(core_hz) / cycle);
        return {config, Clock(core_hz), cycle == 1 ? std::nullopt : std::optional<Clock>(Clock(hz))};
    }
};

Case random_case(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<uint32_t> of) { return of.begin()[random() % of.size()]; };
    Case of;
    of.sram.set_banks(pick({1, 4, 16}));
    of.sram.set_bank_width_bytes(pick({1, 8, 64}));
    of.sram.set_interleave_bytes(pick({16, 64, 256}));
    of.sram.set_ports(pick({1, 2, 4}));
    of.sram.set_bytes_per_cycle(pick({1, 16, 48, 128}));
    of.sram.set_read_latency_cycles(pick({0, 6}));
    of.sram.set_write_latency_cycles(pick({2, 5}));
    of.config.banks = of.sram.banks();
    of.config.bank_width_bytes = of.sram.bank_width_bytes();
    of.config.interleave_bytes = of.sram.interleave_bytes();
    of.config.ports = of.sram.ports();
    of.config.bytes_per_cycle = of.sram.bytes_per_cycle();
    of.config.read_latency_cycles = of.sram.read_latency_cycles();
    of.config.write_latency_cycles = of.sram.write_latency_cycles();
    of.cycle = pick({1, 1, 4});
    of.blocks = pick({1, 2, 4, 16});
    return of;
}

TEST(SramTime, EqualsTheMemorySystemAccessByAccess) {
    const uint32_t seed = 20261129;
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    for (int i = 0; i < 300; ++i) {
        const Case of = random_case(random);
        SCOPED_TRACE(of.sram.ShortDebugString() + " bytes " + std::to_string(of.bytes()) + " cycle " +
                     std::to_string(of.cycle));
        const SramTime time(of.sram, of.cycle);
        model::Sram alone = of.made();
        const double first = double(alone.serve(0, 0, of.bytes(), false).done);
        EXPECT_NEAR(first, time.through(of.bytes()) + time.read_latency, of.cycle + 1);
        // many at once, one after the other in memory
        constexpr int count = 400;
        model::Sram shared = of.made();
        double last = 0;
        for (int access = 0; access < count; ++access)
            last = std::max(
                last,
                double(shared.serve(0, uint64_t{of.bytes()} * static_cast<uint64_t>(access), of.bytes(), true)
                           .done));
        const double expected = count * time.share_of(of.bytes());
        EXPECT_GE(last * 1.01, expected);  // nothing is faster
        EXPECT_LE(last, 1.35 * expected + time.through(of.bytes()) + time.write_latency);
        EXPECT_GE(time.bytes_per_cycle * (1 + 1e-9), of.bytes() / time.share_of(of.bytes()));
    }
}

TEST(LinkTime, WidthAndLatencyAreOfTheLinksClock) {
    proto::Platform platform;
    platform.mutable_clock()->set_core_mhz(1000);
    platform.mutable_clock()->set_interconnect_mhz(250);
    platform.mutable_interconnect()->set_link_bytes_per_cycle(64);
    platform.mutable_interconnect()->set_system_link_bytes_per_cycle(128);
    platform.mutable_interconnect()->set_hop_latency_cycles(3);
    EXPECT_EQ(engine_link(platform).bytes_per_cycle(), 16);
    EXPECT_EQ(system_link(platform).bytes_per_cycle(), 32);
    EXPECT_EQ(engine_link(platform).hop, 12);
}

}  // namespace
}  // namespace kpu::timing
