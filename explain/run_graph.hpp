#pragma once

#include <vector>

#include "traces/event_file.hpp"
#include "traces/intervals.hpp"

namespace kpu::explain {

/// Core cycle that never comes: of what did not happen before the run ended.
constexpr Cycles never = ~Cycles{0};

/// A task instance of a run, times in core cycles.
struct TaskRun {
    uint32_t statement = traces::no_task;
    uint32_t op = traces::background_op;
    uint32_t work = traces::no_task;  ///< index into RunInfo::works; no_task: not recorded
    Cycles issue = never, ready = never, begin = never, end = never;
    uint16_t unit = traces::no_unit, partner = traces::no_unit;
    int sequencer = 0;
    traces::IssueCause issue_cause = traces::IssueCause::start;
    uint32_t issued_by = traces::no_task;   ///< whose completion let it be issued
    uint32_t readied_by = traces::no_task;  ///< whose completion made it ready; no_task: ready at the start
    uint32_t first_producer = 0, producer_count = 0;
    bool begun() const { return begin != never; }
    bool ended() const { return end != never; }
};

/// A state of a unit, in core cycles.
struct UnitState {
    Cycles from = 0, to = 0;
    traces::Cause cause = traces::Cause::idle_no_work;
    uint32_t task = traces::no_task;
    uint32_t op = traces::background_op;
    int64_t blame = traces::blame_none;
};

/// A recording as tasks, their order, and what every unit did: what all explanations start from.
class RunGraph {
  public:
    /// Throws UserError naming `origin` when the records contradict each other.
    RunGraph(const traces::Recording& recording, const std::string& origin);

    const traces::RunInfo& info() const { return recording_.info; }
    const traces::TaskTable& names() const { return names_; }
    Cycles total() const { return recording_.info.total_cycles; }

    const std::vector<TaskRun>& tasks() const { return tasks_; }  ///< index = serial
    /// Serials of the tasks whose tokens task `t` needs, as far as recorded.
    const uint32_t* producers_begin(const TaskRun& t) const { return producers_.data() + t.first_producer; }
    const uint32_t* producers_end(const TaskRun& t) const { return producers_begin(t) + t.producer_count; }
    /// True if `consumer` needs the token of `producer` as one of an earlier iteration.
    bool carries_token(uint32_t producer, uint32_t consumer) const;

    /// Returns the tasks that a unit began, in order of begin; a task with a partner stands in both lists.
    const std::vector<uint32_t>& tasks_of(uint16_t unit) const { return by_unit_[unit]; }
    /// Returns the tasks that a sequencer dispatched, in order.
    const std::vector<uint32_t>& dispatched_by(int sequencer) const;
    /// Returns the one before `task` in such a list; no_task: none.
    static uint32_t before(const std::vector<uint32_t>& list, const std::vector<TaskRun>& tasks,
                           uint32_t task);

    /// States of a unit in order of time, without gaps over [0, total).
    const std::vector<UnitState>& states(uint16_t unit) const { return states_[unit]; }
    uint16_t device() const { return device_; }

    /// Returns "name[i=3]" of a task; "-" for none.
    std::string label(uint32_t task) const;
    /// Returns "net.py:7" of a statement whose program carries places; else empty.
    std::string place(uint32_t statement) const;
    /// Returns the same of a task.
    std::string place_of(uint32_t task) const;
    const std::string& unit_name(uint16_t unit) const;
    const traces::TaskWork* work_of(const TaskRun& task) const {
        return task.work == traces::no_task ? nullptr : &info().works[task.work];
    }

  private:
    void read_tasks(const std::string& origin);
    void read_states();
    void check(const std::string& origin) const;

    const traces::Recording& recording_;
    traces::TaskTable names_;
    std::vector<TaskRun> tasks_;
    std::vector<uint32_t> producers_;
    std::vector<std::pair<uint32_t, uint32_t>> carried_;  ///< consumer, producer; ascending
    std::vector<std::vector<uint32_t>> by_unit_, by_sequencer_;
    std::vector<std::vector<UnitState>> states_;
    uint16_t device_ = traces::no_unit;
};

/// Cycles by cause, without the zeros, in order of the causes.
using CauseCycles = std::vector<std::pair<traces::Cause, Cycles>>;
/// Sums what a unit did in [from, to).
CauseCycles causes_between(const std::vector<UnitState>& states, Cycles from, Cycles to);

}  // namespace kpu::explain
