#include "explain/what_if.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "explain/least_time.hpp"

namespace kpu::explain {

using traces::no_task;
using traces::no_unit;

std::string_view fields_of(Part part) {
    for (const UnitKindRow& row : unit_kinds())
        if (!part.empty() && row.part == part) return row.rate_fields;
    return "";
}

namespace {

/// A task's share of the work of a unit, and what must pass before and after it.
struct Job {
    Cycles head = 0, tail = 0;
    double work = 0;
};

/// Returns the least time in which `units` like units can do the jobs: of those that cannot begin before a
/// time, and of those that leave at least so much to do after them, all work at peak but what is spared.
Cycles pool_bound(std::vector<Job> jobs, double units, double spared) {
    Cycles best = 0;
    const auto look = [&](auto key, auto other) {
        std::sort(jobs.begin(), jobs.end(), [&](const Job& a, const Job& b) { return key(a) > key(b); });
        double work = -spared;
        Cycles least_other = never;
        for (const Job& job : jobs) {
            work += job.work;
            least_other = std::min(least_other, other(job));
            best = std::max(best, key(job) + least_other + whole(work / units));
        }
    };
    look([](const Job& j) { return j.head; }, [](const Job& j) { return j.tail; });
    look([](const Job& j) { return j.tail; }, [](const Job& j) { return j.head; });
    return best;
}

/// Order that every run of the program has: tokens, waits and windows. What the token table or a unit's queue
/// ordered may be otherwise on a faster device.
class Bounds {
  public:
    Bounds(const RunGraph& graph, Part free) : graph_(graph), least_(graph, free) {
        bound_.part = free;
        order_tasks();
    }

    Bound find() {
        for (size_t t = 0; t < graph_.tasks().size(); ++t)
            bound_.path = std::max(bound_.path, head_[t] + length_[t] + tail_[t]);
        pools();
        memories();
        bound_.cycles = std::max(bound_.path, bound_.work);
        return bound_;
    }

  private:
    void order_tasks() {
        const std::vector<TaskRun>& tasks = graph_.tasks();
        head_.resize(tasks.size(), 0);
        tail_.resize(tasks.size(), 0);
        length_.resize(tasks.size(), 0);
        for (size_t t = 0; t < tasks.size(); ++t) {
            length_[t] = least_of(tasks[t]);
            each_before(tasks[t], [&](uint32_t before) {
                head_[t] = std::max(head_[t], head_[before] + length_[before]);
            });
        }
        for (size_t t = tasks.size(); t-- > 0;)
            each_before(tasks[t], [&](uint32_t before) {
                tail_[before] = std::max(tail_[before], length_[t] + tail_[t]);
            });
    }

    /// Returns the least time of a task; if any engine may take it, the least of all tasks of the statement:
    /// they may be elsewhere.
    Cycles least_of(const TaskRun& task) {
        if (!least_.floats(task)) return least_.of(task);
        const auto [known, added] = least_of_statement_.try_emplace(task.statement, never);
        if (added) {
            for (const TaskRun& other : graph_.tasks()) {
                if (other.statement == task.statement)
                    known->second = std::min(known->second, least_.of(other));
            }
        }
        return known->second;
    }

    template <class Visit>
    void each_before(const TaskRun& task, Visit visit) const {
        for (const uint32_t* p = graph_.producers_begin(task); p != graph_.producers_end(task); ++p)
            visit(*p);
        const bool always =
            task.issue_cause == traces::IssueCause::token || task.issue_cause == traces::IssueCause::window;
        if (always && task.issued_by != no_task) visit(task.issued_by);
    }

    void take(std::vector<Job> jobs, double units, const std::string& name, double spared = 0) {
        const Cycles bound = pool_bound(std::move(jobs), units, spared);
        if (bound <= bound_.work) return;
        bound_.work = bound;
        bound_.busiest = name;
    }

    struct Pool {
        std::vector<Job> jobs;
        double units = 0;
        std::string name;
    };

