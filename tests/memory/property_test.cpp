#include <gtest/gtest.h>

#include <functional>

#include "base/diagnostics.hpp"
#include "model/memory/pattern_cursor.hpp"
#include "tests/memory/workload.hpp"

namespace kpu::model {
namespace {

using namespace test;
using traces::Cause;

TEST(Horizons, results_do_not_depend_on_the_sequence_of_horizons) {
    for (unsigned seed = 0; seed < 400; ++seed) {
        std::mt19937 random(seed);
        const MemoryConfig config = rough_config(random);
        const Workload workload = rough_workload(random, 1 + seed % 7, 4);
        MemorySystem whole(config), pieces(config);
        const Results expected = run_workload(whole, workload, [] { return 0; });
        const Results got = run_workload(pieces, workload, [&] { return 1 + random() % 40; });
        ASSERT_EQ(text_of(expected), text_of(got)) << "seed " << seed;
        ASSERT_EQ(text_of_stats(whole, 500'000), text_of_stats(pieces, 500'000)) << "seed " << seed;
    }
}

TEST(Conservation, bytes_arrive_and_cycles_add_up) {
    for (unsigned seed = 200; seed < 400; ++seed) {
        std::mt19937 random(seed);
        const MemoryConfig config = rough_config(random);
        const Workload workload = rough_workload(random, 5, 4);
        MemorySystem memory_system(config);
        const Results results = run_workload(memory_system, workload, [] { return 0; });
        uint64_t sram_read = 0, sram_written = 0, dram_read = 0, dram_written = 0, activates = 0,
                 conflicts = 0;
        Cycles end = 0;
        for (size_t u = 0; u < workload.size(); ++u) {
            for (size_t i = 0; i < workload[u].size(); ++i) {
                const StreamRequest& request = workload[u][i].request;
                const StreamResult& result = results[u][i];
                uint64_t bytes = std::max(PatternCursor::total_bytes(request.source),
                                          PatternCursor::total_bytes(request.destination));
                EXPECT_EQ(result.bytes, bytes);
                const auto tally = [&](const StreamSide& side, uint64_t accesses, uint64_t& sram,
                                       uint64_t& dram) {
                    if (side.is_memory && side.level == Level::ddr)
                        dram += accesses * config.ddr.timing.burst_bytes;
                    else if (side.is_memory)
                        sram += bytes;
                };
                tally(request.source, result.source_accesses, sram_read, dram_read);
                tally(request.destination, result.destination_accesses, sram_written, dram_written);
                activates += result.dram_activates;
                conflicts += result.bank_conflict_cycles;
                end = std::max(end, result.end);
                ASSERT_FALSE(result.limiters.empty());
                EXPECT_EQ(result.limiters.front().from, result.start);
                for (size_t k = 1; k < result.limiters.size(); ++k) {
                    EXPECT_LT(result.limiters[k - 1].from, result.limiters[k].from);
                    EXPECT_LE(result.limiters[k - 1].bytes_before, result.limiters[k].bytes_before);
                    EXPECT_NE(result.limiters[k - 1].cause, result.limiters[k].cause);
                }
                EXPECT_LT(result.limiters.back().from, result.end);
            }
        }
        memory_system.finish(end);
        ResourceStats sum;
        for (size_t r = 0; r < memory_system.resources().size(); ++r) {
            const ResourceStats s = memory_system.stats(r, end);
            EXPECT_EQ(s.useful + s.overhead + s.idle, end);
            EXPECT_LE(s.useful + s.overhead, end) << memory_system.resources()[r].name;
            if (memory_system.resources()[r].kind == UnitKind::ddr) {
                EXPECT_EQ(s.dram.reads * config.ddr.timing.burst_bytes, s.bytes_read);
                EXPECT_EQ(s.dram.writes * config.ddr.timing.burst_bytes, s.bytes_written);
                // a refresh may close a row before any burst of it has come
                if (config.ddr.controller)
                    EXPECT_GE(s.dram.activates + s.dram.row_hits, s.dram.reads + s.dram.writes);
                else
                    EXPECT_EQ(s.dram.activates + s.dram.row_hits, s.dram.reads + s.dram.writes);
                EXPECT_LE(s.dram.charged_activates, s.dram.activates);
                sum.dram.reads += s.bytes_read;
                sum.dram.writes += s.bytes_written;
                sum.dram.activates += s.dram.charged_activates;
            } else if (memory_system.resources()[r].kind != UnitKind::link) {
                sum.bytes_read += s.bytes_read;
                sum.bytes_written += s.bytes_written;
                sum.conflict_cycles += s.conflict_cycles;
            }
        }
        EXPECT_EQ(sum.bytes_read, sram_read);
        EXPECT_EQ(sum.bytes_written, sram_written);
        EXPECT_EQ(sum.dram.reads, dram_read);
        EXPECT_EQ(sum.dram.writes, dram_written);
        EXPECT_EQ(sum.dram.activates, activates);
        EXPECT_EQ(sum.conflict_cycles, conflicts);
    }
}

/// Returns when the last stream of a workload ends.
double end_of(const MemoryConfig& config, const Workload& workload) {
    MemorySystem memory_system(config);
    Cycles end = 0;
    for (const auto& unit : run_workload(memory_system, workload, [] { return 0; }))
        for (const StreamResult& result : unit) end = std::max(end, result.end);
    return static_cast<double>(end);
}

// More of a resource is faster on average, and in no mix more than 30 % slower: bursts then meet in another
// order, which first come, first served does not always take well.
TEST(Metamorphic, more_of_a_resource_is_not_slower_beyond_the_anomaly_bound) {
    const std::vector<std::pair<const char*, std::function<void(MemoryConfig&)>>> changes = {
        {"link width", [](MemoryConfig& c) { c.link.bytes_per_cycle *= 2; }},
        {"hop latency", [](MemoryConfig& c) { c.link.hop_latency_cycles = 0; }},
        {"link queue", [](MemoryConfig& c) { c.link.queue_bursts = 0; }},
        {"link clock", [](MemoryConfig& c) { c.link_clock = Clock(2 * c.link_clock.value_or(c.core).hz()); }},
        {"SRAM clock", [](MemoryConfig& c) { c.sram_clock = Clock(2 * c.sram_clock.value_or(c.core).hz()); }},
        {"banks", [](MemoryConfig& c) { c.l2.banks *= 2; }},
        {"ports", [](MemoryConfig& c) { c.l2.ports *= 2; }},
        {"port width", [](MemoryConfig& c) { c.l2.bytes_per_cycle *= 2; }},
        {"turn-around", [](MemoryConfig& c) { c.l2.turnaround_cycles = 0; }},
        {"channels", [](MemoryConfig& c) { c.ddr.channels *= 2; }}};
    std::vector<double> sums(changes.size(), 0);
    for (unsigned seed = 5000; seed < 5400; ++seed) {
        std::mt19937 random(seed);
        MemoryConfig config = rough_config(random);
        const Workload workload = rough_workload(random, 2 + seed % 5, 5);
        config.topology = Topology::crossbar;
        if (config.ddr.controller) use_controller(config);  // awake: more channels sleep more
        const double before = end_of(config, workload);
        for (size_t i = 0; i < changes.size(); ++i) {
            MemoryConfig better = config;
            changes[i].second(better);
            const double ratio = end_of(better, workload) / before;
            EXPECT_LE(ratio, 1.3) << changes[i].first << ", seed " << seed;
            sums[i] += ratio - 1;
        }
    }
    for (size_t i = 0; i < changes.size(); ++i) EXPECT_LE(sums[i], 0) << changes[i].first;
}

/// Adds up the cycles of each state of each unit.
class StateSink : public traces::EventSink {
  public:
    void record(const traces::Event& event) override {
        if (event.unit >= last_.size()) last_.resize(event.unit + size_t{1});
        EXPECT_GE(event.time_ps, last_[event.unit].time_ps);
        EXPECT_EQ(event.kind, traces::EventKind::cause);
        account(event.unit, event.time_ps);
        last_[event.unit] = event;
    }
    Picoseconds time(uint16_t unit, Cause cause, Picoseconds end) {
        if (unit < last_.size()) account(unit, end);
        return times_[{unit, static_cast<uint8_t>(cause)}];
    }

