#include "compiler/estimate/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include "base/diagnostics.hpp"
#include "compiler/estimate/backlog.hpp"
#include "compiler/estimate/task_time.hpp"
#include "execution/controller.hpp"
#include "platforms/units.hpp"

namespace kpu::estimate {
namespace {

using execution::TaskInstance;

constexpr double never = std::numeric_limits<double>::infinity();

struct Unit {
    UnitKind kind;
    int engine, index;
    bool free = true;
    double entrance = 0;  ///< the next task's operands may enter
    double ended = 0;     ///< its last task completes: they do so in order
    // of its last task
    uint32_t task = 0;
    double worked = 0, drain = 0;
};

/// A time in which a task computes or moves, for the account of operations.
struct Item {
    double from, to;
    bool memory;
    uint32_t serial, op;
};

struct Running {
    TaskInstance* instance;
    const TaskTime* time;
    size_t unit;
    int partner;
    double start;
    double behind;  ///< way of a transfer's last byte
    Flow flow;
};

/// Tasks that the same units may take.
struct Queue {
    execution::UnitDemand demand;
    std::optional<execution::UnitDemand> partner;
    int sequencer;
    std::vector<size_t> units, partners;
    struct Later {
        bool operator()(const TaskInstance* a, const TaskInstance* b) const { return a->serial > b->serial; }
    };
    std::priority_queue<TaskInstance*, std::vector<TaskInstance*>, Later> ready;
};

class Schedule : execution::ControlListener {
  public:
    Schedule(const BoundProgram& program, const compiler::Target& target,
             const std::map<uint32_t, kernels::Work>& launches, Detail detail)
        : program_(program),
          target_(target),
          launches_(launches),
          all_(detail == Detail::all),
          times_(task_times(program, target, launches)),
          instances_(program.tasks.size(), 0),
          own_cycles_(program.tasks.size(), 0),
          activity_(program, target.platform),
          load_(target.engines.size(), 0),
          dispatch_(target.engines.size(), target.launch_cycles),
          l1_(target.engines.size()),
          sharing_(times_.resources, l2_ports),
          controller_(program, options(target), *this) {
        find_units();
        for (const BoundTask& task : program.tasks) queue_of_.push_back(queue_for(task));
        check_units();
    }

    Estimate run() {
        controller_.start();
        for (;;) {
            dispatch();
            const double next = next_time();
            if (next == never) break;
            advance(next);
        }
        if (!controller_.finished()) throw InternalError("a compiled program does not come to its end");
        Estimate result = account();
        if (!all_) return result;
        for (Unit& unit : units_) own_drain(unit, now_);
        result.bounds = bounds(program_, target_, instances_, launches_);
        result.macs.assign(program_.ops.size(), 0);
        for (size_t t = 0; t < program_.tasks.size(); ++t) {
            const BoundTask& task = program_.tasks[t];
            if (task.op < result.macs.size()) result.macs[task.op] += instances_[t] * task.macs;
        }
        const Course course{now_, std::move(instances_), std::move(own_cycles_), activity_.on(now_)};
        result.energy = energy_of(program_, target_, course, launches_);
        return result;
    }

  private:
    enum class What : uint8_t { complete, release, stream, visible };
    struct Event {
        double time;
        uint64_t order;
        What what;
        Running* task;
        bool operator>(const Event& other) const {
            return std::tie(time, order) > std::tie(other.time, other.order);
        }
    };

    static execution::ControlOptions options(const compiler::Target& target) {
        execution::ControlOptions options;
        options.max_active_tokens = target.limits.max_active_tokens;
        options.num_engines = static_cast<uint32_t>(target.engines.size());
        return options;
    }

    void find_units() {
        const auto add = [&](const UnitKindRow& row, const proto::Engine* engine, int number) {
            if (!executes_tasks(row.kind)) return;
            const uint32_t count = platforms::unit_count(target_.platform, engine, row.kind);
            for (uint32_t i = 0; i < count; ++i) units_.push_back({row.kind, number, static_cast<int>(i)});
        };
        for (size_t e = 0; e < target_.engines.size(); ++e) {
            for (const UnitKindRow& row : unit_kinds()) {
                if (row.per_engine) add(row, &target_.engines[e], static_cast<int>(e));
            }
        }
        for (const UnitKindRow& row : unit_kinds()) {
            if (!row.per_engine) add(row, nullptr, -1);
        }
    }

