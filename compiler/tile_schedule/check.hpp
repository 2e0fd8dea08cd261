#pragma once
// Checks of a schedule before anything of it runs, and what each op depends on.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

enum class FaultKind : uint8_t {
    unknown_tensor,  ///< no tensor has the op's id
    tile_outside,    ///< the tile is outside its tensor
    wrong_bytes,     ///< bytes are not those of one tile
    unaligned,       ///< an address is no multiple of 64
    outside_arena,   ///< an SRAM range leaves the arena
    never_loaded,    ///< a tile is used that nobody loaded or computed, or that was overwritten since
    overlap,         ///< an accumulator overlaps an operand, or part of another tile
    unstored_sum,    ///< k == 0 clears a partial sum that nobody stored
    wrong_type,      ///< types or scales that do not go together
    wrong_role,      ///< a STORE to an input or weight, a LOAD of what only a later op stores
    lost_sum         ///< warning: a sum that nobody stored is overwritten by a LOAD, or left at the end
};
std::string_view name_of(FaultKind kind);
bool is_warning(FaultKind kind);

struct Fault {
    FaultKind kind = FaultKind::unknown_tensor;
    uint32_t op = 0;
    std::string message;  ///< message of what is wrong with the op, and the fix
};

/// A schedule that was refused. Nothing of it has run.
class ScheduleError : public UserError {
  public:
    ScheduleError(FaultKind kind, uint32_t op, Diagnostics diagnostics)
        : UserError(std::move(diagnostics)), kind_(kind), op_(op) {}
    FaultKind kind() const { return kind_; }  ///< kind of the first fault
    uint32_t op() const { return op_; }

  private:
    FaultKind kind_;
    uint32_t op_;
};

/// Dependence on an earlier op: its tile in the arena is complete, it needs its tiles in the arena no more,
/// or its DRAM tile is read or written.
struct Dependence {
    enum class On : uint8_t { value, release, dram };
    uint32_t op = 0;
    On on = On::value;
};

struct OpFacts {
    bool from_zero = true;   ///< EXECUTE: the accumulator starts from zero, else from what it holds
    double scale = 1;        ///< STORE of i8 tiles: real value of one step of the accumulator
    uint32_t first_dep = 0;  ///< into Analysis::deps
    uint32_t dep_count = 0;
};

struct Analysis {
    uint64_t loads = 0, executes = 0, stores = 0;
    uint64_t peak_bytes = 0;   ///< end of the highest tile in the arena
    std::vector<OpFacts> ops;  ///< parallel to the schedule's
    std::vector<Dependence> deps;
    std::vector<Fault> faults;  ///< it stops after 20 errors; of warnings the first 20
};

struct AnalysisOptions {
    uint64_t arena_bytes = uint64_t{1} << 32;  ///< limit of the arena
    bool dependences = true;                   ///< else deps stays empty
};

/// Follows the schedule op by op. Never throws on a bad schedule: see Analysis::faults.
Analysis analyse(const Schedule& schedule, const AnalysisOptions& options);

/// Faults as findings with the place of their op in the file.
void report(const Analysis& analysis, const Schedule& schedule, Diagnostics& diagnostics);
/// Throws ScheduleError when there are errors among the faults.
void require_legal(const Analysis& analysis, const Schedule& schedule);

}  // namespace kpu::tile_schedule
