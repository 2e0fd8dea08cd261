#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/diagnostics.hpp"
#include "tests/memory/streams.hpp"

namespace kpu::model {
namespace {

using namespace test;
using traces::Cause;

TEST(OneBurst, crosses_sram_link_and_sram_in_the_sum_of_their_times) {
    MemoryConfig config = plain_config();
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
    MemoryConfig config = plain_config();
    config.ddr.timing.controller_nck = 16;
    const DramTiming& t = config.ddr.timing;
    const Cycles dram = 16 + t.trcd + t.cl + t.burst_nck;
    EXPECT_EQ(cycles_of(config, stream(memory(Level::ddr, 0, 64), unit_of(no_engine))), dram + 1);
    EXPECT_EQ(cycles_of(config, stream(memory(Level::ddr, 0, 64), memory(Level::l2, 0, 64))), dram + 1 + 1);
}

TEST(OneBurst, dram_read_between_unequal_clocks_is_rounded_up_to_core_edges) {
    MemoryConfig config = plain_config();
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
    MemoryConfig config = plain_config();
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
    MemoryConfig config = plain_config();
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
    const MemoryConfig config = plain_config();
    const DramTiming& t = config.ddr.timing;
    constexpr unsigned bursts = 100;
    const StreamResult result =
        run_alone(config, stream(rows(memory(Level::ddr, 0, 64), bursts, 131072), unit_of(no_engine)));
    EXPECT_EQ(result.end, (bursts - 1) * t.trc + t.trcd + t.cl + t.burst_nck + 1);
    EXPECT_EQ(result.dram_activates, bursts);
}

TEST(LittlesLaw, throughput_is_window_over_latency_until_the_port_saturates) {
    MemoryConfig config = plain_config();
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
    const MemoryConfig config = plain_config();
    const auto request = [&](unsigned i) {
        StreamRequest r = stream(memory(Level::ddr, i * 32768, 32768), memory(Level::l2, i * 65536, 32768),
                                 static_cast<uint16_t>(i));
        r.max_outstanding = 16;
        return r;
    };
    const Cycles one = cycles_of(config, request(0));
    MemorySystem memory_system(config);
    for (unsigned i = 0; i < 4; ++i) memory_system.open(request(i), 0);
    Cycles last = 0;
    for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never)) {
        last = end;
        memory_system.take_completed(end);
    }
    EXPECT_GT(last, one * 38 / 10);
    EXPECT_LT(last, one * 44 / 10);
}

TEST(BankConflicts, a_stride_of_all_banks_costs_the_bank_time_of_every_access) {
    MemoryConfig config = plain_config();
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
    MemoryConfig config = plain_config();
    config.l1[0].bank_width_bytes = 16;  // a bank takes 4 cycles for 64 bytes
    StreamRequest wide = stream(memory(Level::l1, 0, 512), unit_of(0));
    wide.burst_bytes = 512;
    // block j begins at cycle j and takes 4
    EXPECT_EQ(cycles_of(config, wide), 7 + 4u);
    // banks are given out in order of arrival: bank 7 is taken over 7..10 before the short burst asks for it
    MemorySystem memory_system(config);
    memory_system.open(wide, 0);
    const MemorySystem::Handle behind =
        memory_system.open(stream(memory(Level::l1, 7 * 64, 64), unit_of(0), 1), 0);
    const Cycles first = memory_system.advance(never);
    EXPECT_EQ(first, 11u);
    memory_system.take_completed(first);
    memory_system.take_completed(memory_system.advance(never));
    EXPECT_EQ(memory_system.result(behind).end, 11 + 4u);
    EXPECT_EQ(memory_system.result(behind).bank_conflict_cycles, 3u);  // after the port, free at 8
}

TEST(Dram, a_second_burst_of_an_open_row_saves_the_activate) {
    MemorySystem memory_system(plain_config());
    const DramTiming& t = memory_system.config().ddr.timing;
    const auto read = [&](uint64_t address, Cycles at) {
        return run_alone(memory_system, stream(memory(Level::ddr, address, 64), unit_of(no_engine)), at).end -
               at;
    };
    EXPECT_EQ(read(0, 0), t.trcd + t.cl + t.burst_nck + 1);
    EXPECT_EQ(read(256, 200), t.cl + t.burst_nck + 1);                      // hit: same group, next column
    EXPECT_EQ(read(131072, 400), t.trp + t.trcd + t.cl + t.burst_nck + 1);  // same bank, other row
}