    /// Checks units as the verifier refuses programs, but what the user wrote are operations: names the first
    /// of them that needs a unit.
    void check_units() const {
        std::string found;
        for (size_t t = 0; t < queue_of_.size(); ++t) {
            const BoundTask& task = program_.tasks[t];
            const Queue& queue = queues_[queue_of_[t]];
            const bool partner = queue.partner && queue.partners.empty();
            if (!queue.units.empty() && !partner) continue;
            const bool of_user =
                task.op < program_.ops.size() && program_.ops[task.op].id.rfind("__", 0) != 0;
            if (!found.empty() && !of_user) continue;
            const std::string who =
                of_user ? fmt::format("{} ({})", program_.ops[task.op].id, program_.ops[task.op].type)
                        : fmt::format("task `{}`", task.name);
            found = fmt::format("{}: device `{}` has no {} for it. Fix: choose a device that has one.", who,
                                target_.limits.name, name_of(partner ? queue.partner->kind : task.unit));
            if (of_user) break;
        }
        if (!found.empty()) throw UserError(found);
    }

    size_t queue_for(const BoundTask& task) {
        Queue queue;
        queue.demand = execution::demand_of(task);
        queue.partner = execution::partner_demand_of(task);
        queue.sequencer = row_of(task.unit).per_engine       ? -1
                          : task.partner && task.engine >= 0 ? task.engine
                                                             : std::max(task.token_engine, 0);
        for (size_t q = 0; q < queues_.size(); ++q) {
            if (queues_[q].demand == queue.demand && queues_[q].partner == queue.partner &&
                queues_[q].sequencer == queue.sequencer)
                return q;
        }
        for (size_t u = 0; u < units_.size(); ++u) {
            const Unit& unit = units_[u];
            if (queue.demand.accepts(unit.kind, unit.engine, unit.index)) queue.units.push_back(u);
            if (queue.partner && queue.partner->kind == unit.kind &&
                unit.engine == std::max(queue.partner->engine, 0))
                queue.partners.push_back(u);
        }
        queues_.push_back(std::move(queue));
        return queues_.size() - 1;
    }

    void on_issue(TaskInstance& instance) override {
        ++instances_[program_.statements[instance.statement].index];
    }
    void on_ready(TaskInstance& instance) override {
        queues_[queue_of_[program_.statements[instance.statement].index]].ready.push(&instance);
    }

    // ---- who starts

    struct Placement {
        Queue* queue = nullptr;
        size_t unit = 0;
        int partner = -1;
        size_t sequencer = 0;
    };

    /// Places the next task on the least loaded engine, lowest unit first, as the model's arbiter does.
    /// `when`: its sequencer comes to it.
    bool place(Queue& queue, double now, Placement& best, double& when) const {
        if (queue.ready.empty()) return false;
        if (best.queue != nullptr && best.queue->ready.top()->serial < queue.ready.top()->serial)
            return false;
        int partner = -1;
        if (queue.partner) {
            const auto found = std::find_if(queue.partners.begin(), queue.partners.end(),
                                            [&](size_t u) { return units_[u].free; });
            if (found == queue.partners.end()) return false;
            partner = static_cast<int>(*found);
        }
        bool any = false;
        uint32_t least = UINT32_MAX;
        for (const size_t u : queue.units) {
            if (!units_[u].free) continue;
            const auto sequencer =
                static_cast<size_t>(queue.sequencer >= 0 ? queue.sequencer : units_[u].engine);
            if (dispatch_[sequencer] > now) {
                when = std::min(when, dispatch_[sequencer]);
                continue;
            }
            const uint32_t load = units_[u].engine >= 0 ? load_[static_cast<size_t>(units_[u].engine)] : 0;
            if (load >= least) continue;
            least = load;
            best = {&queue, u, partner, sequencer};
            any = true;
        }
        return any;
    }

