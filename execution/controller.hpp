#pragma once

#include <boost/intrusive/list_hook.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execution/program_plan.hpp"
#include "isa/bound_program.hpp"
#include "values/memory_image.hpp"

namespace kpu::execution {

enum class TaskState : uint8_t { waiting, ready, running, complete };
std::string_view name_of(TaskState state);

/// Event that the issuing control thread waited for last: why a task was not issued earlier.
enum class IssueReason : uint8_t {
    start,   ///< nothing: the program began
    token,   ///< a wait, or a task that is waited for (sync)
    table,   ///< an entry of the token table
    window,  ///< max_in_flight of a loop
    limit    ///< ControlOptions::max_live_tasks
};

/// An execution of a task statement. Lives from issue to completion; its slot is then used again, so a
/// reference to it ends with Controller::completed().
struct TaskInstance {
    uint32_t serial = 0;  ///< unique, in order of issue
    uint32_t statement = 0;
    const BoundTask* task = nullptr;
    TaskState state = TaskState::waiting;
    LoopValues loops;
    std::vector<values::RegionView> inputs, outputs;  ///< addresses of this iteration
    uint32_t missing = 0;                             ///< tokens not yet satisfied
    /// Serials, ascending, of the producers that were not complete at issue. A token that stands for all
    /// iterations of a loop gives those of them that were issued by then.
    std::vector<uint32_t> producers;
    /// Serials of all producers, ascending, for the arrows of traces. A loop's token that was satisfied at
    /// issue gives the iteration that completed last.
    std::vector<uint32_t> all_producers;
    /// Producers of earlier iterations; when it is ready also those that were not issued before it, which
    /// follow at the end, from `late_producers` on.
    std::vector<uint32_t> carried_producers;
    uint32_t late_producers = 0;
    int32_t engine = -1;    ///< resolved when pinned or placed
    int32_t instance = -1;  ///< instance of its unit that it asks for in this iteration; -1: any
    uint64_t thread = 0;    ///< control thread that issued it
    IssueReason reason = IssueReason::start;
    /// Hook for a list of the listener's; the controller leaves it alone.
    using ListHook =
        boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>>;
    ListHook list_hook;
};

/// Receives calls from the controller, at once, in issue order. Must not call back into the controller.
class ControlListener {
  public:
    virtual ~ControlListener() = default;
    virtual void on_issue(TaskInstance& instance) = 0;
    virtual void on_ready(TaskInstance& instance) = 0;
};

/// Reason why a unit that could run nothing has nothing: see accounting rules (4) and (5).
enum class FutureWork : uint8_t { none, not_issued };

struct ControlOptions {
    uint32_t max_active_tokens = 0;  ///< per engine; 0 = unlimited
    uint32_t num_engines = 1;
    /// Issue pauses above this many live instances or iterations, so that huge windows take bounded memory. It
    /// goes on while every live task waits, since what they wait for may not be issued yet.
    uint32_t max_live_tasks = 1u << 16;
};

/// Loop windows, iteration threads, tokens and the token table. Knows nothing of time: a driver starts ready
/// tasks and reports completions; the controller issues what may be issued, in deterministic order.
class Controller {
  public:
    Controller(const BoundProgram& program, const ControlOptions& options, ControlListener& listener);
    ~Controller();

    /// Issues until every thread is blocked. This and completed() throw SimulationError: a region that leaves
    /// its buffer, bounds that cannot be evaluated, 2^28 iterations in a row without a task.
    void start();
    void started(TaskInstance& instance);  ///< ready -> running
    /// running -> complete; frees its slot, then issues what that unblocks: `instance` may be another task
    /// afterwards.
    void completed(TaskInstance& instance);
    bool finished() const;  ///< every statement done, every task complete

    uint64_t issued_count() const;
    uint64_t completed_count() const;
    size_t live_count() const;
    const TaskInstance* find(uint32_t serial) const;  ///< null when complete or unknown
    std::vector<const TaskInstance*> live() const;    ///< ascending serial
    uint32_t tokens_in_flight(unsigned engine) const;
    /// Returns, of all that a waiting instance waits for, directly or through others, the earliest-issued one
    /// that is ready or running: the same one until it completes. So it does not matter whether a token that
    /// others imply is written down. Null when no such instance is issued.
    const TaskInstance* root_producer(const TaskInstance& instance) const;

    /// True if tasks that ask for exactly these units are still to be issued.
    FutureWork future_work(const UnitDemand& demand) const;

    /// Explains, when nothing can run, what waits for what, one line each, from the oldest waiting task on to
    /// a cycle or to a root. Useful at any other time too.
    std::string explain_block() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

/// Returns "i=3, j=0" for messages and traces; empty outside loops.
std::string iteration_text(const BoundProgram& program, const TaskInstance& instance);

}  // namespace kpu::execution