TEST(Dram, a_part_of_a_burst_costs_a_whole_one) {
    MemorySystem memory_system(plain_config());
    const StreamResult result =
        run_alone(memory_system, stream(memory(Level::ddr, 48, 32), memory(Level::l2, 0, 32)));
    EXPECT_EQ(result.source_accesses, 2u);  // bytes 48..79 lie in two bursts
    EXPECT_EQ(memory_system.stats(0, result.end).bytes_read, 128u);
    EXPECT_EQ(memory_system.stats(2, result.end).bytes_written, 32u);
}

TEST(Dram, refreshes_come_every_trefi_busy_or_idle) {
    const DramTiming t = plain_config().ddr.timing;
    MemorySystem idle(plain_config());
    const Cycles ten = 10 * t.trefi + 5;
    idle.finish(ten);
    EXPECT_EQ(idle.stats(0, ten).dram.refreshes, 10u);
    EXPECT_EQ(idle.stats(0, ten).overhead, 9 * t.trfc + 5);

    MemorySystem busy(plain_config());
    StreamRequest request = stream(memory(Level::ddr, 0, 1 << 20), unit_of(no_engine));
    request.max_outstanding = 64;
    const StreamResult result = run_alone(busy, request);
    const uint64_t refreshes = busy.stats(0, result.end).dram.refreshes;
    EXPECT_NEAR(static_cast<double>(refreshes), static_cast<double>(result.end) / t.trefi, 1.0);
    const Cycles without = (1 << 20) / 64 * t.burst_nck;
    EXPECT_GE(result.end, without + refreshes * t.trfc);
    EXPECT_LE(result.end, without * 102 / 100 + refreshes * (t.trfc + t.trp + t.trcd + t.cl + t.trtp + 8));
}

// Request and response of a clock each, and the port's cycle; the rest are the device's own clocks.
TEST(Controllers, an_idle_read_takes_what_its_commands_take) {
    MemoryConfig config = plain_config();
    use_controller(config);
    const DramTiming& t = config.ddr.timing;
    MemorySystem memory_system(config);
    const auto read = [&](uint64_t address, Cycles at) {
        return run_alone(memory_system, stream(memory(Level::ddr, address, 64), unit_of(no_engine)), at).end -
               at;
    };
    const Cycles hit = t.cl + t.burst_nck + 2 + 1;
    EXPECT_EQ(read(0, 0), t.trcd + hit);
    EXPECT_EQ(read(256, 200), hit);                      // same group, next column
    EXPECT_EQ(read(131072, 400), t.trp + t.trcd + hit);  // same bank, other row
    memory_system.finish(1000);
    const DramCounters counters = memory_system.stats(0, 1000).dram;
    EXPECT_EQ(counters.activates, 2u);
    EXPECT_EQ(counters.charged_activates, 2u);
    EXPECT_EQ(counters.reads, 3u);
}

// Writes are posted: done when the controller has them. What does not fit its queue waits for a place.
TEST(Controllers, writes_are_posted_until_the_queue_is_full) {
    const auto store = [](uint32_t queue, uint64_t bytes) {
        MemoryConfig config = plain_config();
        use_controller(config, "bank_group_interleaved", 1, [queue](auto&, proto::DdrController& controller) {
            controller.set_write_queue(queue);
            controller.set_write_high(queue);
        });
        StreamRequest request = stream(unit_of(no_engine), memory(Level::ddr, 0, bytes));
        request.max_outstanding = 1024;
        return run_alone(config, request);
    };
    EXPECT_EQ(store(32, 32 * 64).end, 32 + 2u);  // one burst a cycle through the link, request and response
    // eight fit; 24 more get in as fast as the device writes: one in four clocks, the first after its
    // activate
    const DramTiming t = plain_config().ddr.timing;
    const Cycles queued = store(8, 32 * 64).end;
    EXPECT_GE(queued, t.trcd + 24 * t.burst_nck);
    EXPECT_LE(queued, t.trcd + 24 * t.burst_nck + 4 * t.burst_nck + 10);
}

