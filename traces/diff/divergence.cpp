#include "traces/diff/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>

#include "traces/intervals.hpp"
#include "traces/task_times.hpp"

namespace kpu::traces {

namespace {

/// Steps in the order in which they explain each other at one instant: an end lets others be issued, become
/// ready, begin.
enum Step : uint8_t { ended, issued, ready, began, step_count };
constexpr std::array<const char*, step_count> step_names{"ended", "issued", "ready", "began"};

/// A recording by task.
class Run {
  public:
    explicit Run(const Recording& recording)
        : recording_(recording),
          clock_(recording.info.clock()),
          names_(recording.info, recording.events),
          times_(task_times(recording.events)) {
        statement_.assign(times_.size(), no_task);
        for (const Event& event : recording.events) {
            if (event.kind == EventKind::issue && event.task < statement_.size())
                statement_[event.task] = event.op;
        }
        serial_.reserve(times_.size());
        for (uint32_t serial = 0; serial < times_.size(); ++serial) {
            if (times_[serial].issued == TaskTimes::never) continue;
            std::string label = names_.label(serial);
            // two statements may have one name
            for (int n = 2; !serial_.emplace(label, serial).second; ++n)
                label = fmt::format("{}#{}", names_.label(serial), n);
            labels_.emplace_back(std::move(label), serial);
        }
    }

    const std::vector<std::pair<std::string, uint32_t>>& labels() const { return labels_; }
    std::optional<uint32_t> find(const std::string& label) const {
        const auto it = serial_.find(label);
        return it == serial_.end() ? std::nullopt : std::optional<uint32_t>(it->second);
    }
    std::optional<Cycles> at(std::optional<uint32_t> serial, Step step) const {
        if (!serial) return std::nullopt;
        const TaskTimes& task = times_[*serial];
        const Picoseconds time = step == ended    ? task.end
                                 : step == issued ? task.issued
                                 : step == ready  ? task.ready
                                                  : task.begin;
        if (time == TaskTimes::never) return std::nullopt;
        return clock_.edges_before(time);
    }
    std::string unit_name(std::optional<uint32_t> serial) const {
        if (!serial || times_[*serial].unit >= recording_.info.units.size()) return "";
        return recording_.info.units[times_[*serial].unit].name;
    }
    std::string operation(uint32_t serial) const {
        return std::string(recording_.info.op_name(times_[serial].op));
    }
    std::string place(uint32_t serial) const {
        const uint32_t statement = statement_[serial];
        if (statement >= recording_.info.statements.size()) return "";
        const RunInfo::Statement& row = recording_.info.statements[statement];
        return row.line == 0 ? row.file : recording_.info.place_of(statement);
    }
    /// Returns the cycles by cause of the task's unit, from when the task was ready or began until it began
    /// or ended.
    std::map<Cause, Cycles> causes(uint32_t serial, Step step) const {
        const TaskTimes& task = times_[serial];
        const Picoseconds from = step == began ? task.ready : task.begin;
        const Picoseconds to = std::min(step == began ? task.begin : task.end, recording_.info.end_ps);
        std::map<Cause, Cycles> sum;
        if (from == TaskTimes::never || task.unit == no_unit) return sum;
        for_each_interval(recording_.info, recording_.events, [&](const StateInterval& row) {
            if (row.unit != task.unit || row.end <= from || row.start >= to) return;
            sum[row.cause] +=
                clock_.edges_before(std::min(row.end, to)) - clock_.edges_before(std::max(row.start, from));
        });
        return sum;
    }
    /// Label of the producer whose end made the task ready; "" without.
    std::string last_producer(uint32_t serial) const {
        const TaskFlows flows = task_flows(recording_.events, times_.size());
        std::string last;
        Picoseconds end = 0;
        for (uint64_t i = flows.first[serial]; i < flows.first[serial + 1]; ++i) {
            const TaskTimes& producer = times_[flows.producer[i]];
            if (producer.end == TaskTimes::never || (!last.empty() && producer.end <= end)) continue;
            last = names_.label(flows.producer[i]);
            end = producer.end;
        }
        return last;
    }