    void dispatch() {
        for (;;) {
            Placement best;
            next_dispatch_ = never;
            for (Queue& queue : queues_) place(queue, now_, best, next_dispatch_);
            if (best.queue == nullptr) return;
            start(best);
        }
    }

    void start(const Placement& placement) {
        TaskInstance& instance = *placement.queue->ready.top();
        placement.queue->ready.pop();
        Unit& unit = units_[placement.unit];
        if (instance.engine < 0 && unit.engine >= 0) instance.engine = unit.engine;
        controller_.started(instance);
        unit.free = false;
        if (placement.partner >= 0) units_[static_cast<size_t>(placement.partner)].free = false;
        if (unit.engine >= 0) ++load_[static_cast<size_t>(unit.engine)];
        dispatch_[placement.sequencer] = now_ + target_.dispatch_cycles;
        const TaskTime& time = times_.of[program_.statements[instance.statement].index];
        Running* running = take();
        *running = {&instance, &time, placement.unit, placement.partner, now_, 0, {}};
        if (time.moves) {
            push(now_ + time.before, What::stream, running);
        } else {
            compute(*running, unit);
        }
    }

    void compute(Running& task, Unit& unit) {
        const TaskTime& time = *task.time;
        const double begin =
            std::max(now_ + time.lead, unit.entrance > 0 ? unit.entrance + time.entry_gap : 0);
        const double late =
            std::max(0.0, now_ + time.operands + waiting_in_l1(time, unit, time.fill + time.steady) - begin);
        const double worked = begin + time.fill + time.steady;
        const double end = std::max(unit.ended, worked + late + time.drain + time.result);
        own_drain(unit, now_);
        const uint32_t index = program_.statements[task.instance->statement].index;
        own_cycles_[index] += std::max(0.0, worked - std::max(begin, unit.worked));
        unit.task = index;
        unit.worked = worked + late;
        unit.drain = time.drain;
        unit.entrance = begin + time.occupancy + late;
        unit.ended = end;
        add(task, now_, begin, true);
        add(task, begin, worked, false);
        add(task, worked, worked + late, true);
        add(task, worked + late, worked + late + time.drain, false);
        add(task, worked + late + time.drain, end, true);
        if (time.overlaps) push(std::max(now_, unit.entrance - time.lead), What::release, &task);
        push(end, What::complete, &task);
    }

    /// Returns the cycles that a task of so many waits for L1 because of what others asked for.
    double waiting_in_l1(const TaskTime& time, const Unit& unit, double cycles) {
        if (unit.engine < 0 || time.in_l1 <= 0) return 0;
        return l1_[static_cast<size_t>(unit.engine)].add(now_, time.in_l1, cycles);
    }

    /// Sets the drain of a task's own: it lies below the fill of the next one, as far as that starts before
    /// its end.
    void own_drain(Unit& unit, double next) {
        if (unit.drain == 0) return;  // it had no task
        own_cycles_[unit.task] += std::clamp(next - unit.worked, 0.0, unit.drain);
        unit.drain = 0;
    }

    void add(const Running& task, double from, double to, bool memory) {
        if (from < to) items_.push_back({from, to, memory, task.instance->serial, task.instance->task->op});
    }

    // ---- time

    double next_time() const {
        double next = next_dispatch_;
        if (!events_.empty()) next = std::min(next, events_.top().time);
        return std::min(next, sharing_.next(now_));
    }

    /// Advances to the next time at which anything happens, and does all that happens then, completions
    /// before starts.
    void advance(double to) {
        for (Flow* flow : sharing_.advance(now_, to)) {
            const auto owner = std::find_if(flowing_.begin(), flowing_.end(),
                                            [&](const Running* task) { return &task->flow == flow; });
            push(to + (*owner)->behind, What::visible, *owner);
            flowing_.erase(owner);
        }
        now_ = to;
        while (!events_.empty() && events_.top().time <= now_) {
            const Event event = events_.top();
            events_.pop();
            happen(event);
        }
    }

