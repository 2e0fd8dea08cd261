#include <gtest/gtest.h>

#include "isa/diagnostics.hpp"
#include "tests/fabric/streams.hpp"

namespace kpu::model {
namespace {

using namespace test;
using traces::Cause;

TEST(OneBurst, crosses_sram_link_and_sram_in_the_sum_of_their_times) {
    FabricConfig config = plain_config();
    config.l2.read_latency_cycles = 7;
    config.l1[0].write_latency_cycles = 5;
    config.link.bytes_per_cycle = 16;
    config.link.hop_latency_cycles = 3;
    StreamRequest request = stream(memory(Level::l2, 0, 64), memory(Level::l1, 0, 64));
    request.descriptor_cycles = 20;
    request.row_cycles = 2;
    // descriptor 20, row 2, bank 1 + 7, link 64/16 + 3, bank 1 + 5
    EXPECT_EQ(cycles_of(config, request), 20 + 2 + 8 + 7 + 6u);
}

TEST(OneBurst, dram_read_is_activate_plus_column_plus_burst_plus_controller) {
    FabricConfig config = plain_config();
    config.ddr.timing.controller_nck = 16;
    const DramTiming& t = config.ddr.timing;
    const Cycles dram = 16 + t.trcd + t.cl + t.burst_nck;
    EXPECT_EQ(cycles_of(config, stream(memory(Level::ddr, 0, 64), unit_of(no_engine))), dram + 1);
    EXPECT_EQ(cycles_of(config, stream(memory(Level::ddr, 0, 64), memory(Level::l2, 0, 64))), dram + 1 + 1);
}

TEST(OneBurst, dram_read_between_unequal_clocks_is_rounded_up_to_core_edges) {
    FabricConfig config = plain_config();
    config.core = Clock(700'000'000);
    config.ddr.timing.trcd = 23;
    const DramTiming& t = config.ddr.timing;
    const uint64_t picoseconds =
        (t.trcd + t.cl + t.burst_nck) * 625;  // 49 nCK = 30.625 ns = 21.4 core cycles
    EXPECT_EQ(cycles_of(config, stream(memory(Level::ddr, 0, 64), unit_of(no_engine))),
              picoseconds * 7 / 10000 + 1 + 1);
}

TEST(Saturation, the_narrowest_resource_sets_the_rate) {
    constexpr uint64_t bytes = 64 * 1000;
    StreamRequest request = stream(memory(Level::l2, 0, bytes), memory(Level::l1, 0, bytes));
    request.max_outstanding = 64;
    // everything 64 B a cycle: 1000 bursts, one a cycle, through three stages
    EXPECT_EQ(cycles_of(plain_config(), request), 1000 + 2u);
    FabricConfig config = plain_config();
    config.link.bytes_per_cycle = 16;
    EXPECT_EQ(cycles_of(config, request), 4 * 1000 + 2u);
    config = plain_config();
    config.l2.bytes_per_cycle = 32;
    EXPECT_EQ(cycles_of(config, request), 2 * 1000 + 2u);
    config = plain_config();
    config.l1[0].bytes_per_cycle = 8;
    EXPECT_EQ(cycles_of(config, request), 8 * 1000 + 2u);
    request.port_bytes_per_cycle = 16;
    EXPECT_EQ(cycles_of(plain_config(), request), 4 * 999 + 3u);
}

TEST(Saturation, a_dram_stream_runs_at_burst_time_with_groups_interleaved_and_at_tccd_l_without) {
    FabricConfig config = plain_config();
    const DramTiming& t = config.ddr.timing;
    constexpr uint64_t bursts = 128;  // one row, no refresh
    StreamRequest request = stream(memory(Level::ddr, 0, bursts * 64), unit_of(no_engine));
    request.max_outstanding = 64;
    // four groups are activated one after the other, no later than their first column is due
    EXPECT_EQ(cycles_of(config, request), t.trcd + t.cl + bursts * t.burst_nck + 1);
    config.ddr.timing.mapping = DramMapping::row_bank_column;
    EXPECT_EQ(cycles_of(config, request), t.trcd + (bursts - 1) * t.tccd_l + t.cl + t.burst_nck + 1);
}

TEST(Saturation, same_bank_row_conflicts_cost_trc_a_burst) {
    const FabricConfig config = plain_config();
    const DramTiming& t = config.ddr.timing;
    constexpr unsigned bursts = 100;
    const StreamResult result =
        run_alone(config, stream(rows(memory(Level::ddr, 0, 64), bursts, 131072), unit_of(no_engine)));
    EXPECT_EQ(result.end, (bursts - 1) * t.trc + t.trcd + t.cl + t.burst_nck + 1);
    EXPECT_EQ(result.dram_activates, bursts);
}

TEST(LittlesLaw, throughput_is_window_over_latency_until_the_port_saturates) {
    FabricConfig config = plain_config();
    config.l2.read_latency_cycles = 29;
    constexpr uint64_t bursts = 960;
    for (uint32_t window = 1; window <= 64; window *= 2) {
        StreamRequest request = stream(memory(Level::l2, 0, bursts * 64), unit_of(0));
        request.max_outstanding = window;
        // a burst is under way for bank 1 + 29 and link 1 = 31 cycles; `window` of them go together, one a
        // cycle
        const Cycles expected = window >= 31 ? bursts - 1 + 31 : bursts / window * 31 + (window - 1);
        EXPECT_EQ(cycles_of(config, request), expected) << window;
    }
}

TEST(Contention, four_system_dmas_on_one_dram_channel_take_about_four_times_as_long_as_one) {
    const FabricConfig config = plain_config();
    const auto request = [&](unsigned i) {
        StreamRequest r = stream(memory(Level::ddr, i * 32768, 32768), memory(Level::l2, i * 65536, 32768),
                                 static_cast<uint16_t>(i));
        r.max_outstanding = 16;
        return r;
    };
    const Cycles one = cycles_of(config, request(0));
    Fabric fabric(config);
    for (unsigned i = 0; i < 4; ++i) fabric.open(request(i), 0);
    Cycles last = 0;
    for (Cycles end = fabric.advance(never); end != never; end = fabric.advance(never)) {
        last = end;
        fabric.take_completed(end);
    }
    EXPECT_GT(last, one * 38 / 10);
    EXPECT_LT(last, one * 44 / 10);
}

TEST(BankConflicts, a_stride_of_all_banks_costs_the_bank_time_of_every_access) {
    FabricConfig config = plain_config();
    config.l1[0].bank_width_bytes = 16;  // a bank takes 4 cycles for 64 bytes
    constexpr unsigned count = 200;
    const auto with_stride = [&](int64_t stride) {
        return run_alone(config, stream(rows(memory(Level::l1, 0, 64), count, stride), unit_of(0)));
    };
    EXPECT_EQ(with_stride(64 * 16).end, 4 * count);           // one bank
    EXPECT_EQ(with_stride(64 * 8).end, 1 + 4 * (count / 2));  // two banks in turn
    EXPECT_EQ(with_stride(64).end, count - 1 + 4);            // all sixteen
    EXPECT_EQ(with_stride(64).bank_conflict_cycles, 0u);
    EXPECT_GT(with_stride(64 * 16).bank_conflict_cycles, 0u);
}

// A burst over several banks keeps the port for its bytes and each bank for its part.
TEST(BankConflicts, a_burst_over_several_banks_waits_for_the_busy_one_only) {
    FabricConfig config = plain_config();
    config.l1[0].bank_width_bytes = 16;  // a bank takes 4 cycles for 64 bytes
    StreamRequest wide = stream(memory(Level::l1, 0, 512), unit_of(0));
    wide.burst_bytes = 512;
    // block j begins at cycle j and takes 4
    EXPECT_EQ(cycles_of(config, wide), 7 + 4u);
    // banks are given out in order of arrival: bank 7 is taken over 7..10 before the short burst asks for it
    Fabric fabric(config);
    fabric.open(wide, 0);
    const Fabric::Handle behind = fabric.open(stream(memory(Level::l1, 7 * 64, 64), unit_of(0), 1), 0);
    const Cycles first = fabric.advance(never);
    EXPECT_EQ(first, 11u);
    fabric.take_completed(first);
    fabric.take_completed(fabric.advance(never));
    EXPECT_EQ(fabric.result(behind).end, 11 + 4u);
    EXPECT_EQ(fabric.result(behind).bank_conflict_cycles, 3u);  // behind the port, free at 8
}

TEST(Dram, a_second_burst_of_an_open_row_saves_the_activate) {
    Fabric fabric(plain_config());
    const DramTiming& t = fabric.config().ddr.timing;
    const auto read = [&](uint64_t address, Cycles at) {
        return run_alone(fabric, stream(memory(Level::ddr, address, 64), unit_of(no_engine)), at).end - at;
    };
    EXPECT_EQ(read(0, 0), t.trcd + t.cl + t.burst_nck + 1);
    EXPECT_EQ(read(256, 200), t.cl + t.burst_nck + 1);                      // hit: same group, next column
    EXPECT_EQ(read(131072, 400), t.trp + t.trcd + t.cl + t.burst_nck + 1);  // same bank, other row
}

TEST(Dram, a_part_of_a_burst_costs_a_whole_one) {
    Fabric fabric(plain_config());
    const StreamResult result =
        run_alone(fabric, stream(memory(Level::ddr, 48, 32), memory(Level::l2, 0, 32)));
    EXPECT_EQ(result.source_accesses, 2u);  // bytes 48..79 lie in two bursts
    EXPECT_EQ(fabric.stats(0, result.end).bytes_read, 128u);
    EXPECT_EQ(fabric.stats(2, result.end).bytes_written, 32u);
}

TEST(Dram, refreshes_come_every_trefi_busy_or_idle) {
    const DramTiming t = plain_config().ddr.timing;
    Fabric idle(plain_config());
    const Cycles ten = 10 * t.trefi + 5;
    idle.finish(ten);
    EXPECT_EQ(idle.stats(0, ten).dram.refreshes, 10u);
    EXPECT_EQ(idle.stats(0, ten).overhead, 9 * t.trfc + 5);

    Fabric busy(plain_config());
    StreamRequest request = stream(memory(Level::ddr, 0, 1 << 20), unit_of(no_engine));
    request.max_outstanding = 64;
    const StreamResult result = run_alone(busy, request);
    const uint64_t refreshes = busy.stats(0, result.end).dram.refreshes;
    EXPECT_NEAR(static_cast<double>(refreshes), static_cast<double>(result.end) / t.trefi, 1.0);
    const Cycles without = (1 << 20) / 64 * t.burst_nck;
    EXPECT_GE(result.end, without + refreshes * t.trfc);
    EXPECT_LE(result.end, without * 102 / 100 + refreshes * (t.trfc + t.trp + t.trcd + t.cl + t.trtp + 8));
}

TEST(Pace, a_paced_stream_delivers_in_its_own_time_without_stalls) {
    StreamRequest request = stream(memory(Level::l1, 0, 6400), unit_of(0));
    request.pace_offset = 10;
    request.pace_cycles = 1000;
    const StreamResult result = run_alone(plain_config(), request);
    EXPECT_EQ(result.end, 10 + 990 + 1u);  // the last of 100 bursts is issued at 990
    ASSERT_EQ(result.limiters.size(), 1u);
    EXPECT_EQ(result.limiters[0].cause, Cause::busy_useful);
}

TEST(Path, dram_to_l1_crosses_both_links_and_not_l2) {
    Fabric fabric(plain_config(2));
    run_alone(fabric, stream(memory(Level::ddr, 0, 256), memory(Level::l1, 0, 256, 1)));
    EXPECT_EQ(fabric.stats(1, 1000).bytes_read, 256u);     // link_sys
    EXPECT_EQ(fabric.stats(2, 1000).bytes_written, 0u);    // l2
    EXPECT_EQ(fabric.stats(3, 1000).bytes_read, 0u);       // e0_link
    EXPECT_EQ(fabric.stats(5, 1000).bytes_read, 256u);     // e1_link
    EXPECT_EQ(fabric.stats(6, 1000).bytes_written, 256u);  // e1_l1
}

TEST(Repeat, the_pattern_is_walked_again) {
    Fabric fabric(plain_config());
    StreamRequest request = stream(rows(memory(Level::l1, 0, 64), 10, 128), unit_of(0));
    request.source.repeat = 3;
    EXPECT_EQ(run_alone(fabric, request).bytes, 3 * 10 * 64u);
}

TEST(BadRequest, is_refused) {
    Fabric fabric(plain_config());
    EXPECT_THROW(fabric.open(stream(unit_of(0), unit_of(0)), 0), InternalError);
    EXPECT_THROW(fabric.open(stream(memory(Level::l2, 0, 64), memory(Level::l1, 0, 64, 3)), 0),
                 InternalError);
    StreamRequest request = stream(memory(Level::l2, 0, 64), unit_of(0));
    request.burst_bytes = 0;
    EXPECT_THROW(fabric.open(request, 0), InternalError);
}

}  // namespace
}  // namespace kpu::model
