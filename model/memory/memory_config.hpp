#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "model/dram/config.hpp"

namespace kpu::proto {
class Platform;
}

namespace kpu::model {

/// Most bursts that one stream may have outstanding.
constexpr uint32_t max_window = 1u << 16;
/// Most requests that the buffers of a unit take, however short they are.
constexpr uint32_t max_buffered = 1024;

struct SramConfig {
    uint64_t size_bytes = 0;
    uint32_t banks = 1;
    uint32_t bank_width_bytes = 64;
    uint32_t interleave_bytes = 64;
    uint32_t ports = 1;
    uint32_t bytes_per_cycle = 64;  ///< width of one port
    uint32_t read_latency_cycles = 0;
    uint32_t write_latency_cycles = 0;
    uint32_t access_width_bytes = 16;
    uint32_t turnaround_cycles = 0;  ///< cycles of a bank between a read and a write
};

/// Choice among the bursts that wait for a link: the one that came first; of the unit that follows the last
/// one's; of the stream with the lowest priority number, then the one that came first.
enum class Arbitration : uint8_t { age, round_robin, priority };

struct LinkConfig {
    uint32_t bytes_per_cycle = 64;
    uint32_t hop_latency_cycles = 0;
    Arbitration arbitration = Arbitration::age;
    uint32_t queue_bursts = 0;  ///< limit for one stream, in a link and waiting for it; 0: any number
};

/// Network that joins L2 and the engines. See interconnect.md.
enum class Topology : uint8_t { crossbar, ring, mesh };
/// A stream crosses no more links.
constexpr unsigned max_hops = 20;

enum class DramMapping : uint8_t { bank_group_interleaved, row_bank_column };

/// Timing of one channel, in the DRAM's own clocks (nCK). Counts of ranks, groups, banks, rows, columns are
/// powers of two.
struct DramTiming {
    uint64_t clock_hz = 1'600'000'000;
    uint32_t burst_bytes = 64, burst_nck = 4;
    uint32_t ranks = 1, bank_groups = 4, banks_per_group = 4, rows = 65536, row_bytes = 8192;
    uint32_t cl = 22, cwl = 16, trcd = 22, trp = 22, tras = 52, trc = 74, trrd_s = 4, trrd_l = 8;
    uint32_t tccd_s = 4, tccd_l = 8, tfaw = 34, twr = 24, twtr_s = 4, twtr_l = 12, trtp = 12;
    uint32_t trfc = 560, trefi = 12480, rd_to_wr = 12;
    uint32_t refresh_sets =
        1;  ///< same-bank refresh: one bank of a group at a time, each tREFI / sets; 1: all banks
    uint32_t controller_nck = 0;  ///< both ways together
    DramMapping mapping = DramMapping::bank_group_interleaved;
};

struct DdrConfig {
    DramTiming timing;
    std::optional<dram::Config> controller;  ///< fidelity `burst`; without one `simple`
    uint32_t channels = 1;
    uint32_t channel_interleave_bytes = 256;
    uint64_t size_bytes = 0;
};

/// Everything that the memory system takes from a platform.
struct MemoryConfig {
    Clock core{1'000'000'000};
    std::optional<Clock> sram_clock, link_clock;  ///< own clocks; without one the core's
    SramConfig l2;
    std::vector<SramConfig> l1;                ///< indexed by engine
    LinkConfig link;                           ///< values of every link
    uint32_t system_link_bytes_per_cycle = 0;  ///< width of the link between DDR and L2; 0: as the others
    Topology topology = Topology::crossbar;
    DdrConfig ddr;

    /// Returns the link at a place of the memory system's list: the first joins DDR and L2.
    LinkConfig link_at(size_t place) const;
};

/// Checks what the memory system itself relies on. Throws UserError naming field, value and fix.
MemoryConfig memory_config(const proto::Platform& platform);
void check(const MemoryConfig& config);

}  // namespace kpu::model
