#pragma once

#include "explain/run_graph.hpp"
#include "explain/what_if.hpp"

namespace kpu::explain {

/// The least time of tasks: their formulas, with nothing else on the device, and one resource that moves or
/// computes in no time.
class LeastTime {
  public:
    LeastTime(const RunGraph& graph, Part free) : graph_(graph), free_(free) {}

    /// Returns the time from the task's begin to its end.
    Cycles of(const TaskRun& task) const;
    /// Returns how long the unit takes no other task.
    Cycles occupancy(const TaskRun& task) const;
    /// Returns what is left of the task after that.
    Cycles after_occupancy(const TaskRun& task) const;
    /// True if any engine may take the task: another run may place it elsewhere.
    bool floats(const TaskRun& task) const;
    /// Returns the time of `bytes` through a unit at its peak; 0 when it is free.
    double moving(uint16_t unit, double bytes) const;
    bool is_free(uint16_t unit) const {
        return !free_.empty() && row_of(graph_.info().units[unit].kind).part == free_;
    }

  private:
    Cycles of_stream(const TaskRun& task, const traces::StreamWork& stream) const;
    double port_cycles(const TaskRun& task, const traces::StreamWork& stream, double bytes) const;

    const RunGraph& graph_;
    Part free_;
};

/// Returns whole cycles of a time that was computed from rates: rounding errors never add one.
Cycles whole(double cycles);

/// Returns the bytes per core cycle of a unit at best; of a DRAM channel: of all channels.
double peak_of(const RunGraph& graph, uint16_t unit);

}  // namespace kpu::explain