// A saturated channel moves a burst in burst_nck clocks, but for refreshes; outstanding bursts and latency
// set the rate below that (Little's law), until the channel is saturated.
TEST(Controllers, bandwidth_follows_littles_law_until_the_channel_is_saturated) {
    MemoryConfig config = plain_config();
    use_controller(config);
    const DramTiming& t = config.ddr.timing;
    constexpr uint64_t bytes = 1 << 18;
    const auto cycles = [&](uint32_t outstanding) {
        StreamRequest request = stream(memory(Level::ddr, 0, bytes), unit_of(no_engine));
        request.max_outstanding = outstanding;
        return static_cast<double>(cycles_of(config, request));
    };
    constexpr double bursts = bytes / 64.0;
    const double refreshed = 1.0 - static_cast<double>(t.trfc + t.trp) / t.trefi;
    EXPECT_NEAR(cycles(64), bursts * t.burst_nck / refreshed, 0.02 * cycles(64));
    const double latency = t.cl + t.burst_nck + 2 + 1;
    for (const uint32_t outstanding : {1u, 2u, 4u})
        EXPECT_NEAR(cycles(outstanding), bursts * latency / outstanding / refreshed,
                    0.05 * cycles(outstanding))
            << outstanding;
}

// Bursts that all need another row of one bank cost tRC each, whatever is outstanding.
TEST(Controllers, conflicts_of_a_bank_cost_trc_each) {
    MemoryConfig config = plain_config();
    use_controller(config);
    StreamRequest request = stream(rows(memory(Level::ddr, 0, 64), 100, 131072), unit_of(no_engine));
    request.max_outstanding = 32;
    const Cycles end = cycles_of(config, request);
    const Cycles rows = Cycles{100} * config.ddr.timing.trc;
    EXPECT_GE(end, rows - config.ddr.timing.trc);
    EXPECT_LE(end, rows + config.ddr.timing.trfc + config.ddr.timing.trc);
}

