#pragma once

#include <functional>
#include <string>
#include <vector>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// A time in which the state of a unit does not change.
struct StateInterval {
    uint16_t unit = no_unit;
    Picoseconds start = 0, end = 0;
    Cycles cycles =
        0;  ///< core edges in [start, end): sums to cycles.total over a unit, whatever its clock domain
    Cause cause = Cause::idle_no_work;
    uint32_t task = no_task;
    uint32_t op = background_op;
    int64_t blame = blame_none;
};

/// Calls `visit` for every interval of every unit: units in order of their ids, then by time, without gaps
/// from 0 to info.end_ps, unless info.view leaves causes or operations out. Equal neighbours are one interval. With
/// info.view.every a state is the one whose cause held longest in an interval so long, of its longest stretch.
void for_each_interval(const RunInfo& info, const Events& events,
                       const std::function<void(const StateInterval&)>& visit);

/// Names of task instances, from their issue and loop records.
class TaskTable {
  public:
    TaskTable(const RunInfo& info, const Events& events);
    /// Returns the name of the task's statement; "" for no_task, "task<serial>" when its issue was not
    /// recorded.
    std::string name(uint32_t task) const;
    std::string_view profile(uint32_t task) const;  ///< tag of @profile; empty without one
    /// Returns "i=3 j=0": values of the enclosing loops, outermost first; "" outside loops.
    std::string iteration(uint32_t task) const;
    /// Returns "name" or "name[i=3 j=0]".
    std::string label(uint32_t task) const;
    /// Returns what a cause record blames: a unit's name, a task's label, or "".
    std::string blamed(int64_t blame) const;

  private:
    struct Task {
        uint32_t statement = no_task;
        uint32_t outer = 0;  ///< index of its outer loop values
        int64_t innermost = 0;
    };
    const RunInfo& info_;
    std::vector<Task> tasks_;  ///< indexed by serial
    std::vector<int64_t> outer_;
};

}  // namespace kpu::traces
