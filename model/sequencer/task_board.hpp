#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "execution/controller.hpp"
#include "execution/program_plan.hpp"
#include "isa/bound_program.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Tasks that compete for the same units and go to the same sequencer: those that miss tokens, and those that
/// are ready and not yet started.
struct TaskQueue {
    execution::UnitDemand unit;
    std::optional<execution::UnitDemand> partner;  ///< a second unit that each occupies
    int32_t sequencer = -1;  ///< whose sequencer dispatches them; -1: that of the engine a task is placed on
    std::vector<uint16_t> units;     ///< that may execute them, ascending
    std::vector<uint16_t> partners;  ///< that may be their second unit, ascending

    /// Returns the earliest-issued one that misses tokens, or that is ready; null when there is none.
    const execution::TaskInstance* first_waiting() const {
        return waiting.empty() ? nullptr : &waiting.front();
    }
    execution::TaskInstance* first_ready() const { return ready.empty() ? nullptr : ready.top(); }
    /// True if its tasks can run on no other unit of that kind: while they wait, this one is not idle.
    bool needs(uint16_t one) const {
        const auto only = [one](const std::vector<uint16_t>& list) {
            return list.size() == 1 && list[0] == one;
        };
        return only(units) || only(partners);
    }

    struct IssuedLater {
        bool operator()(const execution::TaskInstance* a, const execution::TaskInstance* b) const {
            return a->serial > b->serial;
        }
    };
    using Hook = boost::intrusive::member_hook<execution::TaskInstance, execution::TaskInstance::ListHook,
                                               &execution::TaskInstance::list_hook>;
    /// Waiting tasks in order of issue. No count, no memory: tasks come and go at every instant.
    boost::intrusive::list<execution::TaskInstance, Hook, boost::intrusive::constant_time_size<false>>
        waiting;
    std::priority_queue<execution::TaskInstance*, std::vector<execution::TaskInstance*>, IssuedLater> ready;
};

/// Returns the one issued first; either may be null.
inline const execution::TaskInstance* earlier(const execution::TaskInstance* a,
                                              const execution::TaskInstance* b) {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return b->serial < a->serial ? b : a;
}

/// Every live task that is not running, and the units that can take it. Written by the arbiter, read by the
/// accounting.
class TaskBoard {
  public:
    /// units: of the device, in order of unit id. Throws UserError when a task asks for a unit that none is.
    TaskBoard(const BoundProgram& program, const std::vector<traces::UnitInfo>& units);

    void issued(execution::TaskInstance& task);
    void ready(execution::TaskInstance& task);
    void started(execution::TaskInstance& task);  ///< the first ready one of its queue
    void occupy(uint16_t unit, const execution::TaskInstance& task) { holders_[unit] = &task; }
    void release(uint16_t unit) { holders_[unit] = nullptr; }
    /// True if the unit could take a task now.
    bool is_free(uint16_t unit) const { return holders_[unit] == nullptr; }
    /// Returns the task for which the unit takes no other one; null when it is free.
    const execution::TaskInstance* holder(uint16_t unit) const { return holders_[unit]; }

    std::vector<TaskQueue>& queues() { return queues_; }
    const std::vector<TaskQueue>& queues() const { return queues_; }
    const TaskQueue& queue_of(const execution::TaskInstance& task) const { return queues_[index_of(task)]; }
    /// Queues whose tasks may occupy the unit.
    const std::vector<uint32_t>& queues_of_unit(uint16_t unit) const { return by_unit_[unit]; }
    /// True if tasks of the program may keep it busy: its own, or kernels that have products done by it.
    bool is_used(uint16_t unit) const { return !by_unit_[unit].empty() || multiplies_[unit]; }
    /// True if kernels may have products done by it.
    bool multiplies(uint16_t unit) const { return multiplies_[unit]; }
    /// Returns the earliest-issued task that is not running; null when there is none.
    const execution::TaskInstance* earliest() const;

  private:
    size_t index_of(const execution::TaskInstance& task) const {
        const auto place = static_cast<size_t>(task.task - program_.tasks.data());
        if (queues_of_instances_.empty()) return queue_of_task_[place];
        const auto found = queues_of_instances_.find(place);
        const auto wanted = static_cast<size_t>(task.instance);  // -1, any, is beyond all of them
        return found != queues_of_instances_.end() && wanted < found->second.size() ? found->second[wanted]
                                                                                    : queue_of_task_[place];
    }
    uint32_t find_or_add(TaskQueue wanted);
    void find_arrays(const std::vector<traces::UnitInfo>& units);
    void find_units(TaskQueue& queue, uint32_t index, const std::vector<traces::UnitInfo>& units);

    const BoundProgram& program_;
    std::vector<TaskQueue> queues_;
    std::vector<uint32_t> queue_of_task_;
    /// Queues of tasks whose instance differs by iteration, indexed by task, then instance.
    std::unordered_map<size_t, std::vector<uint32_t>> queues_of_instances_;
    std::vector<std::vector<uint32_t>> by_unit_;
    std::vector<bool> multiplies_;                         ///< indexed by unit
    std::vector<const execution::TaskInstance*> holders_;  ///< indexed by unit; null: free
};

}  // namespace kpu::model
