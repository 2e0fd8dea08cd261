#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text_output.hpp"
#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Writers show the units and the time that info.view names, everything unless asked otherwise. A state that
/// began earlier is cut off at the window's edge; bins of power are shown whole.
///
/// Writers are pure functions of what is known of the run and its records in order of time
/// (EventLog::take_sorted, read_event_file): the same bytes during a run and from an event file.

/// Value change dump, IEEE 1364 with the `string` variables that GTKWave added; time in ps. Scope `kpusim`,
/// in it one scope per unit:
///   state      string   cause of the unit's state, "busy.useful"; before its first record idle.no_work
///   cause      reg 5    the same as a number (table in the header comment)
///   task       string   statement that the unit executes or waits for, with its @profile tag if it has one
///                       (name@tag), "-" if none (units that have tasks)
///   op         string   operation that the time of the unit goes to, "-" if none (units that have tasks); of the
///                       device the one that ops.csv charges the cycle to
///   queue_depth, tokens_in_flight   reg 32 (units that count them)
///   bandwidth_gbps      real: 10^9 bytes per second, mean over each bin (units that count bytes)
///   power_dynamic_w, power_static_w   real: what the unit burns, mean over each bin (not of the device)
/// then, as scopes `dram` and `power`, dram.read_gbps and dram.write_gbps over all channels (from the dram read and write
/// actions, if info.dram_burst_bytes is known), and power.<component>, power.static, power.total as reals in W, each
/// value the mean of the bin that starts there; power.dram includes its background, power.phy its static
/// power. Bins are info.bin_ns wide, doubled while the run has more than 100,000 of them. Of every component but dram and
/// phy also
///   power.<component>.state   string   active, idle (its clock runs with nothing to do), gated
/// The time in active and idle is power.residency.<component>.on_us of stats.json. FST has the same (fst/fst_file.hpp).
void write_vcd(const RunInfo& info, const Events& events, Output& output);

/// Stall trace, CSV: unit,start_ps,end_ps,cycles,cause,task,iteration,operation,blamed,profile. One row per
/// interval of every unit, busy and idle ones too, so the cycles of a unit sum to cycles.total and those of a
/// cause to units.<unit>.<cause> in stats.json. `blamed`: the unit or task instance that is waited for;
/// `profile`: the task's @profile tag.
void write_stalls_csv(const RunInfo& info, const Events& events, Output& output);

struct PowerCsvOptions {
    std::string by = "component";  ///< component, engine, unit, op or corner
    bool energy = false;           ///< picojoules, every digit, instead of watts
};
/// Power over time, CSV, a row for each bin; the last one may be shorter (dt_ns). Columns:
///   component   time_ns,dt_ns,array_w,...,dram_dyn_w,dram_bg_w,phy_w,static_w,total_w,op: phy_w includes its static
///               power, static_w is that of the other components
///   engine      time_ns,dt_ns,e0_dynamic_w,e0_static_w,...,device_dynamic_w,device_static_w,total_w,op; `device` are
///               the units of no engine
///   unit        the same for the units that the view shows; total_w is of all
///   corner      time_ns,dt_ns,low_w,high_w,total_w,op: the total at the corners of the energy table
///   op          time_ns,dt_ns,op,power_w: a row for each operation with energy in the bin, and one of what is of none
/// `op`: the operation with most dynamic energy in the bin. In pJ the names end in _pj, and what is a part of something
/// sums to it exactly. Above 1,000,000 bins, with units
/// above 6,000,000 numbers, the width doubles.
void write_power_csv(const RunInfo& info, const Events& events, const PowerCsvOptions& options,
                     Output& output);

/// Energy by action, CSV: component,action,per,count,energy_per_action_pj,energy_pj,share.
void write_energy_csv(const std::vector<EnergyLedger::Row>& rows, Output& output);

/// A row of ops.csv.
struct OpRow {
    std::string id, type;
    Cycles span_cycles = 0;     ///< first issue to last completion; may overlap those of other operations
    Cycles charged_cycles = 0;  ///< sums to cycles.total over all rows, background_name included
    std::array<Cycles, unit_cause_count> causes{};  ///< unit-cycles by Cause
    uint64_t macs = 0;
    uint64_t bytes_dram = 0, bytes_l2 = 0, bytes_l1 = 0;
    bool timed =
        true;  ///< else the run had no time: cycles, work and bytes say nothing, and are empty in the file
    double utilization = 0;       ///< share of MACs: busy.useful / all busy unit-cycles, stalls left out
    bool energy_modelled = true;  ///< else energy_pj and power_w say nothing, and are empty in the file
    double energy_pj = 0;
    double power_w = 0;           ///< energy_pj over the time of span_cycles; of the background: over the run
    Cycles estimated_cycles = 0;  ///< estimate of the compiler; 0 = none
    double estimated_energy_pj = 0;
    std::string profile;  ///< @profile tags of its tasks, joined by |
    /// The resource that bounds it, says the compiler, and the cycles it takes at least; empty and 0: unknown.
    std::string bound;
    Cycles bound_cycles = 0;
    std::string
        fused_into;  ///< the operation that does this one's work too: all else is 0; empty: a row of its own
    std::string precision;  ///< element type that it computes in, says the compiler; empty: unknown
    std::optional<uint64_t>
        out_of_range;  ///< results that left the range of their type; nothing: no values were computed
};
/// Columns:
/// op,type,span_cycles,charged_cycles,<group.cause>...,macs,bytes_dram,bytes_l2,bytes_l1,utilization,energy_pj,
/// power_w,estimated_cycles,cycles_over_estimate,estimated_energy_pj,energy_over_estimate,profile,bound,bound_cycles,fused_into,precision,out_of_range; the ratios
/// are empty without estimate.
void write_ops_csv(const std::vector<OpRow>& rows, Output& output);

}  // namespace kpu::traces
