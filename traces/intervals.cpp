#include "traces/intervals.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/diagnostics.hpp"
#include "traces/majority.hpp"

namespace kpu::traces {

namespace {

bool same_state(const StateInterval& a, const StateInterval& b) {
    return a.cause == b.cause && a.task == b.task && a.op == b.op && a.blame == b.blame;
}

class IntervalWalk {
  public:
    IntervalWalk(const RunInfo& info, uint16_t unit, const std::function<void(const StateInterval&)>& visit)
        : clock_(info.clock()), end_(info.end_ps), visit_(visit) {
        open_.unit = unit;
    }
    void change(const Event& event) {
        StateInterval next;
        next.unit = open_.unit;
        next.start = std::min<Picoseconds>(event.time_ps, end_);
        next.cause = static_cast<Cause>(event.cause);
        next.task = event.task;
        next.op = event.op;
        next.blame = event.value;
        if (same_state(open_, next)) return;
        close(next.start);
        open_ = next;
    }
    void finish() { close(end_); }

  private:
    void close(Picoseconds at) {
        if (at == open_.start) return;
        open_.end = at;
        open_.cycles = clock_.edges_before(at) - clock_.edges_before(open_.start);
        visit_(open_);
    }
    Clock clock_;
    Picoseconds end_;
    const std::function<void(const StateInterval&)>& visit_;
    StateInterval open_;
};

using Visit = std::function<void(const StateInterval&)>;

/// Records that are kept at once: those of long runs lie on disk, and one is gone with the next.
constexpr size_t most_kept = 1 << 20;

/// Units [first, last), whose changes fit into memory.
void walk_units(const RunInfo& info, const Events& events, size_t first, size_t last, const Visit& visit) {
    std::vector<std::vector<Event>> by_unit(last - first);
    for (const Event& event : events) {
        if (event.kind != EventKind::cause || event.unit < first || event.unit >= last) continue;
        std::vector<Event>& changes = by_unit[event.unit - first];
        if (!changes.empty() && changes.back().time_ps == event.time_ps) changes.pop_back();
        changes.push_back(event);
    }
    for (size_t unit = first; unit < last; ++unit) {
        IntervalWalk walk(info, static_cast<uint16_t>(unit), visit);
        for (const Event& change : by_unit[unit - first]) walk.change(change);
        walk.finish();
    }
}

/// A unit with any number of changes.
void walk_unit(const RunInfo& info, const Events& events, size_t unit, const Visit& visit) {
    IntervalWalk walk(info, static_cast<uint16_t>(unit), visit);
    std::optional<Event> held;  // the next one may overrule it
    for (const Event& event : events) {
        if (event.kind != EventKind::cause || event.unit != unit) continue;
        if (held && held->time_ps != event.time_ps) walk.change(*held);
        held = event;
    }
    if (held) walk.change(*held);
    walk.finish();
}

/// Passes the states that the view shows, of unit after unit.
class Shown {
  public:
    Shown(const RunInfo& info, const Visit& visit)
        : clock_(info.clock()),
          every_(info.view.every),
          states_(info),
          visit_(visit),
          sampler_(
              every_, [this](const State& state) { return shows(state.row) ? int64_t(state.row.cause) : -1; },
              [this](const State& state, Picoseconds from, Picoseconds to) { pass(state.row, from, to); }) {}

    void operator()(const StateInterval& row) {
        if (every_ == 0) {
            if (shows(row)) visit_(row);
            return;
        }
        if (row.start == 0) sampler_.finish();  // the next unit
        sampler_.add({row}, row.start, row.end);
    }
    /// Ends after the last one.
    void finish() { sampler_.finish(); }

  private:
    struct State {
        StateInterval row;
        bool operator==(const State& o) const { return same_state(row, o.row) && row.unit == o.row.unit; }
    };
    bool shows(const StateInterval& row) const {
        return states_.shows(static_cast<uint8_t>(row.cause),
                             row.cause == Cause::idle_no_work ? background_op : row.op);
    }
    void pass(StateInterval row, Picoseconds from, Picoseconds to) {
        if (!shows(row)) return;
        row.start = from;
        row.end = to;
        row.cycles = clock_.edges_before(to) - clock_.edges_before(from);
        visit_(row);
    }

