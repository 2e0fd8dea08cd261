#include "traces/intervals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"

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

}  // namespace

void for_each_interval(const RunInfo& info, const Events& events,
                       const std::function<void(const StateInterval&)>& visit) {
    std::vector<std::vector<const Event*>> by_unit(info.units.size());
    for (const Event& event : events) {
        if (event.kind == EventKind::cause) by_unit.at(event.unit).push_back(&event);
    }
    for (size_t unit = 0; unit < by_unit.size(); ++unit) {
        IntervalWalk walk(info, static_cast<uint16_t>(unit), visit);
        const auto& changes = by_unit[unit];
        for (size_t i = 0; i < changes.size(); ++i) {
            const bool overruled = i + 1 < changes.size() && changes[i + 1]->time_ps == changes[i]->time_ps;
            if (!overruled) walk.change(*changes[i]);
        }
        walk.finish();
    }
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
