#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <queue>
#include <vector>

#include "execution/controller.hpp"
#include "isa/bound_program.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// What a task asks for: tasks of one class compete for the same units and go to the same sequencer.
struct TaskClass {
    UnitKind kind = UnitKind::dma;
    int32_t engine =
        -1;  ///< -1: any engine; system DMA tasks: the engine of the second DMA they occupy, if any
    int32_t instance = -1;        ///< -1: any
    bool engine_dma = false;      ///< DDR <-> L1: occupies a DMA of `engine` as well
    int32_t sequencer = -1;       ///< whose sequencer dispatches it; -1: that of the engine it is placed on
    std::vector<uint16_t> units;  ///< that may execute it, ascending
    std::vector<uint16_t> partners;  ///< that may be its second DMA, ascending

    /// The earliest-issued one that misses tokens, or that is ready and not yet started; null when there is
    /// none.
    const execution::TaskInstance* first_waiting() const {
        return waiting.empty() ? nullptr : &waiting.front();
    }
    execution::TaskInstance* first_ready() const { return ready.empty() ? nullptr : ready.top(); }

    struct IssuedLater {
        bool operator()(const execution::TaskInstance* a, const execution::TaskInstance* b) const {
            return a->serial > b->serial;
        }
    };
    using Hook = boost::intrusive::member_hook<execution::TaskInstance, execution::TaskInstance::ListHook,
                                               &execution::TaskInstance::list_hook>;
    /// In order of issue. No count, no memory: tasks come and go at every instant.
    boost::intrusive::list<execution::TaskInstance, Hook, boost::intrusive::constant_time_size<false>>
        waiting;
    std::priority_queue<execution::TaskInstance*, std::vector<execution::TaskInstance*>, IssuedLater> ready;
};

/// The one issued first; either may be null.
inline const execution::TaskInstance* earlier(const execution::TaskInstance* a,
                                              const execution::TaskInstance* b) {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return b->serial < a->serial ? b : a;
}

/// Every live task that is not running, by class, and which units can take one. Written by the arbiter, read
/// by the accounting.
class TaskBoard {
  public:
    /// units: of the device, in order of unit id.
    TaskBoard(const BoundProgram& program, const std::vector<traces::UnitInfo>& units);

    void issued(execution::TaskInstance& task);
    void ready(execution::TaskInstance& task);
    void started(execution::TaskInstance& task);  ///< the first ready one of its class
    void set_free(uint16_t unit, bool free) { free_[unit] = free; }
    /// Whether the unit could take a task now.
    bool is_free(uint16_t unit) const { return free_[unit]; }

    size_t class_of(const BoundTask& task) const;
    std::vector<TaskClass>& classes() { return classes_; }
    const std::vector<TaskClass>& classes() const { return classes_; }
    /// Classes whose tasks may occupy the unit.
    const std::vector<uint32_t>& classes_of_unit(uint16_t unit) const { return by_unit_[unit]; }
    /// The earliest-issued task that is not running; null when there is none.
    const execution::TaskInstance* earliest() const;

  private:
    const BoundProgram& program_;
    std::vector<TaskClass> classes_;
    std::vector<uint32_t> class_of_task_;
    std::vector<std::vector<uint32_t>> by_unit_;
    std::vector<bool> free_;  ///< by unit
};

/// The unit class that executes tasks of a kind.
traces::UnitClass unit_class_of(UnitKind kind);
UnitKind unit_kind_of(traces::UnitClass unit_class);  ///< throws InternalError for classes without tasks
bool executes_tasks(traces::UnitClass unit_class);

}  // namespace kpu::model