    Clock clock_;
    Picoseconds every_;
    ShownStates states_;
    const Visit& visit_;
    Sampler<State> sampler_;
};

void walk_all(const RunInfo& info, const Events& events, const Visit& visit) {
    std::vector<size_t> counts(info.units.size(), 0);
    for (const Event& event : events)
        if (event.kind == EventKind::cause) ++counts.at(event.unit);
    for (size_t first = 0, last = 0; first < counts.size(); first = last) {
        size_t kept = 0;
        while (last < counts.size() && kept + counts[last] <= most_kept) kept += counts[last++];
        if (last > first) {
            walk_units(info, events, first, last, visit);
        } else {
            walk_unit(info, events, last++, visit);
        }
    }
}

}  // namespace

void for_each_interval(const RunInfo& info, const Events& events, const Visit& visit) {
    const TraceView& view = info.view;
    if (view.every == 0 && view.causes.empty() && view.ops.empty()) return walk_all(info, events, visit);
    Shown shown(info, visit);
    walk_all(info, events, [&shown](const StateInterval& row) { shown(row); });
    shown.finish();
}

TaskTable::TaskTable(const RunInfo& info, const Events& events) : info_(info) {
    const auto at = [this](uint32_t serial) -> Task& {
        if (serial >= tasks_.size()) tasks_.resize(serial + 1);
        return tasks_[serial];
    };
    for (const Event& event : events) {
        if (event.kind != EventKind::issue || event.task >= events.size()) continue;
        Task& task = at(event.task);
        task.statement = event.op;
        task.innermost = event.value;
    }
    for (Task& task : tasks_) {
        if (task.statement >= info_.statements.size()) continue;
        task.outer = static_cast<uint32_t>(outer_.size());
        const size_t depth = info_.statements[task.statement].loops.size();
        if (depth > 1) outer_.resize(outer_.size() + depth - 1);
    }
    for (const Event& event : events) {
        if (event.kind != EventKind::loop || event.task >= tasks_.size()) continue;
        const Task& task = tasks_[event.task];
        if (task.statement >= info_.statements.size()) continue;
        const size_t depth = info_.statements[task.statement].loops.size();
        if (event.unit + size_t{1} < depth) outer_[task.outer + event.unit] = event.value;
    }
}

std::string TaskTable::name(uint32_t task) const {
    if (task == no_task) return "";
    if (task >= tasks_.size() || tasks_[task].statement >= info_.statements.size())
        return fmt::format("task{}", task);
    return info_.statements[tasks_[task].statement].name;
}

std::string_view TaskTable::profile(uint32_t task) const {
    if (task >= tasks_.size() || tasks_[task].statement >= info_.statements.size()) return "";
    return info_.statements[tasks_[task].statement].profile;
}

std::string TaskTable::iteration(uint32_t task) const {
    if (task >= tasks_.size() || tasks_[task].statement >= info_.statements.size()) return "";
    const Task& row = tasks_[task];
    const auto& loops = info_.statements[row.statement].loops;
    std::string text;
    for (size_t i = 0; i < loops.size(); ++i) {
        const int64_t value = i + 1 == loops.size() ? row.innermost : outer_[row.outer + i];
        text += fmt::format("{}{}={}", i == 0 ? "" : " ", loops[i], value);
    }
    return text;
}

std::string TaskTable::label(uint32_t task) const {
    const std::string loops = iteration(task);
    return loops.empty() ? name(task) : fmt::format("{}[{}]", name(task), loops);
}

std::string TaskTable::blamed(int64_t blame) const {
    if (blame < 0) return "";
    const auto target = static_cast<uint64_t>(blame) / 2;
    if (blame % 2 == 0) return label(static_cast<uint32_t>(std::min<uint64_t>(target, no_task)));
    return target < info_.units.size() ? info_.units[target].name : "";
}

}  // namespace kpu::traces
