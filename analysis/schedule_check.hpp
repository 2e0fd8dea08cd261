#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/diagnostics.hpp"

namespace kpu::analysis {

enum class FindingKind : uint8_t {
    raw,  ///< a read and the write before it that nothing orders
    war,  ///< a write and the read before it
    waw,  ///< two writes
    not_proved,
};
std::string_view name_of(FindingKind kind);  ///< raw, war, waw, not-proved ...

/// A change that would mend a finding.
struct Fix {
    enum class Kind : uint8_t { none, add_dependency, narrow_window };
    Kind kind = Kind::none;
    uint32_t from = 0;    ///< add_dependency: statement whose token ...
    uint32_t to = 0;      ///< ... this statement needs; narrow_window: the loop statement
    uint64_t window = 0;  ///< narrow_window: the largest max_in_flight that is safe for this pair
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
    Fix fix;
};

struct ScheduleReport {
    static constexpr size_t max_findings = 100;
    std::vector<Finding> findings;  ///< in the order of the text
    uint64_t unlisted = 0;          ///< findings beyond max_findings
};

/// Looks for everything that a legal schedule of the program may do wrong, without running it: for any timing
/// and any loop count. Work is bounded; what could not be decided within it is a finding `not_proved`.
ScheduleReport check_schedule(const BoundProgram& program);

/// The findings as diagnostics at their statements.
void add_to(const ScheduleReport& report, const BoundProgram& program, Diagnostics& diagnostics);

}  // namespace kpu::analysis
