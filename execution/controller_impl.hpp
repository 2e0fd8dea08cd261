#pragma once
// The controller's own state; only controller.cpp, issue.cpp and explain.cpp include this.

#include <array>
#include <boost/container/stable_vector.hpp>
#include <boost/container_hash/hash.hpp>
#include <deque>
#include <unordered_map>
#include <vector>

#include "base/pool.hpp"
#include "execution/controller.hpp"
#include "execution/program_plan.hpp"

namespace kpu::execution {

constexpr uint32_t none = UINT32_MAX;

/// The producers of tokens in iterations that are over, for the arrows of traces: as many as are likely to be
/// asked for.
class RecentTokens {
  public:
    static constexpr size_t most = size_t{1} << 14;
    using Key = std::vector<int64_t>;  ///< statement, then the iteration
    static Key key(uint32_t statement, const LoopValues& loops);
    void add(Key key, uint32_t serial);
    uint32_t find(const Key& key) const;  ///< none: not known

  private:
    std::unordered_map<Key, uint32_t, boost::hash<Key>> serial_;
    std::deque<Key> order_;
};

class Controller::Impl {
  public:
    Impl(const BoundProgram& program, const ControlOptions& options, ControlListener& listener);

    void start();
    void started(TaskInstance& instance);
    void completed(TaskInstance& instance);
    const TaskInstance* find(uint32_t serial) const;
    std::vector<const TaskInstance*> live() const;
    const TaskInstance* root_producer(const TaskInstance& instance) const;
    FutureWork future_work(const UnitDemand& demand) const;
    std::string explain_block() const;
    bool finished() const;
    uint64_t issued() const { return issued_; }
    uint64_t completed_count() const { return issued_ - live_; }
    size_t live_count() const { return live_; }
    uint32_t tokens_in_flight(unsigned engine) const { return tables_.at(engine).used; }

  private:
    /// A place in the pool of instances, recycled.
    struct Node : TaskInstance {
        uint32_t self = 0;
        uint32_t owner = 0;           ///< thread index
        uint32_t table = 0;           ///< engine whose token table holds its entry
        uint32_t bucket_next = none;  ///< in the index by serial
        uint32_t live_prev = none, live_next = none;
        uint32_t same_prev = none, same_next = none;  ///< live instances of the same statement
        /// Result of the last root_producer().
        mutable const Node* root = nullptr;
        mutable uint32_t root_serial = none;
        mutable uint64_t visit = 0;  ///< the search of root_producer() that came here last
    };
    struct List {
        uint32_t head = none, tail = none;
    };
    /// A task or a thread that a token holds back.
    struct Waiter {
        uint32_t index = 0;
        bool is_thread = false;
        uint32_t next = none;
        uint32_t need = none;  ///< a carried token of a task: its number among the statement's needs
    };
    struct Slot {
        uint64_t remaining = 1;  ///< instances that must still complete; 0 = satisfied
        List waiters;
        uint32_t serial = none;  ///< the producer; of many, the last that completed
    };
    /// Wait for the carried tokens of a loop in the body of a loop that carries them.
    struct Watch {
        enum class State : uint8_t { ahead, open, over } state = State::ahead;
        uint32_t run = none;  ///< open: its execution
        List waiters;         ///< tasks that need an iteration which has not started
    };
    /// Place of a token.
    struct TokenPlace {
        enum class State : uint8_t {
            complete,  ///< it is, or it never comes to be
            slot,      ///< in the slot of `thread`
            ahead      ///< its iteration has not started: see `watch` of `thread`
        };
        State state = State::slot;
        uint32_t thread = none;
        uint32_t watch = 0;
    };
    enum class Block : uint8_t { running, token, table, window, limit, ended };
    struct Thread {
        uint64_t id = 0;
        uint32_t block = 0;  ///< index into the plan
        uint32_t pc = 0, end = 0;
        uint32_t at = 0;                    ///< statement that blocks it
        uint32_t parent = none;             ///< thread
        uint32_t owner = none;              ///< loop run of which it is an iteration
        uint32_t run = none;                ///< loop run that it is starting
        uint64_t ordinal = 0;               ///< iteration number within its loop run, from 0
        uint32_t prev = none, next = none;  ///< active iterations of the same loop run
        uint64_t outstanding = 0;           ///< own live tasks and unfinished loop runs
        uint32_t missing = 0;               ///< tokens that hold it back
        Block state = Block::running;
        IssueReason woken_from = IssueReason::start;
        bool has_entry = false;  ///< a token table entry is kept for it
        LoopValues loops;
        std::vector<Slot> slots;
        std::vector<Watch> watches;
    };
    /// An execution of a loop statement.
    struct LoopRun {
        uint32_t statement = 0;
        uint32_t thread = 0;  ///< that executes the statement
        int64_t first = 0;
        uint64_t trip = 0;
        uint64_t next = 0;  ///< iterations started
        List active;        ///< iteration threads, in order of start
    };
    struct Table {
        uint32_t used = 0;
        std::deque<uint32_t> queue;  ///< threads, by arrival
    };

