#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/values/memory_image.hpp"

namespace kpu::control {

enum class TaskState : uint8_t { waiting, ready, running, complete };

/// One execution of a task statement. Lives from issue to completion; its slot is then used again.
struct TaskInstance {
    uint32_t serial = 0;               ///< unique, in order of issue
    uint32_t statement = 0;
    const BoundTask* task = nullptr;
    TaskState state = TaskState::waiting;
    LoopValues loops;
    std::vector<values::RegionView> inputs, outputs;  ///< addresses of this iteration
    uint32_t missing = 0;              ///< tokens not yet satisfied
    std::vector<uint32_t> producers;   ///< serials of the producers that were unsatisfied at issue, ascending
    std::vector<uint32_t> all_producers; ///< serials of all producers (for token flows), ascending
    int32_t engine = -1;               ///< resolved when pinned or placed
    uint64_t thread = 0;               ///< control thread that issued it
};

/// Called by the controller, at once, in issue order. Must not call back into the controller.
class ControlListener {
  public:
    virtual ~ControlListener() = default;
    virtual void on_issue(TaskInstance& instance) = 0;
    virtual void on_ready(TaskInstance& instance) = 0;
};

/// Why a unit that could run nothing has nothing: see accounting rules (4) and (5).
enum class FutureWork : uint8_t { none, not_issued };

struct ControlOptions {
    uint32_t max_active_tokens = 0;    ///< per engine; 0 = unlimited
    uint32_t num_engines = 1;
    uint32_t max_live_tasks = 1u << 16;///< issue pauses above this many live instances: bounds memory on huge windows
};

/// Loop windows, iteration threads, tokens and the token table. Knows nothing of time: a driver starts ready tasks and
/// reports completions; the controller issues what may be issued, in deterministic order.
class Controller {
  public:
    Controller(const BoundProgram& program, const ControlOptions& options, ControlListener& listener);
    ~Controller();

    void start();                              ///< issues until every thread is blocked
    void started(TaskInstance& instance);      ///< ready -> running
    void completed(TaskInstance& instance);    ///< running -> complete; frees its slot; issues what that unblocks
    bool finished() const;                     ///< every statement done, every task complete

    uint64_t issued_count() const;
    uint64_t completed_count() const;
    size_t live_count() const;
    const TaskInstance* find(uint32_t serial) const;   ///< null when complete or unknown
    std::vector<const TaskInstance*> live() const;     ///< ascending serial
    uint32_t tokens_in_flight(unsigned engine) const;

    /// Whether statements that a unit of this kind and engine (and instance) may take are still to be issued.
    FutureWork future_work(UnitKind kind, int engine, int instance) const;

    /// When nothing can run: the chain of what waits for what, one line each, most useful first.
    std::string explain_block() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

/// "i=3, j=0" for messages and traces; empty outside loops.
std::string iteration_text(const BoundProgram& program, const TaskInstance& instance);

}  // namespace kpu::control
