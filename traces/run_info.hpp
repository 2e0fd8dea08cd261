#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"
#include "traces/event.hpp"
#include "traces/ledger.hpp"
#include "traces/task_work.hpp"

namespace kpu::traces {

/// The part of a run that traces show: a window of time; units, causes and operations by name; how finely.
struct TraceView {
    Picoseconds from = 0, to = ~Picoseconds{0};
    /// Shell patterns (fnmatch), any of which may match; empty: all.
    std::vector<std::string> units, causes, ops;
    /// Length of the intervals of which the states that held longest are kept; 0: every state.
    Picoseconds every = 0;
    bool shows(const std::string& unit) const;
};

/// Data that the readers of an event stream need beside the records. Plain data; travels as JSON in event
/// files.
struct RunInfo {
    struct Op {
        std::string id, type;
        uint64_t estimated_cycles = 0;
        double estimated_energy_pj = 0;
    };
    struct Statement {
        std::string name;  ///< name of the task; empty for loops, waits and declarations
        std::string file;
        uint32_t line = 0, column = 0;   ///< 0: unknown
        std::vector<std::string> loops;  ///< variables of the enclosing loops, outermost first
        std::string profile;             ///< tag of @profile; empty without one
        std::string type = {};           ///< transfer, store, or the opcode; empty for what is no task
        int engine = -1, instance = -1;  ///< that it must run on; -1: any
        /// Stage of a task: load (towards the arrays), compute or store (away from them).
        std::string stage = {};
    };
    std::string program, platform, mode;
    uint64_t core_hz = 1;
    Cycles total_cycles = 0;  ///< edges before end_ps: cycles.total
    Picoseconds end_ps = 0;   ///< last completion
    bool complete = true;
    bool accesses = false;        ///< the recording has access records
    bool carries_places = false;  ///< files and lines of statements are those that the program carries
    std::vector<UnitInfo> units;  ///< unit id = index
    std::vector<Op> ops;
    std::vector<Statement> statements;
    std::vector<TaskWork> works;     ///< work of tasks: see EventKind::work
    uint64_t dram_posted_bytes = 0;  ///< that DRAM controllers may hold unwritten at the end
    uint32_t dispatch_cycles = 0;    ///< between two dispatches of one sequencer
    EnergyPrices prices;
    uint32_t dram_burst_bytes =
        0;                    ///< bytes of one dram read or write action; 0 = unknown: no DRAM bandwidth
    uint32_t dram_banks = 0;  ///< banks of a channel whose uses are recorded; 0 = they are not
    uint32_t dram_interleave_bytes = 0;  ///< interleave of its channels; 0 = unknown
    double bin_ns = 1000;                ///< width of the bins of power and bandwidth in traces
    TraceView view;                      ///< part that writers show; not stored

    Clock clock() const { return Clock(core_hz); }
    Picoseconds bin_ps() const;                                       ///< at least 1
    Picoseconds from() const { return std::min(view.from, end_ps); }  ///< begin of what traces show
    Picoseconds to() const { return std::min(view.to, end_ps); }
    /// Returns "net.py:7" of a statement; empty when its line is unknown.
    std::string place_of(uint32_t statement) const;
    /// Returns the name of an operation; background_name for background_op.
    std::string_view op_name(uint32_t op) const;
};

/// The states that info.view shows, looked up.
class ShownStates {
  public:
    explicit ShownStates(const RunInfo& info);
    bool shows(uint8_t cause, uint32_t op) const { return causes_[cause] && shows_op(op); }
    bool shows_op(uint32_t op) const { return ops_[std::min<size_t>(op, ops_.size() - 1)]; }

  private:
    std::vector<bool> causes_, ops_;  ///< the background last
};

/// Throws UserError for bins that are shorter than a cycle of the core.
void check_bin(double ns, const Clock& core);

/// Returns the operations and statements of a program, with their source positions; the caller fills in the
/// rest.
RunInfo describe(const BoundProgram& program);

/// Writes one line of JSON with sorted keys.
std::string to_json(const RunInfo& info);
/// Throws UserError naming `origin` and what is missing or out of range.
RunInfo run_info_from_json(std::string_view text, const std::string& origin);

}  // namespace kpu::traces