  private:
    const Recording& recording_;
    Clock clock_;
    TaskTable names_;
    std::vector<TaskTimes> times_;
    std::vector<uint32_t> statement_;  ///< indexed by serial
    std::vector<std::pair<std::string, uint32_t>> labels_;
    std::unordered_map<std::string, uint32_t> serial_;
};

struct Found {
    Cycles when = ~Cycles{0};
    Step step = step_count;
    std::string label;
    std::optional<uint32_t> a, b;
};

/// Keeps the earliest difference of one task.
void look(const Run& a, const Run& b, const std::string& label, std::optional<uint32_t> in_a,
          std::optional<uint32_t> in_b, Found& found) {
    for (const Step step : {ended, issued, ready, began}) {
        const auto ta = a.at(in_a, step), tb = b.at(in_b, step);
        const bool moved = step == began && ta && tb && a.unit_name(in_a) != b.unit_name(in_b);
        if (ta == tb && !moved) continue;
        const Cycles when = std::min(ta.value_or(~Cycles{0}), tb.value_or(~Cycles{0}));
        if (when < found.when || (when == found.when && step < found.step))
            found = {when, step, label, in_a, in_b};
    }
}

void add_causes(const Run& a, const Run& b, const Found& found, Divergence& result) {
    std::map<Cause, std::pair<Cycles, Cycles>> both;
    for (const auto& [cause, cycles] : a.causes(*found.a, found.step)) both[cause].first = cycles;
    for (const auto& [cause, cycles] : b.causes(*found.b, found.step)) both[cause].second = cycles;
    for (const auto& [cause, cycles] : both) {
        if (cycles.first != cycles.second)
            result.causes.push_back({std::string(full_name_of(cause)), cycles.first, cycles.second});
    }
    const auto size = [](const Divergence::CauseChange& row) {
        return row.a > row.b ? row.a - row.b : row.b - row.a;
    };
    std::stable_sort(result.causes.begin(), result.causes.end(),
                     [&](const auto& x, const auto& y) { return size(x) > size(y); });
}

std::string reason(const Run& a, const Run& b, const Found& found, const Divergence& result) {
    if (!found.a || !found.b) return fmt::format("only {} has this task", found.a ? "A" : "B");
    if (!result.a || !result.b) return fmt::format("in {} it never came", result.a ? "B" : "A");
    switch (found.step) {
        case issued:
            return "the program issued it at another time: its loop window, the token table or a wait let it "
                   "in then";
        case ready: {
            const std::string in_a = a.last_producer(*found.a), in_b = b.last_producer(*found.b);
            if (in_a == in_b) return in_a.empty() ? "" : fmt::format("it waits for `{}`", in_a);
            const auto task = [](const std::string& name) {
                return name.empty() ? std::string("nothing") : fmt::format("`{}`", name);
            };
            return fmt::format("the last that it waits for is {} in A, {} in B", task(in_a), task(in_b));
        }
        case began:
            if (result.unit_a != result.unit_b)
                return fmt::format("it was placed on {} in A, on {} in B", result.unit_a, result.unit_b);
            return fmt::format("it was ready at the same cycle, but {} took it at another", result.unit_a);
        default:
            return "it began at the same cycle and took another time";
    }
}

}  // namespace

std::optional<Divergence> first_divergence(const Recording& recording_a, const Recording& recording_b) {
    const Run a(recording_a), b(recording_b);
    Found found;
    for (const auto& [label, serial] : a.labels()) look(a, b, label, serial, b.find(label), found);
    for (const auto& [label, serial] : b.labels()) {
        if (!a.find(label)) look(a, b, label, std::nullopt, serial, found);
    }
    if (found.step == step_count) return std::nullopt;
    Divergence result;
    result.task = found.label;
    result.operation = found.a ? a.operation(*found.a) : b.operation(*found.b);
    result.place = found.a ? a.place(*found.a) : b.place(*found.b);
    result.step = step_names[found.step];
    result.unit_a = a.unit_name(found.a);
    result.unit_b = b.unit_name(found.b);
    result.a = a.at(found.a, found.step);
    result.b = b.at(found.b, found.step);
    const bool timed = found.step == ended || found.step == began;
    if (found.a && found.b && result.a && result.b && timed) add_causes(a, b, found, result);
    result.why = reason(a, b, found, result);
    return result;
}

}  // namespace kpu::traces