    template <class T>
    using StablePool = Pool<T, boost::container::stable_vector<T>>;

    // threads and loops (controller.cpp)
    void pump();
    bool resume_limited();
    bool at_limit() const { return live_ >= options_.max_live_tasks && active_ > 0; }
    bool at_thread_limit() const { return live_threads_ >= options_.max_live_tasks; }
    bool leaves_limit(const LoopRun& loop_run);
    void run(uint32_t t);
    bool step_wait(uint32_t t);
    bool step_loop(uint32_t t);
    bool enter_loop(uint32_t t);
    uint64_t trip_count(const Thread& thread, const BoundLoop& loop, int64_t& first) const;
    bool window_open(const LoopRun& loop_run) const;
    void start_iteration(uint32_t t);
    void advance(Thread& thread);
    uint32_t new_thread(uint32_t block);
    void retire(uint32_t t);
    void wake(uint32_t t);
    static IssueReason reason_of(Block block);
    void block(Thread& thread, Block state);
    void count_idle_step(const Thread& thread);

    // tasks and tokens (issue.cpp)
    bool step_task(uint32_t t);
    bool take_entry(uint32_t t, uint32_t table);
    void release_entry(uint32_t table);
    void issue(uint32_t t, const BoundTask& task, uint32_t table);
    int32_t instance_in(const Thread& thread, const BoundTask& task) const;
    void resolve(const Thread& thread, uint32_t statement, const std::vector<uint32_t>& regions,
                 std::vector<values::RegionView>& views) const;
    void add_producers(Node& node);
    void settle(uint32_t t, uint32_t slot, uint32_t serial);
    void add_producer(Node& node, uint32_t serial, bool carried);
    void wait_for(List& waiters, const Waiter& waiter);
    void satisfy(const Waiter& waiter, uint32_t serial);
    const TaskInstance* producer_of(const TokenRef& need, uint32_t owner) const;
    Node& new_node();
    void link(Node& node);
    void unlink(Node& node);
    void grow_index();
    uint32_t ancestor(uint32_t t, uint32_t up) const;
    bool inside(uint32_t t, uint32_t depth, uint32_t outer) const { return ancestor(t, depth) == outer; }
    template <class Visit>
    void for_each_live(const TokenSlot& token, uint32_t holder, Visit visit) const;

    // tokens of earlier iterations (carried.cpp)
    TokenPlace locate(const TokenRef& need, uint32_t owner) const;
    uint32_t iteration_before(uint32_t iteration, uint64_t ordinal) const;
    Watch* watch_of(uint32_t statement, uint32_t t);
    void revisit(Watch& watch);
    void remember(const Thread& thread);
    uint32_t remembered(const TokenRef& need, uint32_t owner) const;

    // texts (explain.cpp)
    class Explainer;

    const BoundProgram& program_;
    const ControlOptions options_;
    ControlListener& listener_;
    const ProgramPlan plan_;

    StablePool<Node> nodes_;
    std::vector<uint32_t> buckets_;  ///< power of two; by serial
    List live_list_;
    std::vector<List> same_;  ///< indexed by statement
    std::vector<Waiter> waiters_;
    uint32_t free_waiter_ = none;
    StablePool<Thread> threads_;
    StablePool<LoopRun> runs_;
    std::vector<Table> tables_;
    std::vector<uint64_t> demand_count_;  ///< threads whose rest of the block has such a task

    std::vector<uint32_t> stack_;  ///< threads to run, innermost iteration last
    std::deque<uint32_t> woken_;
    std::deque<uint32_t> limited_tasks_;  ///< threads paused by max_live_tasks before a task
    std::deque<uint32_t> limited_loops_;  ///< the same before an iteration
    uint32_t top_ = none;
    IssueReason reason_ = IssueReason::start;  ///< reason of the thread that was woken last
    bool started_ = false;
    bool finished_ = false;
    uint64_t issued_ = 0;
    uint64_t thread_ids_ = 0;
    size_t live_ = 0;
    size_t active_ = 0;  ///< ready or running
    size_t live_threads_ = 0;
    mutable uint64_t visits_ = 0;  ///< searches of root_producer() so far
    mutable std::vector<const Node*> search_;
    uint64_t idle_steps_ = 0;  ///< iterations started since the last issue
    RecentTokens recent_;
};

/// Visits the live instances, oldest first, of the task that `token` stands for in thread `holder`, until
/// `visit` returns false.
template <class Visit>
void Controller::Impl::for_each_live(const TokenSlot& token, uint32_t holder, Visit visit) const {
    for (uint32_t n = same_[token.statement].head; n != none; n = nodes_[n].same_next) {
        if (inside(nodes_[n].owner, token.depth, holder) && !visit(nodes_[n])) return;
    }
}

}  // namespace kpu::execution
