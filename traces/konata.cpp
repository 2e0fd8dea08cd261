#include "traces/konata.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "traces/formats.hpp"
#include "traces/intervals.hpp"
#include "traces/task_times.hpp"

namespace kpu::traces {

namespace {

/// Tabs and line ends separate fields.
std::string field_text(std::string text) {
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    }
    return text;
}

class KonataWriter {
  public:
    KonataWriter(const RunInfo& info, const Events& events)
        : info_(info),
          clock_(info.clock()),
          names_(info, events),
          tasks_(task_times(events)),
          flows_(task_flows(events, tasks_.size())),
          row_(tasks_.size(), no_task),
          statement_(tasks_.size(), no_task),
          stages_(tasks_.size()) {
        for (const Event& event : events) {
            if (event.kind == EventKind::issue && event.task < tasks_.size())
                statement_[event.task] = event.op;
        }
        find_stages(events);
    }

    void write(Output& output) {
        for (uint32_t task = 0; task < tasks_.size(); ++task) {
            if (shown(task)) row_[task] = rows_++;
        }
        for (uint32_t task = 0; task < tasks_.size(); ++task) {
            if (row_[task] != no_task) add(task);
        }
        std::stable_sort(commands_.begin(), commands_.end(),
                         [](const Command& a, const Command& b) { return a.cycle < b.cycle; });
        const Cycles first = clock_.edges_before(info_.from());
        output.print("Kanata\t0004\nC=\t{}\n", first);
        Cycles now = first;
        for (const Command& command : commands_) {
            if (command.cycle > now) output.print("C\t{}\n", command.cycle - now);
            now = std::max(now, command.cycle);
            output.write(command.text);
        }
    }

  private:
    struct Command {
        Cycles cycle;
        std::string text;
    };
    struct Stage {
        Picoseconds start;
        const char* name;
    };

    struct Stages {
        std::vector<Stage> list;
        Picoseconds worked_until = 0;
    };

    bool shown(uint32_t task) const {
        const TaskTimes& times = tasks_[task];
        if (times.issued == TaskTimes::never || times.issued >= info_.to() || times.end < info_.from())
            return false;
        if (times.unit == no_unit) return info_.view.units.empty();
        return info_.view.shows(info_.units[times.unit].name);
    }

    static const char* stage_of(Cause cause) {
        if (group_of(cause) == "busy") return "compute";
        return cause == Cause::stalled_backpressure ? "store" : "load";
    }

    /// Finds the stages of computations from what their unit did for them.
    void find_stages(const Events& events) {
        for_each_interval(info_, events, [this](const StateInterval& row) {
            if (row.task >= tasks_.size()) return;
            const TaskTimes& times = tasks_[row.task];
            const bool its_own = row.unit == times.unit && row.start >= times.begin && row.start < times.end;
            if (its_own && is_compute(row.task)) add_stage(row.task, stage_of(row.cause), row.start, row.end);
        });
    }
    bool is_compute(uint32_t task) const {
        return statement_[task] < info_.statements.size() &&
               info_.statements[statement_[task]].stage == "compute";
    }
    void add_stage(uint32_t task, const char* name, Picoseconds start, Picoseconds end) {
        Stages& stages = stages_[task];
        if (stages.list.empty() && start > tasks_[task].begin)
            stages.list.push_back({tasks_[task].begin, "load"});
        if (stages.list.empty() || std::string_view(stages.list.back().name) != name)
            stages.list.push_back({start, name});
        stages.worked_until = end;
    }

    void at(Picoseconds time, std::string text) {
        const Picoseconds shown_time = std::clamp(time, info_.from(), info_.to());
        commands_.push_back({clock_.edges_before(shown_time), std::move(text)});
    }

    void add(uint32_t task) {
        const TaskTimes& times = tasks_[task];
        const uint32_t row = row_[task];
        const std::string unit = times.unit < info_.units.size() ? info_.units[times.unit].name : "";
        at(times.issued,
           fmt::format("I\t{}\t{}\t{}\nL\t{}\t0\t{}\nL\t{}\t1\tunit {} operation {}\nS\t{}\t0\twait\n", row,
                       task, times.unit == no_unit ? 0 : times.unit, row, field_text(names_.label(task)), row,
                       unit, field_text(std::string(info_.op_name(times.op))), row));
        arrows(task);
        const char* open = "wait";
        if (times.begin != TaskTimes::never) {
            for (const Stage& stage : stages_of(task)) {
                at(stage.start, fmt::format("E\t{}\t0\t{}\nS\t{}\t0\t{}\n", row, open, row, stage.name));
                open = stage.name;
            }
        }
        const bool ended = times.end <= info_.to();
        at(std::min(times.end, info_.to()),
           fmt::format("E\t{}\t0\t{}\nR\t{}\t{}\t{}\n", row, open, row, row, ended ? 0 : 1));
    }

    std::vector<Stage> stages_of(uint32_t task) const {
        const Stages& stages = stages_[task];
        if (!stages.list.empty()) {
            std::vector<Stage> list = stages.list;
            // what is left after its unit is done: the results
            if (stages.worked_until < tasks_[task].end && std::string_view(list.back().name) != "store")
                list.push_back({stages.worked_until, "store"});
            return list;
        }
        const uint32_t statement = statement_[task];
        const std::string_view stage = statement < info_.statements.size()
                                           ? std::string_view(info_.statements[statement].stage)
                                           : std::string_view();
        return {{tasks_[task].begin, stage == "store" ? "store" : stage == "compute" ? "compute" : "load"}};
    }

    void arrows(uint32_t task) {
        const TaskTimes& times = tasks_[task];
        const Picoseconds when = times.ready == TaskTimes::never ? times.issued : times.ready;
        for (uint64_t i = flows_.first[task]; i < flows_.first[task + size_t{1}]; ++i) {
            const uint32_t producer = row_[flows_.producer[i]];
            if (producer != no_task) at(when, fmt::format("W\t{}\t{}\t0\n", row_[task], producer));
        }
    }

    const RunInfo& info_;
    Clock clock_;
    TaskTable names_;
    std::vector<TaskTimes> tasks_;
    TaskFlows flows_;
    std::vector<uint32_t> row_;        ///< row of each serial; no_task: not shown
    std::vector<uint32_t> statement_;  ///< indexed by serial
    std::vector<Stages> stages_;       ///< stages of computations, indexed by serial
    std::vector<Command> commands_;
    uint32_t rows_ = 0;
};

}  // namespace

void write_konata(const RunInfo& info, const Events& events, Output& output) {
    KonataWriter(info, events).write(output);
}

namespace {

uint64_t konata_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t task = 155, token = 14;
    return counts.of(EventKind::begin) * task + counts.of(EventKind::flow) * token;
}

}  // namespace

extern const Format konata_format;
const Format konata_format{
    "konata",
    "text",
    "tasks as rows of stages with dependencies, for the Konata viewer",
    {},
    false,
    konata_size,
    [](const RunInfo& info, const Events& events, const OptionValues& /*options*/, Output& output) {
        write_konata(info, events, output);
    },
    false,
    false,
    [](const TraceView& view, const OptionValues& /*options*/) -> std::string {
        if (view.every > 0) return "its rows are tasks, not states over time. Fix: leave out --trace-every.";
        return view.causes.empty() ? ""
                                   : "its rows are tasks, which have no cause. Fix: leave out --trace-cause.";
    }};

}  // namespace kpu::traces
