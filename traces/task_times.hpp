#pragma once

#include <vector>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Times of a task instance; from its issue, ready, begin and end records.
struct TaskTimes {
    static constexpr Picoseconds never = ~Picoseconds{0};
    Picoseconds issued = never, ready = never, begin = never, end = never;
    uint16_t unit = no_unit;     ///< that executes it
    uint16_t partner = no_unit;  ///< a second one that it occupies
    uint32_t op = background_op;
};

/// Returns the times by serial of the task instance; `never` for what the recording does not have.
std::vector<TaskTimes> task_times(const Events& events);

/// Tokens that task instances wait for: the producers of task t are producer[first[t]] to
/// producer[first[t + 1] - 1], as serials.
struct TaskFlows {
    std::vector<uint64_t> first;
    std::vector<uint32_t> producer;
};
TaskFlows task_flows(const Events& events, size_t tasks);

}  // namespace kpu::traces
