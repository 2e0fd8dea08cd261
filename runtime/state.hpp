#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "execution/run_status.hpp"

namespace kpu::runtime {

using execution::RunStatus;

/// Present state of a unit.
struct UnitState {
    std::string unit;
    std::string activity;  ///< group.cause
};

/// A task that is issued and not complete.
struct TaskStatus {
    uint32_t serial = 0;
    uint32_t statement = 0;
    std::string name;               ///< token name and iteration
    std::string state;              ///< waiting, ready, running
    std::vector<uint32_t> missing;  ///< serials of the tasks whose tokens it still needs
};

/// The end of a task, as a step reports it.
struct Completion {
    static constexpr uint32_t none = UINT32_MAX;
    uint32_t serial = none;  ///< none: nothing completed
    uint32_t statement = 0;
    std::string name;       ///< token name
    std::string iteration;  ///< "i=3, j=0"; empty outside loops
    std::string unit;       ///< empty in functional mode
};

struct State {
    Cycles cycle = 0;
    std::vector<UnitState> units;  ///< empty in functional mode
    std::vector<TaskStatus> tasks;
    uint64_t completed = 0;                ///< tasks
    uint64_t ddr_bytes = 0, l2_bytes = 0;  ///< allocated
    std::vector<uint64_t> l1_bytes;
};

}  // namespace kpu::runtime
