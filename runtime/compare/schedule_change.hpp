#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::compare {

/// The first statement-level difference of two schedules in one operation.
struct ScheduleChange {
    enum class Kind : uint8_t {
        missing,    ///< only one program has the task
        loop,       ///< the loops around it: variables or ranges
        window,     ///< max_in_flight of a loop around it
        order,      ///< it stands elsewhere among the tasks of both programs
        wait,       ///< tokens that the program waits for before it issues it (after it: of the last one)
        operation,  ///< another opcode, or a transfer instead of a store
        deps,       ///< tokens that it needs
        carried,    ///< tokens that it needs of earlier iterations
        sync,       ///< whether the program goes on while it runs
        unit,       ///< the engine or the instance that it must run on
        region,     ///< the declaration of a region that it touches
        statement   ///< something else in its line
    };
    Kind kind = Kind::missing;
    std::string op;    ///< its id in A, or in B if A does not have it
    std::string task;  ///< its name in A, or in B
    std::string a, b;  ///< value in each; for tokens, those that only this one has
    /// Line of the statement in each program's text; 0: it does not have it.
    uint32_t line_a = 0, line_b = 0;
    size_t further = 0;  ///< differences of this operation after this one
};
std::string_view name_of(ScheduleChange::Kind kind);  ///< missing, loop, window ...

/// A program, and its text as run folders have it, which it was read from.
struct ScheduleSide {
    const BoundProgram& program;
    std::string_view text;
};

/// Returns a change for each operation whose schedule differs, in the order of A, then those that only B has.
/// Tasks are the same by name; those that are left, in their order, by operation and opcode. The fewest tasks
/// that have to move count as moved.
std::vector<ScheduleChange> schedule_changes(const ScheduleSide& a, const ScheduleSide& b);

}  // namespace kpu::compare