    /// Adds pools of units that execute tasks, and sequencers: all of a kind; of one engine, for the tasks
    /// bound to it; one, for the tasks bound to that.
    void pools() {
        using Key = std::tuple<UnitKind, int, int>;
        std::map<Key, Pool> pools;
        const auto add_unit = [&](const Key& key, const traces::UnitInfo& unit) {
            pools[key].units += 1;
            pools[key].name = unit.name;
        };
        for (const traces::UnitInfo& unit : graph_.info().units) {
            add_unit({unit.kind, -1, -1}, unit);
            if (unit.engine >= 0) add_unit({unit.kind, unit.engine, -1}, unit);
            add_unit({unit.kind, unit.engine, unit.index}, unit);
        }
        for (size_t t = 0; t < graph_.tasks().size(); ++t) {
            const TaskRun& task = graph_.tasks()[t];
            const bool floats = least_.floats(task);
            const double occupied = floats ? 0 : static_cast<double>(least_.occupancy(task));
            const Job job{head_[t], tail_[t] + (floats ? 0 : least_.after_occupancy(task)), occupied};
            for (const uint16_t u : {task.unit, task.partner}) {
                if (u == no_unit) continue;
                const traces::UnitInfo& unit = graph_.info().units[u];
                pools[{unit.kind, -1, -1}].jobs.push_back(job);
                if (floats) continue;
                if (unit.engine >= 0) pools[{unit.kind, unit.engine, -1}].jobs.push_back(job);
                if (u == task.unit && graph_.info().statements[task.statement].instance >= 0)
                    pools[{unit.kind, unit.engine, unit.index}].jobs.push_back(job);
            }
            if (!floats && task.begun()) dispatch(t, pools[{UnitKind::seq, task.sequencer, -1}]);
        }
        for (auto& [key, pool] : pools)
            if (!pool.jobs.empty() && pool.units > 0) take(std::move(pool.jobs), pool.units, pool.name);
    }

    /// The sequencer dispatches the next task so much later than this one.
    void dispatch(size_t t, Pool& pool) const {
        const Cycles cycles = graph_.info().dispatch_cycles;
        const Cycles after = length_[t] - std::min(length_[t], cycles);
        pool.jobs.push_back({head_[t], tail_[t] + after, static_cast<double>(std::min(length_[t], cycles))});
    }

    /// Memories and links: bytes at their peak.
    void memories() {
        std::map<uint16_t, std::vector<Job>> jobs;
        for (size_t t = 0; t < graph_.tasks().size(); ++t) {
            const TaskRun& task = graph_.tasks()[t];
            const traces::TaskWork* work = graph_.work_of(task);
            if (work == nullptr || least_.floats(task)) continue;
            for (const traces::StreamWork& stream : work->streams) {
                for (const traces::StreamHop& hop : stream.hops) {
                    const double cycles = least_.moving(hop.unit, static_cast<double>(stream.bytes));
                    if (cycles > 0) jobs[hop.unit].push_back({head_[t], tail_[t], cycles});
                }
            }
        }
        for (auto& [unit, list] : jobs) {
            // what controllers still hold at the end is written later
            const bool dram = graph_.info().units[unit].kind == UnitKind::ddr;
            const auto posted = static_cast<double>(graph_.info().dram_posted_bytes);
            take(std::move(list), 1, graph_.info().units[unit].name, dram ? least_.moving(unit, posted) : 0);
        }
    }

    const RunGraph& graph_;
    LeastTime least_;
    Bound bound_;
    std::vector<Cycles> head_, tail_, length_;
    std::map<uint32_t, Cycles> least_of_statement_;
};

}  // namespace

namespace {

/// Parts that some kinds of units belong to, in the order of reports: memories, movers (of the device, then of
/// engines), compute units.
std::vector<Part> parts_of(const std::set<UnitKind>& kinds) {
    std::vector<UnitKindRow> rows;
    for (const UnitKindRow& row : unit_kinds())
        if (!row.part.empty() && kinds.count(row.kind) > 0) rows.push_back(row);
    const auto rank = [](const UnitKindRow& row) {
        if (row.role == UnitRole::memory) return 0;
        return row.role == UnitRole::mover ? (row.per_engine ? 2 : 1) : 3;
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const UnitKindRow& a, const UnitKindRow& b) { return rank(a) < rank(b); });
    std::vector<Part> parts;
    for (const UnitKindRow& row : rows)
        if (std::find(parts.begin(), parts.end(), row.part) == parts.end()) parts.push_back(row.part);
    return parts;
}

}  // namespace

std::vector<Bound> what_if(const RunGraph& graph) {
    std::set<UnitKind> used;
    const auto use = [&](uint16_t unit) { used.insert(graph.info().units[unit].kind); };
    for (const TaskRun& task : graph.tasks()) {
        for (const uint16_t unit : {task.unit, task.partner})
            if (unit != no_unit) use(unit);
    }
    for (const traces::TaskWork& work : graph.info().works)
        for (const traces::StreamWork& stream : work.streams)
            for (const traces::StreamHop& hop : stream.hops) use(hop.unit);
    std::vector<Bound> bounds{Bounds(graph, {}).find()};
    for (const Part part : parts_of(used)) bounds.push_back(Bounds(graph, part).find());
    return bounds;
}

}  // namespace kpu::explain