TEST(Controllers, idle_channels_refresh_every_trefi_unless_they_sleep) {
    const auto counters = [](uint32_t self_refresh) {
        MemoryConfig config = plain_config();
        use_controller(config, "bank_group_interleaved", 2, [&](auto&, proto::DdrController& controller) {
            controller.set_self_refresh_nck(self_refresh);
        });
        MemorySystem memory_system(config);
        const Cycles ten = 10 * Cycles{config.ddr.timing.trefi} + 5;
        memory_system.finish(ten);
        DramCounters counted = memory_system.stats(0, ten).dram;
        uint64_t in_states = 0;
        for (const uint64_t clocks : counted.rank_times) in_states += clocks;
        EXPECT_EQ(in_states, 2 * ten);
        return counted;
    };
    EXPECT_EQ(counters(0).refreshes, 20u);  // of two ranks
    const DramCounters asleep = counters(100);
    EXPECT_EQ(asleep.refreshes, 0u);
    EXPECT_GE(asleep.rank_times[static_cast<size_t>(dram::RankState::self_refresh)], 2 * 120'000u);
}

// A bank that has read needs the turn-around before it writes, and the other way round; the same way it does
// not.
TEST(TurnAround, costs_a_bank_its_cycles_at_each_change_of_direction) {
    MemoryConfig config = plain_config();
    config.l1[0].turnaround_cycles = 5;
    MemorySystem memory_system(config);
    const auto run = [&](bool write, Cycles at) {
        const StreamSide l1 = memory(Level::l1, 0, 64);
        return run_alone(memory_system, write ? stream(unit_of(0), l1) : stream(l1, unit_of(0)), at).end - at;
    };
    EXPECT_EQ(run(false, 0), 1u);  // a bank that was never used
    EXPECT_EQ(run(false, 1), 1u);
    EXPECT_EQ(run(true, 2), 1 + 5u);
    EXPECT_EQ(run(false, 20), 1u);  // long enough ago
    EXPECT_EQ(run(true, 22), 1 + 4u);
}

/// Engines in a row of a mesh or ring: node 0 is L2.
Cycles cycles_to_engine(Topology topology, unsigned engines, uint16_t engine) {
    MemoryConfig config = plain_config(engines);
    config.topology = topology;
    config.link.hop_latency_cycles = 10;
    return cycles_of(config, stream(memory(Level::l2, 0, 64), memory(Level::l1, 0, 64, engine)));
}

// One burst: a cycle in each memory, and 11 in each of the links between the nodes, the shortest way.
TEST(Topology, a_burst_takes_the_links_of_the_shortest_way) {
    const auto hops = [](Cycles cycles) { return (cycles - 2) / 11; };
    for (uint16_t k = 0; k < 7; ++k) EXPECT_EQ(cycles_to_engine(Topology::crossbar, 7, k), 2 + 11u) << k;
    const unsigned ring[] = {1, 2, 3, 4, 3, 2, 1};  // eight nodes
    for (uint16_t k = 0; k < 7; ++k) EXPECT_EQ(hops(cycles_to_engine(Topology::ring, 7, k)), ring[k]) << k;
    const unsigned mesh[] = {1, 2, 1, 2, 3, 2, 3};  // 0 1 2 / 3 4 5 / 6 7
    for (uint16_t k = 0; k < 7; ++k) EXPECT_EQ(hops(cycles_to_engine(Topology::mesh, 7, k)), mesh[k]) << k;
    // from the short last row (node 7) to node 2: up its column, then along the row
    MemoryConfig config = plain_config(7);
    config.topology = Topology::mesh;
    config.link.hop_latency_cycles = 10;
    EXPECT_EQ(hops(cycles_of(config, stream(memory(Level::l1, 0, 64, 6), memory(Level::l1, 0, 64, 1)))), 3u);
}

TEST(Topology, too_many_engines_for_a_ring_are_refused) {
    MemoryConfig config = plain_config(60);
    config.topology = Topology::ring;
    EXPECT_THROW(MemorySystem{config}, UserError);
    config.topology = Topology::mesh;
    MemorySystem memory_system(config);
}

/// Runs two engines that L2 serves on a ring: streams that share link n0_n1 or not.
Cycles both_on_a_ring(uint16_t first, uint16_t second) {
    MemoryConfig config = plain_config(3);
    config.topology = Topology::ring;
    config.l2.ports = 2;
    MemorySystem memory_system(config);
    const auto load = [](uint16_t engine) {
        StreamRequest request =
            stream(memory(Level::l2, engine * 65536u, 65536), memory(Level::l1, 0, 65536, engine), engine);
        request.max_outstanding = 64;
        return request;
    };
    memory_system.open(load(first), 0);
    memory_system.open(load(second), 0);
    Cycles last = 0;
    for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never)) {
        memory_system.take_completed(end);
        last = end;
    }
    return last;
}

// A link moves a burst a cycle: streams the other ways round the ring do not share one, streams the same way
// do.
TEST(Topology, streams_share_the_links_they_have_in_common) {
    EXPECT_NEAR(static_cast<double>(both_on_a_ring(0, 2)), 1024, 10);
    EXPECT_NEAR(static_cast<double>(both_on_a_ring(0, 1)), 2048, 10);
}

// A link that holds one burst of a stream takes the next one only when that has left: one per 1 + hop cycles.
// With as many as are on their way at full rate, the queue costs nothing.
TEST(LinkQueue, bounds_the_rate_to_what_it_holds_over_the_time_in_the_link) {
    const auto cycles = [](uint32_t queue) {
        MemoryConfig config = plain_config();
        config.link.hop_latency_cycles = 9;
        config.link.queue_bursts = queue;
        StreamRequest request = stream(memory(Level::l2, 0, 64000), memory(Level::l1, 0, 64000));
        request.max_outstanding = 256;
        return static_cast<double>(cycles_of(config, request));
    };
    EXPECT_NEAR(cycles(1), 1000 * 11, 30);  // a cycle in L2 to come, then ten in the link
    EXPECT_NEAR(cycles(2), 1000 * 11 / 2.0, 30);
    EXPECT_EQ(cycles(16), cycles(0));
    EXPECT_NEAR(cycles(0), 1000, 30);
}

