#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/bound_program.hpp"
#include "isa/device_limits.hpp"

namespace kpu::analysis {

enum class FindingKind : uint8_t {
    raw,               ///< a read and the write before it that nothing orders
    war,               ///< a write and the read before it
    waw,               ///< two writes
    not_proved,        ///< could not be decided within the bounds on work
    uninitialised,     ///< a read of bytes that no task has written
    empty_token,       ///< a token of a loop that never runs
    deadlock,          ///< the token table fills with tasks that wait for others which get no entry
    token_limit,       ///< more tasks in flight than the token table holds: issue waits
    hoistable_reload,  ///< a loop that brings the same bytes to the same place each time
    dead_write,        ///< a transfer, store or result that nothing reads
    unused_buffer,
    refused_value,  ///< a value in the range of a parameter for which the program does not load
    no_device,      ///< the program's device is not known, or it names none
    not_checked,    ///< a check was left out
};
constexpr int finding_kind_count = 14;
std::string_view name_of(FindingKind kind);  ///< raw, war, waw, not-proved, uninitialised-read ...
/// Says in one sentence what findings of a kind mean.
std::string_view meaning_of(FindingKind kind);

/// A change that would mend a finding.
struct Fix {
    enum class Kind : uint8_t { none, add_dependency, carry_token, narrow_window };
    Kind kind = Kind::none;
    uint32_t from = 0;  ///< add_dependency, carry_token: statement whose token ...
    uint32_t to = 0;    ///< ... this statement needs; narrow_window: the loop statement
    uint32_t loop = 0;  ///< carry_token: the loop statement
    /// narrow_window: the largest max_in_flight that is safe for this pair; carry_token: the distance
    uint64_t window = 0;
};

/// Something about a schedule. Statements, iterations and bytes are those of the first instance found.
struct Finding {
    FindingKind kind = FindingKind::raw;
    Severity severity = Severity::warning;
    uint32_t statement = 0;        ///< the later of the two tasks
    uint32_t other_statement = 0;  ///< the earlier one
    LoopValues loops, other_loops;
    uint32_t buffer = UINT32_MAX;  ///< UINT32_MAX: none
    uint64_t first = 0, last = 0;  ///< bytes from the buffer's base, both inclusive
    std::string message;           ///< one line, with "Fix: ..." at its end
    std::vector<std::string> notes;
    Fix fix;
};

/// Most bytes that the buffers of a level hold at one time, in the order of the text.
struct MemoryUse {
    Level level = Level::ddr;
    uint16_t engine = 0;     ///< engine of L1
    uint64_t declared = 0;   ///< bytes of all buffers, alignment included
    uint64_t peak_live = 0;  ///< bytes written and still to be read, or left as an output
    uint32_t statement = 0;  ///< task at whose start that is so
};

struct ScheduleReport {
    static constexpr size_t max_findings = 100;
    std::vector<Finding> findings;  ///< races, then the rest; each kind in the order of the text
    std::vector<MemoryUse>
        memory;  ///< use of the levels that the program uses; empty when it is too long to follow
    std::vector<uint32_t>
        peak_tokens;        ///< most tasks in flight by engine; empty when it is too long to follow
    uint64_t unlisted = 0;  ///< findings beyond max_findings
    /// Counts the findings beyond max_findings instead of listing them.
    void keep_listed() {
        if (findings.size() <= max_findings) return;
        unlisted += findings.size() - max_findings;
        findings.resize(max_findings);
    }
};

/// Bounds up to which a program is followed task by task; what lies beyond is left out.
struct FollowBounds {
    uint64_t tasks = uint64_t{1} << 17;         ///< whose bytes are followed
    uint64_t runs = uint64_t{1} << 20;          ///< contiguous pieces of operands of those
    uint64_t table_trials = uint64_t{1} << 14;  ///< tasks with which the token table is tried
};
/// Bounds of a gate, which takes the time: 200 bytes of memory for a task.
constexpr FollowBounds gate_bounds{uint64_t{1} << 22, uint64_t{1} << 25, uint64_t{1} << 22};

/// Looks for everything that a legal schedule of the program may do wrong, without running it: for any timing
/// and any loop count. Work is bounded; what could not be decided within it is a finding `not_proved`.
ScheduleReport check_schedule(const BoundProgram& program, const DeviceLimits& limits,
                              const FollowBounds& bounds = {});

/// Returns the place of a finding: its statement, or the declaration of its buffer.
SourcePos place_of(const Finding& finding, const BoundProgram& program);

/// A task (loop, wait) that a finding is about, in the iteration of the first instance found.
struct FindingSide {
    SourcePos pos;                                           ///< position with its statement
    std::string task;                                        ///< its name; empty of what is no task
    std::vector<std::pair<std::string, int64_t>> iteration;  ///< variables of the loops around it
};
FindingSide side_of(const BoundProgram& program, uint32_t statement, const LoopValues& loops);

/// Origin of a diagnostic: what it does not say of its finding.
struct FindingOrigin {
    std::string kind;  ///< raw, war, ...
    std::optional<FindingSide> side, other;
    std::string buffer;                                  ///< empty: about none
    std::optional<std::pair<uint64_t, uint64_t>> bytes;  ///< from the buffer's base, both inclusive
};
/// Origins indexed by position in Diagnostics::all().
using FindingOrigins = std::map<size_t, FindingOrigin>;

/// Adds the findings as diagnostics.
void add_to(const ScheduleReport& report, const BoundProgram& program, Diagnostics& diagnostics,
            FindingOrigins* origins = nullptr);

}  // namespace kpu::analysis
