#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "explain/run_graph.hpp"

namespace kpu::compare {

/// A stretch of time with one operation and one state. `kind`: of the device, what its cycles are counted as (0 compute,
/// 1 memory stall, 2 other); of a unit, the index of its cause's band in traces::bands().
struct Bar {
    Cycles from = 0, to = 0;
    uint32_t op = traces::background_op;
    uint8_t kind = 0;
};

/// Times at which an operation of a run was under way, and what the cycles that are charged to it were.
struct OperationTime {
    std::array<Cycles, 3> charged{};  ///< cycles by kind; they sum to charged_cycles of ops.csv
    Cycles begin = explain::never;    ///< first issue
    Cycles end = 0;                   ///< last completion
};

/// Timeline that a page draws of a run.
struct Timeline {
    struct Unit {
        std::string name;
        std::vector<Bar> bars;
    };
    std::vector<OperationTime> ops;  ///< as RunInfo::ops; the background last
    std::vector<Bar> device;         ///< the whole run, without gaps
    std::vector<Unit> units;         ///< units that did something, when they did
};

/// Neighbours alike are one bar. Of more bars than a screen can tell apart there are stretches of equal length, each with
/// what takes most of it: a run of any length gives a page of moderate size.
Timeline timeline_of(const explain::RunGraph& graph);

}  // namespace kpu::compare