/// Returns, for four units that each want to move 200 bursts over one link, at once, when each is done.
std::vector<Cycles> four_on_a_link(Arbitration arbitration) {
    MemoryConfig config = plain_config();
    config.link.arbitration = arbitration;
    config.l2.ports = 8;
    MemorySystem memory_system(config);
    std::map<MemorySystem::Handle, size_t> unit_of_stream;
    for (uint16_t unit = 0; unit < 4; ++unit) {
        StreamRequest request =
            stream(memory(Level::l2, unit * 12800u, 12800), memory(Level::l1, unit * 12800u, 12800), unit);
        request.priority = static_cast<uint8_t>(4 - unit);
        request.max_outstanding = unit == 0 ? 64 : 16;  // one has more bursts on their way
        unit_of_stream[memory_system.open(request, 0)] = unit;
    }
    std::vector<Cycles> ends(4);
    for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never))
        for (const MemorySystem::Handle handle : memory_system.take_completed(end))
            ends[unit_of_stream.at(handle)] = end;
    return ends;
}

TEST(LinkArbitration, shares_by_turns_or_serves_the_first_priority_first) {
    const std::vector<Cycles> turns = four_on_a_link(Arbitration::round_robin);
    for (const Cycles end : turns) EXPECT_NEAR(static_cast<double>(end), 800, 25);
    const std::vector<Cycles> first = four_on_a_link(Arbitration::priority);
    EXPECT_NEAR(static_cast<double>(first[3]), 200, 25);  // the lowest number
    EXPECT_LT(first[3], first[2]);
    EXPECT_LT(first[2], first[1]);
    EXPECT_LT(first[1], first[0]);
    // with more on their way it gets more of a link that takes who came first
    const std::vector<Cycles> age = four_on_a_link(Arbitration::age);
    EXPECT_LT(age[0], 700u);
}

// Memories and links in clocks of their own: half the clock, half the rate; a faster one moves the
// bottleneck.
TEST(Clocks, each_domain_moves_at_its_own_rate) {
    const auto cycles = [](double sram, double link) {
        MemoryConfig config = plain_config();
        const auto hz = [&](double factor) { return Clock(static_cast<uint64_t>(1.6e9 * factor)); };
        if (sram != 1) config.sram_clock = hz(sram);
        if (link != 1) config.link_clock = hz(link);
        StreamRequest request = stream(memory(Level::l2, 0, 64000), memory(Level::l1, 0, 64000));
        request.max_outstanding = 64;
        return static_cast<double>(cycles_of(config, request));
    };
    EXPECT_NEAR(cycles(1, 1), 1000, 20);
    EXPECT_NEAR(cycles(0.5, 1), 2000, 20);
    EXPECT_NEAR(cycles(1, 0.25), 4000, 20);
    EXPECT_NEAR(cycles(0.5, 0.25), 4000, 40);
    EXPECT_NEAR(cycles(2, 2), 1000, 20);  // the DMA's own port
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
    MemorySystem memory_system(plain_config(2));
    run_alone(memory_system, stream(memory(Level::ddr, 0, 256), memory(Level::l1, 0, 256, 1)));
    EXPECT_EQ(memory_system.stats(1, 1000).bytes_read, 256u);     // link_sys
    EXPECT_EQ(memory_system.stats(2, 1000).bytes_written, 0u);    // l2
    EXPECT_EQ(memory_system.stats(3, 1000).bytes_read, 0u);       // e0_link
    EXPECT_EQ(memory_system.stats(5, 1000).bytes_read, 256u);     // e1_link
    EXPECT_EQ(memory_system.stats(6, 1000).bytes_written, 256u);  // e1_l1
}

TEST(Repeat, the_pattern_is_walked_again) {
    MemorySystem memory_system(plain_config());
    StreamRequest request = stream(rows(memory(Level::l1, 0, 64), 10, 128), unit_of(0));
    request.source.repeat = 3;
    EXPECT_EQ(run_alone(memory_system, request).bytes, 3 * 10 * 64u);
}

TEST(BadRequest, is_refused) {
    MemorySystem memory_system(plain_config());
    EXPECT_THROW(memory_system.open(stream(unit_of(0), unit_of(0)), 0), InternalError);
    EXPECT_THROW(memory_system.open(stream(memory(Level::l2, 0, 64), memory(Level::l1, 0, 64, 3)), 0),
                 InternalError);
    StreamRequest request = stream(memory(Level::l2, 0, 64), unit_of(0));
    request.burst_bytes = 0;
    EXPECT_THROW(memory_system.open(request, 0), InternalError);
}

}  // namespace
}  // namespace kpu::model