    void happen(const Event& event) {
        Running& task = *event.task;
        Unit& unit = units_[task.unit];
        switch (event.what) {
            case What::stream:
                task.behind = task.time->behind + waiting_in_l1(*task.time, unit, task.time->flow.alone);
                task.flow = task.time->flow;
                flowing_.push_back(&task);
                sharing_.add(task.flow, now_);
                return;
            case What::release:
                unit.free = true;
                return;
            case What::visible: {
                // a store keeps a vector unit busy while its port moves bytes
                const double moved = computes(unit.kind) ? task.time->port : 0;
                add(task, task.start, task.start + moved, false);
                add(task, task.start + moved, now_, true);
                complete(task);
                return;
            }
            case What::complete:
                complete(task);
        }
    }

    void complete(Running& task) {
        Unit& unit = units_[task.unit];
        if (!task.time->overlaps) unit.free = true;
        if (task.partner >= 0) units_[static_cast<size_t>(task.partner)].free = true;
        if (unit.engine >= 0) --load_[static_cast<size_t>(unit.engine)];
        if (all_) activity_.add(program_.statements[task.instance->statement].index, task.start, now_);
        controller_.completed(*task.instance);
        spare_.push_back(&task);
    }

    void push(double time, What what, Running* task) { events_.push({time, order_++, what, task}); }

    Running* take() {
        if (spare_.empty()) return &running_.emplace_back();
        Running* task = spare_.back();
        spare_.pop_back();
        return task;
    }

    // ---- who is charged

    /// Charges each cycle to the earliest-issued task that computes, else to the one that waits for memory,
    /// else to what starts next.
    Estimate account() {
        Estimate result;
        result.cycles = now_;
        result.tasks = std::accumulate(instances_.begin(), instances_.end(), uint64_t{0});
        result.charged.assign(program_.ops.size(), 0);
        std::sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
            return std::tie(a.from, a.serial, a.memory) < std::tie(b.from, b.serial, b.memory);
        });
        const auto yields = [](const Item* a, const Item* b) {
            return std::tie(a->memory, a->serial) > std::tie(b->memory, b->serial);
        };
        std::priority_queue<const Item*, std::vector<const Item*>, decltype(yields)> open(yields);
        double at = 0;
        for (size_t next = 0; next < items_.size() || !open.empty();) {
            for (; next < items_.size() && items_[next].from <= at; ++next) open.push(&items_[next]);
            while (!open.empty() && open.top()->to <= at) open.pop();
            if (open.empty() && next == items_.size()) break;
            const double until = next < items_.size() ? items_[next].from : never;
            const uint32_t op = open.empty() ? items_[next].op : open.top()->op;
            const double to = open.empty() ? until : std::min(open.top()->to, until);
            if (op < result.charged.size()) result.charged[op] += to - at;
            at = to;
        }
        return result;
    }

    const BoundProgram& program_;
    const compiler::Target& target_;
    const std::map<uint32_t, kernels::Work>& launches_;
    const bool all_;  ///< energy and bounds are asked for
    const TaskTimes times_;
    std::vector<uint64_t> instances_;  ///< indexed by task: issued
    std::vector<double> own_cycles_;   ///< indexed by task
    Activity activity_;
    std::vector<Unit> units_;
    std::vector<Queue> queues_;
    std::vector<size_t> queue_of_;  ///< indexed by task
    std::vector<uint32_t> load_;    ///< running tasks, by engine
    std::vector<double> dispatch_;  ///< the next one of a sequencer
    std::vector<Backlog> l1_;       ///< indexed by engine
    std::deque<Running> running_;
    std::vector<Running*> spare_, flowing_;
    Sharing sharing_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<Item> items_;
    double now_ = 0, next_dispatch_ = never;
    uint64_t order_ = 0;
    execution::Controller controller_;
};

}  // namespace

Estimate estimate(const BoundProgram& program, const compiler::Target& target,
                  const std::map<uint32_t, kernels::Work>& launches, Detail detail) {
    return Schedule(program, target, launches, detail).run();
}

}  // namespace kpu::estimate