  private:
    void account(uint16_t unit, Picoseconds until) {
        traces::Event& last = last_[unit];
        if (last.unit != traces::no_unit) times_[{unit, last.cause}] += until - last.time_ps;
        last.time_ps = until;
    }
    std::vector<traces::Event> last_;
    std::map<std::pair<uint16_t, uint8_t>, Picoseconds> times_;
};

TEST(Trace, the_recorded_states_add_up_to_the_statistics) {
    for (unsigned seed = 300; seed < 310; ++seed) {
        std::mt19937 random(seed);
        MemoryConfig config = rough_config(random);
        config.core = Clock(1'000'000'000);
        const Workload workload = rough_workload(random, 4, 4);
        MemorySystem traced(config), plain(config);
        StateSink sink;
        std::vector<uint16_t> ids;
        for (size_t r = 0; r < traced.resources().size(); ++r) ids.push_back(static_cast<uint16_t>(r));
        traced.trace_to(&sink, ids);
        const Results results = run_workload(traced, workload, [] { return 0; });
        ASSERT_EQ(text_of(results), text_of(run_workload(plain, workload, [] { return 0; })));
        const Cycles end = 100'000;
        traced.finish(end);
        plain.finish(end);
        for (size_t r = 0; r < ids.size(); ++r) {
            const ResourceStats stats = plain.stats(r, end);
            EXPECT_EQ(sink.time(ids[r], Cause::busy_useful, end * 1000), stats.useful * 1000);
            EXPECT_EQ(sink.time(ids[r], Cause::busy_overhead, end * 1000), stats.overhead * 1000);
            EXPECT_EQ(sink.time(ids[r], Cause::idle_no_work, end * 1000), stats.idle * 1000);
        }
    }
}

/// Returns a configuration in which every parameter matters, and a mix of streams that uses everything at
/// once.
MemoryConfig tight_config() {
    MemoryConfig config = plain_config();
    for (SramConfig* sram : {&config.l2, &config.l1[0]}) {
        sram->banks = 4;
        sram->bank_width_bytes = 8;
        sram->interleave_bytes = 64;
        sram->ports = 2;
        sram->bytes_per_cycle = 16;
        sram->read_latency_cycles = 3;
        sram->write_latency_cycles = 2;
    }
    config.link.bytes_per_cycle = 16;
    config.link.hop_latency_cycles = 4;
    config.ddr.timing.controller_nck = 16;
    return config;
}

Cycles total_cycles(const MemoryConfig& config, const std::function<void(StreamRequest&)>& change = {}) {
    // one mover at a time, then all of them: sums every kind of time
    const std::vector<StreamRequest> requests = {
        stream(memory(Level::ddr, 0, 65536), memory(Level::l2, 0, 65536), 0),
        stream(memory(Level::l2, 65536, 16384), memory(Level::ddr, 262144, 16384), 1),
        stream(rows(memory(Level::l2, 0, 512), 16, 1024), memory(Level::l1, 0, 8192), 2),
        stream(memory(Level::l1, 0, 8192), unit_of(0), 3),
        stream(unit_of(0), memory(Level::l1, 8192, 8192), 4),
    };
    Cycles sum = 0;
    const auto changed = [&](StreamRequest request) {
        request.descriptor_cycles = 8;
        request.row_cycles = 1;
        request.max_outstanding = 8;
        if (change) change(request);
        return request;
    };
    for (const StreamRequest& request : requests) sum += cycles_of(config, changed(request));
    MemorySystem memory_system(config);
    for (const StreamRequest& request : requests) memory_system.open(changed(request), 0);
    for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never)) {
        memory_system.take_completed(end);
        sum += end;
    }
    return sum;
}

TEST(Sensitivity, every_memory_parameter_changes_the_time_the_right_way) {
    const Cycles base = total_cycles(tight_config());
    const auto slower = [&](const char* what, const std::function<void(MemoryConfig&)>& change) {
        MemoryConfig config = tight_config();
        change(config);
        EXPECT_GT(total_cycles(config), base) << what;
    };
    const auto faster = [&](const char* what, const std::function<void(MemoryConfig&)>& change) {
        MemoryConfig config = tight_config();
        change(config);
        EXPECT_LT(total_cycles(config), base) << what;
    };
    for (const bool l1 : {false, true}) {
        const auto sram = [l1](MemoryConfig& c) -> SramConfig& { return l1 ? c.l1[0] : c.l2; };
        slower("banks", [&](MemoryConfig& c) { sram(c).banks = 2; });
        faster("bank_width", [&](MemoryConfig& c) { sram(c).bank_width_bytes = 32; });
        slower("bytes_per_cycle", [&](MemoryConfig& c) { sram(c).bytes_per_cycle = 4; });
        slower("read_latency", [&](MemoryConfig& c) { sram(c).read_latency_cycles = 20; });
        slower("write_latency", [&](MemoryConfig& c) { sram(c).write_latency_cycles = 20; });
        slower("interleave", [&](MemoryConfig& c) { sram(c).interleave_bytes = 4096; });
    }
    slower("link width", [](MemoryConfig& c) { c.link.bytes_per_cycle = 4; });
    slower("hop latency", [](MemoryConfig& c) { c.link.hop_latency_cycles = 30; });
    slower("core clock", [](MemoryConfig& c) { c.core = Clock(3'200'000'000); });
    slower("mapping", [](MemoryConfig& c) {
        c.ddr.timing.mapping = DramMapping::row_bank_column;
        c.ddr.timing.tccd_l = 40;
    });
    slower("controller", [](MemoryConfig& c) { c.ddr.timing.controller_nck = 200; });
    slower("device timing", [](MemoryConfig& c) { c.ddr.timing.cl = 60; });
    slower("refresh", [](MemoryConfig& c) { c.ddr.timing.trefi = 2000; });
    const auto two_readers_of_l1 = [](uint32_t ports) {
        MemoryConfig config = plain_config();
        config.l1[0].ports = ports;
        MemorySystem memory_system(config);
        for (uint16_t unit = 0; unit < 2; ++unit)
            memory_system.open(stream(memory(Level::l1, unit * 64u, 6400), unit_of(0), unit), 0);
        memory_system.advance(never);
        return memory_system.next_time();
    };
    EXPECT_GT(two_readers_of_l1(1), two_readers_of_l1(2) * 19 / 10) << "ports";
    const auto parallel_dram = [](uint32_t channels, uint32_t interleave) {
        MemoryConfig config = plain_config();
        config.ddr.channels = channels;
        config.ddr.channel_interleave_bytes = interleave;
        StreamRequest request = stream(memory(Level::ddr, 0, 65536), unit_of(no_engine));
        request.max_outstanding = 64;
        return cycles_of(config, request);
    };
    EXPECT_LT(parallel_dram(2, 256), parallel_dram(1, 256));
    EXPECT_LT(parallel_dram(2, 256), parallel_dram(2, 65536));
}

TEST(Sensitivity, every_request_parameter_changes_the_time_the_right_way) {
    const Cycles base = total_cycles(tight_config());
    const auto with = [&](const std::function<void(StreamRequest&)>& change) {
        return total_cycles(tight_config(), change);
    };
    EXPECT_GT(with([](StreamRequest& r) { r.descriptor_cycles = 100; }), base);
    EXPECT_GT(with([](StreamRequest& r) { r.row_cycles = 50; }), base);
    EXPECT_GT(with([](StreamRequest& r) { r.max_outstanding = 1; }), base);
    EXPECT_GT(with([](StreamRequest& r) { r.port_bytes_per_cycle = 2; }), base);
    EXPECT_GT(with([](StreamRequest& r) { r.pace_cycles = 20000; }), base);
    EXPECT_GT(with([](StreamRequest& r) { r.burst_bytes = 8; }), base);
}

TEST(Limiter, names_what_held_the_stream) {
    const auto longest = [](const MemoryConfig& config, StreamRequest request) {
        const StreamResult result = run_alone(config, request);
        std::map<Cause, Cycles> times;
        for (size_t i = 0; i < result.limiters.size(); ++i)
            times[result.limiters[i].cause] +=
                (i + 1 < result.limiters.size() ? result.limiters[i + 1].from : result.end) -
                result.limiters[i].from;
        Cause best = times.begin()->first;
        for (const auto& [cause, time] : times)
            if (time > times[best]) best = cause;
        return best;
    };
    StreamRequest load = stream(memory(Level::ddr, 0, 65536), memory(Level::l2, 0, 65536));
    load.max_outstanding = 64;
    EXPECT_EQ(longest(plain_config(), load), Cause::stalled_operand_dram_bandwidth);
    load.max_outstanding = 1;
    EXPECT_EQ(longest(plain_config(), load), Cause::stalled_operand_dram_latency);
    StreamRequest copy = stream(memory(Level::l2, 0, 65536), memory(Level::l1, 0, 65536));
    EXPECT_EQ(longest(plain_config(), copy), Cause::stalled_operand_interconnect);  // its own port
    MemoryConfig config = plain_config();
    config.l2.banks = 2;
    config.l2.bank_width_bytes = 8;
    EXPECT_EQ(longest(config, copy), Cause::stalled_operand_bank_conflict);
    config = plain_config();
    config.l1[0].bytes_per_cycle = 8;
    EXPECT_EQ(longest(config, copy), Cause::stalled_backpressure);
    config = plain_config();
    config.link.bytes_per_cycle = 8;
    EXPECT_EQ(longest(config, copy), Cause::stalled_operand_interconnect);
    StreamRequest scattered = stream(rows(memory(Level::l2, 0, 64), 100, 128), memory(Level::l1, 0, 6400));
    scattered.row_cycles = 20;
    EXPECT_EQ(longest(plain_config(), scattered), Cause::stalled_dma_issue);
    config = plain_config();
    config.ddr.timing.trefi = 700;
    EXPECT_EQ(longest(config, load), Cause::stalled_refresh);
}

/// Returns what held the first of these streams longest, all begun together.
Cause held_by(const MemoryConfig& config, const std::vector<StreamRequest>& requests) {
    MemorySystem memory_system(config);
    const MemorySystem::Handle first = memory_system.open(requests[0], 0);
    for (size_t i = 1; i < requests.size(); ++i) memory_system.open(requests[i], 0);
    for (Cycles end = memory_system.advance(never); end != never; end = memory_system.advance(never))
        memory_system.take_completed(end);
    const StreamResult& result = memory_system.result(first);
    std::map<Cause, Cycles> times;
    for (size_t i = 0; i < result.limiters.size(); ++i)
        times[result.limiters[i].cause] +=
            (i + 1 < result.limiters.size() ? result.limiters[i + 1].from : result.end) -
            result.limiters[i].from;
    const auto longest = std::max_element(times.begin(), times.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    return longest->first;
}

// Four things that a full DRAM may mean, with both fidelities: its bus is busy, its banks open and close rows,
// the bus turns between reads and writes, or few of its channels get the requests.
TEST(Limiter, tells_what_a_dram_waits_for) {
    for (const bool controller : {false, true}) {
        SCOPED_TRACE(controller ? "burst" : "simple");
        MemoryConfig config = plain_config();
        config.ddr.timing.trefi = 1 << 20;
        if (controller)
            use_controller(config, "bank_group_interleaved", 1,
                           [](auto& device, auto&) { device.set_trefi(1 << 20); });
        const auto load = [](StreamSide source, uint16_t unit = 0) {
            const auto bytes = static_cast<int64_t>(source.pattern.run_bytes) *
                               (source.pattern.dims == 0 ? 1 : source.pattern.count[0]);
            StreamRequest request =
                stream(source, memory(Level::l2, uint64_t{unit} << 18, static_cast<uint64_t>(bytes)), unit);
            request.max_outstanding = 64;
            return request;
        };
        const StreamRequest dense = load(memory(Level::ddr, 0, 65536));
        EXPECT_EQ(held_by(config, {dense}), Cause::stalled_operand_dram_bandwidth);
        constexpr int64_t row_of_the_bank = 131072;
        EXPECT_EQ(held_by(config, {load(rows(memory(Level::ddr, 0, 64), 500, row_of_the_bank))}),
                  Cause::stalled_operand_dram_bank_conflict);
        StreamRequest save = stream(memory(Level::l2, 1 << 19, 65536), memory(Level::ddr, 1 << 20, 65536), 1);
        save.max_outstanding = 64;
        if (!controller) {
            EXPECT_EQ(held_by(config, {dense, save}), Cause::stalled_operand_dram_turnaround);
        }
        config.ddr.channels = 8;
        constexpr int64_t camps = 8 * 256, spreads = 9 * 256;
        EXPECT_EQ(held_by(config, {load(rows(memory(Level::ddr, 0, 256), 200, camps))}),
                  Cause::stalled_operand_dram_imbalance);
        EXPECT_NE(held_by(config, {load(rows(memory(Level::ddr, 0, 256), 200, spreads))}),
                  Cause::stalled_operand_dram_imbalance);
    }
}

TEST(Limiter, stalls_of_a_paced_stream_are_what_it_comes_late) {
    MemoryConfig config = plain_config();
    config.l1[0].banks = 1;
    config.l1[0].bank_width_bytes = 16;  // 4 cycles a burst
    StreamRequest request = stream(memory(Level::l1, 0, 6400), unit_of(0));
    request.pace_cycles = 200;  // wants 2 cycles a burst
    const StreamResult result = run_alone(config, request);
    EXPECT_EQ(result.end, 100 * 4u);
    Cycles stalled = 0;
    for (size_t i = 0; i < result.limiters.size(); ++i)
        if (result.limiters[i].cause != Cause::busy_useful)
            stalled += (i + 1 < result.limiters.size() ? result.limiters[i + 1].from : result.end) -
                       result.limiters[i].from;
    // alone at its pace it would end at 198 + 4
    EXPECT_EQ(stalled, 400 - 202u);
}

TEST(Order, ties_go_to_the_lower_priority_number_then_the_lower_unit) {
    const auto winner = [](uint8_t priority_of_first) {
        MemorySystem memory_system(plain_config());
        StreamRequest a = stream(memory(Level::l1, 0, 64), unit_of(0), 1), b = a;
        b.unit = 0;
        a.priority = priority_of_first;
        b.priority = 1;
        memory_system.open(a, 5);
        memory_system.open(b, 5);
        const Cycles end = memory_system.advance(never);
        return memory_system.take_completed(end).front();
    };
    EXPECT_EQ(winner(0), 0u);
    EXPECT_EQ(winner(1), 1u);
}

TEST(Config, bad_memory_parameters_are_refused_by_name) {
    const auto message = [](const std::function<void(MemoryConfig&)>& change) -> std::string {
        MemoryConfig config = plain_config();
        change(config);
        try {
            MemorySystem memory_system(config);
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_NE(message([](MemoryConfig& c) { c.l2.banks = 0; }).find("l2.banks"), std::string::npos);
    EXPECT_NE(message([](MemoryConfig& c) { c.l1[0].ports = 0; }).find("engine.l1.ports"), std::string::npos);
    EXPECT_NE(message([](MemoryConfig& c) { c.ddr.channel_interleave_bytes = 100; }).find("Fix"),
              std::string::npos);
    EXPECT_NE(message([](MemoryConfig& c) { c.ddr.timing.rows = 1000; }).find("512 or 1024"),
              std::string::npos);
    EXPECT_EQ(message([](MemoryConfig&) {}), "");
}

}  // namespace
}  // namespace kpu::model
