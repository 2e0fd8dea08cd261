#pragma once

#include <map>
#include <random>

#include "tests/memory/streams.hpp"

namespace kpu::model::test {

/// Units that post streams: each its list, one after the other, `delay` cycles after the completion before
/// (the first: after cycle 0).
struct Post {
    Cycles delay = 0;
    StreamRequest request;
};
using Workload = std::vector<std::vector<Post>>;  ///< indexed by unit
using Results = std::vector<std::vector<StreamResult>>;

inline MemoryConfig rough_config(std::mt19937& random) {
    const auto pick = [&](std::initializer_list<uint32_t> values) {
        return *(values.begin() + random() % values.size());
    };
    MemoryConfig config;
    config.core = Clock(pick({1'000'000'000, 800'000'000, 1'370'000'000}));
    const auto sram = [&] {
        SramConfig s;
        s.size_bytes = 1 << 20;
        s.banks = pick({2, 4, 8, 3});
        s.bank_width_bytes = pick({8, 16, 64});
        s.interleave_bytes = pick({32, 64, 128});
        s.ports = pick({1, 2, 3});
        s.bytes_per_cycle = pick({16, 64});
        s.read_latency_cycles = pick({0, 1, 5});
        s.write_latency_cycles = pick({0, 2});
        return s;
    };
    config.l2 = sram();
    config.l1 = {sram(), sram(), sram(), sram(), sram()};
    config.l2.turnaround_cycles = pick({0, 0, 3});
    config.link.bytes_per_cycle = pick({16, 32, 64});
    config.link.hop_latency_cycles = pick({0, 2, 9});
    config.link.queue_bursts = pick({0, 0, 1, 3});
    config.link.arbitration = static_cast<Arbitration>(pick({0, 0, 1, 2}));
    config.topology = static_cast<Topology>(pick({0, 1, 2}));
    if (pick({0, 1}) != 0) config.link_clock = Clock(pick({500'000'000, 1'900'000'000}));
    if (pick({0, 1}) != 0) config.sram_clock = Clock(pick({700'000'000, 2'000'000'000}));
    config.ddr.channels = pick({1, 2, 3});
    config.ddr.channel_interleave_bytes = pick({64, 256, 1024});
    config.ddr.timing.controller_nck = pick({0, 16});
    config.ddr.timing.trefi = 3000;
    config.ddr.timing.mapping =
        pick({0, 1}) != 0 ? DramMapping::bank_group_interleaved : DramMapping::row_bank_column;
    if (pick({0, 1}) == 0) return config;
    use_controller(config,
                   config.ddr.timing.mapping == DramMapping::row_bank_column ? "row_bank_column"
                                                                             : "bg col:3 ba ra col row",
                   pick({1, 2}), [&](proto::DdrDevice& device, proto::DdrController& controller) {
                       device.set_trefi(3000);
                       controller.set_read_queue(pick({1, 4, 32}));
                       controller.set_write_queue(pick({2, 8, 32}));
                       controller.set_write_high(pick({1, 2}));
                       controller.set_write_low(0);
                       controller.set_request_nck(pick({0, 1, 9}));
                       controller.set_response_nck(pick({0, 5}));
                       controller.set_power_down_nck(pick({0, 50}));
                       controller.set_self_refresh_nck(pick({0, 0, 700}));
                   });
    return config;
}

inline StreamSide rough_memory(std::mt19937& random, Level level, uint64_t bytes) {
    StreamSide side = memory(level, random() % 4096 * 16, bytes, static_cast<uint16_t>(random() % 5));
    if (random() % 2 == 0) {  // cut into rows
        const uint64_t count = uint64_t{1} << random() % 4;
        side.pattern.run_bytes = bytes / count;
        side = rows(side, static_cast<int64_t>(count),
                    static_cast<int64_t>(side.pattern.run_bytes + random() % 5 * 96));
    }
    return side;
}

inline Workload rough_workload(std::mt19937& random, unsigned units, unsigned posts) {
    Workload workload(units);
    for (unsigned u = 0; u < units; ++u) {
        for (unsigned i = 0; i < posts; ++i) {
            const uint64_t bytes = 8 * (1 + random() % 400);
            const auto level = [&] { return static_cast<Level>(random() % 3); };
            StreamRequest request;
            switch (random() % 4) {
                case 0:
                    request =
                        stream(rough_memory(random, level(), bytes), unit_of(static_cast<uint16_t>(u % 2)));
                    break;
                case 1:
                    request =
                        stream(unit_of(static_cast<uint16_t>(u % 2)), rough_memory(random, level(), bytes));
                    break;
                default:
                    request =
                        stream(rough_memory(random, level(), bytes), rough_memory(random, level(), bytes));
            }
            request.unit = static_cast<uint16_t>(u);
            request.priority = static_cast<uint8_t>(random() % 3);
            request.port_bytes_per_cycle = 16u << random() % 3;
            request.burst_bytes = 32u << random() % 3;
            request.max_outstanding = static_cast<uint32_t>(1 + random() % 20);
            request.descriptor_cycles = static_cast<uint32_t>(random() % 3 * 7);
            request.row_cycles = static_cast<uint32_t>(random() % 3);
            if (random() % 3 == 0) {
                request.pace_offset = random() % 20;
                request.pace_cycles = random() % 500;
            }
            workload[u].push_back({random() % 4 == 0 ? 0 : random() % 300, request});
        }
    }
    return workload;
}

/// Runs a workload on the memory system alone. `step()` gives the cycles of the next horizon, 0: as far as it
/// goes.
template <typename Step>
Results run_workload(MemorySystem& memory_system, const Workload& workload, Step step) {
    Results results(workload.size());
    std::multimap<Cycles, size_t> due;            // posts to come
    std::map<MemorySystem::Handle, size_t> open;  // unit of each stream
    for (size_t u = 0; u < workload.size(); ++u) due.emplace(workload[u][0].delay, u);
    Cycles now = 0;
    while (!due.empty() || !open.empty()) {
        Cycles horizon = due.empty() ? never : due.begin()->first;
        if (const Cycles cycles = step(); cycles != 0) horizon = std::min(horizon, now + cycles);
        const Cycles end = memory_system.advance(horizon);
        if (end != never) {
            now = end;
            for (const MemorySystem::Handle handle : memory_system.take_completed(end)) {
                const size_t u = open.at(handle);
                results[u].push_back(memory_system.result(handle));
                memory_system.close(handle);
                open.erase(handle);
                if (results[u].size() < workload[u].size())
                    due.emplace(now + workload[u][results[u].size()].delay, u);
            }
            continue;
        }
        now = horizon;
        while (!due.empty() && due.begin()->first == now) {
            const size_t u = due.begin()->second;
            due.erase(due.begin());
            open[memory_system.open(workload[u][results[u].size()].request, now)] = u;
        }
    }
    return results;
}

/// Returns everything a result holds, as text: what differs shows in the message of a failed comparison.
inline std::string text_of(const StreamResult& r) {
    std::string text = std::to_string(r.start) + ".." + std::to_string(r.end) + " bytes " +
                       std::to_string(r.bytes) + " accesses " + std::to_string(r.source_accesses) + "/" +
                       std::to_string(r.destination_accesses) + " act " + std::to_string(r.dram_activates) +
                       " conflicts " + std::to_string(r.bank_conflict_cycles);
    for (const LimiterChange& l : r.limiters)
        text += " [" + std::to_string(l.from) + " " + std::string(std::to_string(static_cast<int>(l.cause))) +
                " " + std::to_string(l.bytes_before) + "]";
    return text;
}
inline std::string text_of(const Results& results) {
    std::string text;
    for (size_t u = 0; u < results.size(); ++u)
        for (const StreamResult& r : results[u]) text += std::to_string(u) + ": " + text_of(r) + "\n";
    return text;
}
inline std::string text_of(const ResourceStats& s) {
    const auto n = [](uint64_t value) { return " " + std::to_string(value); };
    return n(s.useful) + n(s.overhead) + n(s.idle) + n(s.bytes_read) + n(s.bytes_written) + n(s.words_read) +
           n(s.words_written) + n(s.conflict_cycles) + n(s.peak_queue) + n(s.dram.reads) + n(s.dram.writes) +
           n(s.dram.activates) + n(s.dram.row_hits) + n(s.dram.refreshes) + n(s.dram.forwarded) +
           n(s.dram.charged_activates) + n(s.dram.rank_times[0]) + n(s.dram.rank_times[2]) +
           n(s.dram.rank_times[5]);
}
/// Ends the run at `elapsed`.
inline std::string text_of_stats(MemorySystem& memory_system, Cycles elapsed) {
    memory_system.finish(elapsed);
    std::string text;
    for (size_t i = 0; i < memory_system.resources().size(); ++i)
        text += memory_system.resources()[i].name + text_of(memory_system.stats(i, elapsed)) + "\n";
    return text;
}

}  // namespace kpu::model::test
