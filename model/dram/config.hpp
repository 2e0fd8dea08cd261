#pragma once

#include <cstdint>
#include <string>

#include "model/dram/address_map.hpp"
#include "platforms/platform.pb.h"

namespace kpu::dram {

constexpr uint32_t max_refresh_sets = 8;

/// JEDEC timing of a device in its own clocks (nCK).
struct Timing {
    uint32_t burst;  ///< the data bus is taken
    uint32_t cl, cwl, trcd_rd, trcd_wr, trp, trp_ab, tras, trc;
    uint32_t trrd_s, trrd_l, tfaw, tccd_s, tccd_l;
    uint32_t twr, twtr_s, twtr_l, trtp, rd_to_wr;
    uint32_t tppd;  ///< 0: no such rule
    uint32_t trfc, trefi;
    /// Time of a same-bank refresh: one bank of every group at a time, this long, and what follows it to an
    /// activate of another bank of the rank. 0: all banks of a rank at once.
    uint32_t trfc_sb, trefsb_to_act;
    uint32_t tccd_l_wr;  ///< write to write of a group
    uint32_t txp, txs, tcke, trtrs;
    bool separate_row_commands;
    uint32_t activate_clocks, column_clocks, precharge_clocks;  ///< on the command bus; refresh as precharge
    double tck_ns;
    /// Number of refreshes in sequence that refresh a rank; each comes after tREFI divided by them.
    uint32_t refresh_sets = 1;
    uint32_t refresh_interval() const { return trefi / refresh_sets; }
    uint32_t refresh_time() const { return refresh_sets == 1 ? trfc : trfc_sb; }
};

/// Policy of the controller; platform.proto says what each one means.
struct Policy {
    uint32_t read_queue, write_queue, write_high, write_low, row_hit_cap;
    uint32_t request_nck, response_nck, power_down_nck, self_refresh_nck;
};

/// Configuration of one channel.
struct Config {
    Geometry geometry;
    Timing timing;
    Policy policy;
    AddressMap map;
};

/// The system that a trace is replayed on.
struct ReplayConfig {
    Config channel;
    uint32_t channels = 1;
    uint32_t channel_interleave_bytes = 256;  ///< blocks of this size lie in consecutive channels
    uint32_t max_outstanding = 32;            ///< reads in flight, all channels together
};

/// Makes everything that a channel takes from platform data. `mapping` is the name of one of the table's
/// mappings or an order of fields (AddressMap). Throws UserError, naming field, value and fix, for counts
/// that are zero or no power of two, timings that no device can have (tRC < tRAS + tRP, ...), and impossible
/// queues.
Config make_config(const proto::DdrDevice& device, const proto::DdrController& controller,
                   const std::string& mapping, uint32_t ranks = 1);

}  // namespace kpu::dram
