#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

/// Core cycles of schedules on a platform.
struct ScheduleTiming {
    uint64_t cycles = 0;
    uint64_t dma_busy = 0;      ///< in which a system DMA executes a transfer
    uint64_t compute_busy = 0;  ///< in which a systolic array executes
    /// Returns (dma_busy + compute_busy) / cycles: 1 when one follows the other, 2 when both are busy all the
    /// time.
    double overlap() const {
        return cycles == 0 ? 0 : static_cast<double>(dma_busy + compute_busy) / static_cast<double>(cycles);
    }
};

/// Simulates a legal schedule without values. Throws UserError when the platform cannot run it.
ScheduleTiming time_schedule(const Schedule& schedule, const std::string& platform, uint64_t arena_bytes);

/// The time of many executes, told when it is asked for; the same schedule is simulated once.
class TimedRuns {
  public:
    TimedRuns(std::string platform, uint64_t arena_bytes)
        : platform_(std::move(platform)), arena_bytes_(arena_bytes) {}
    /// `header`: of the tensors that the ops name.
    void add(const std::vector<Op>& ops, const Header& header);
    ScheduleTiming total(const Header& header);

  private:
    struct Run {
        std::vector<Op> ops;
        uint64_t count = 0;  ///< not yet in the total
        bool known = false;
        ScheduleTiming timing;
    };
    void settle(Run& run, const Header& header);

    std::string platform_;
    uint64_t arena_bytes_;
    std::vector<Run> runs_;  ///< the last few different ones
    ScheduleTiming total_;
};

}  // namespace kpu::tile_schedule
