#include "traces/perfetto/perfetto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "traces/binned_signals.hpp"
#include "traces/component_activity.hpp"
#include "traces/formats.hpp"
#include "traces/intervals.hpp"
#include "traces/majority.hpp"
#include "traces/perfetto/packet.hpp"
#include "traces/task_times.hpp"

namespace kpu::traces {

namespace {

using namespace perfetto;

constexpr uint64_t process_uuid = 1;  ///< number of the device; engine n is that of 2 + n

/// A track, or one lane of a unit whose tasks overlap.
struct Lane {
    uint64_t uuid = 0;
    Picoseconds free = 0;  ///< end of its last slice
};

class PerfettoWriter {
  public:
    PerfettoWriter(const RunInfo& info, const Events& events, PerfettoTime time, Output& output)
        : info_(info),
          events_(events),
          time_(time),
          output_(output),
          clock_(info.clock()),
          names_(info, events),
          tasks_(task_times(events)),
          flows_(task_flows(events, tasks_.size())),
          states_(info) {
        for (const UnitInfo& unit : info.units) shown_.push_back(info.view.shows(unit.name));
        for (const Event& event : events) {
            if (event.kind != EventKind::issue || event.task >= tasks_.size()) continue;
            if (statement_.size() <= event.task) statement_.resize(tasks_.size(), no_task);
            statement_[event.task] = event.op;
        }
        statement_.resize(tasks_.size(), no_task);
    }

    void write() {
        intern();
        processes();
        for (uint32_t task = 0; task < tasks_.size() && info_.view.every == 0; ++task) by_unit_add(task);
        count_flows();
        for (size_t unit = 0; unit < info_.units.size(); ++unit) {
            if (shown_[unit]) unit_tasks(unit);
        }
        states();
        step_counters();
        binned();
        component_states();
    }

  private:
    // --- processes: the device, and each of its engines ---

    void processes() {
        const char* const time = time_ == PerfettoTime::cycles ? "1 ns shown = 1 core cycle" : "time in ns";
        process(process_uuid, fmt::format("{} on {} ({})", info_.program, info_.platform, time));
        for (const UnitInfo& unit : info_.units) {
            if (unit.engine < 0 || process_of(unit) <= last_uuid_) continue;
            last_uuid_ = process_of(unit);
            process(last_uuid_, fmt::format("engine {}", unit.engine));
        }
    }
    void process(uint64_t uuid, const std::string& name) {
        track(uuid, 0, 0, "", [&](Message& descriptor) {
            Message process;
            process.uint(field::process_pid, uuid);
            process.bytes(field::process_name, name);
            descriptor.message(field::track_process, process);
            descriptor.uint(field::track_child_ordering, explicit_order);
        });
    }
    static uint64_t process_of(const UnitInfo& unit) {
        return unit.engine < 0 ? process_uuid : process_uuid + 1 + static_cast<uint64_t>(unit.engine);
    }
    uint64_t process_of(size_t unit) const { return process_of(info_.units[unit]); }

    // --- packets ---

    void packet() {
        output_.write(frame_.bytes());
        frame_.clear();
    }
    /// The packet of an event or a descriptor, which is complete.
    void emit(uint32_t number, const Message& content, const uint64_t* timestamp) {
        head_.clear();
        if (timestamp != nullptr) head_.uint(field::timestamp, *timestamp);
        head_.uint(field::sequence_id, 1);
        head_.uint(field::sequence_flags, needs_state);
        head_.length(number, content.bytes().size());
        frame_.clear();
        frame_.length(field::trace_packet, head_.bytes().size() + content.bytes().size());
        frame_.append(head_);
        output_.write(frame_.bytes());
        output_.write(content.bytes());
    }
    void emit_event(Picoseconds at) {
        const uint64_t timestamp = time_of(at);
        emit(field::track_event, event_, &timestamp);
    }
    uint64_t time_of(Picoseconds at) const {
        return time_ == PerfettoTime::cycles ? clock_.edges_before(at) : at / 1000;
    }

    template <typename More>
    void track(uint64_t uuid, uint64_t parent, uint32_t rank, const std::string& name, More more) {
        Message descriptor;
        descriptor.uint(field::track_uuid, uuid);
        if (!name.empty()) descriptor.bytes(field::track_name, name);
        if (parent != 0) descriptor.uint(field::track_parent, parent);
        more(descriptor);
        if (parent != 0) descriptor.uint(field::track_rank, rank);
        emit(field::track_descriptor, descriptor, nullptr);
    }
    uint64_t slice_track(uint64_t process, const std::string& name) {
        track(++last_uuid_, process, ++last_rank_, name, [](Message&) {});
        return last_uuid_;
    }
    uint64_t counter_track(uint64_t process, const std::string& name, const char* unit) {
        track(++last_uuid_, process, ++last_rank_, name, [unit](Message& descriptor) {
            Message counter;
            counter.bytes(field::counter_unit_name, unit);
            descriptor.message(field::track_counter, counter);
        });
        return last_uuid_;
    }

    // --- names ---

    enum Annotation : uint32_t { iteration = 1, operation, place, issued, ready, serial, annotation_count };
    uint64_t statement_name(uint32_t statement) const { return cause_count + 1 + statement; }

    void interned(Message& data, uint32_t table, uint64_t iid, std::string_view text) {
        Message row;
        row.uint(field::iid, iid);
        row.bytes(field::text, text);
        data.message(table, row);
    }

    /// Names of causes, statements and arguments, each written once; places and operations as strings.
    void intern() {
        Message data;
        for (int cause = 0; cause < cause_count; ++cause)
            interned(data, field::event_names, static_cast<uint64_t>(cause) + 1,
                     full_name_of(static_cast<Cause>(cause)));
        for (uint32_t i = 0; i < info_.statements.size(); ++i) {
            const RunInfo::Statement& row = info_.statements[i];
            const std::string name = row.profile.empty() ? row.name : row.name + "@" + row.profile;
            if (!name.empty()) interned(data, field::event_names, statement_name(i), name);
            if (row.line > 0) interned(data, field::annotation_strings, place_string(i), info_.place_of(i));
        }
        interned(data, field::event_names, statement_name(static_cast<uint32_t>(info_.statements.size())),
                 "task");
        for (const ClockState state : {ClockState::active, ClockState::idle, ClockState::gated})
            interned(data, field::event_names, clock_name(state), name_of(state));
        for (uint32_t i = 0; i < info_.ops.size(); ++i)
            interned(data, field::annotation_strings, op_string(i), info_.ops[i].id);
        static constexpr const char* annotations[] = {"",       "iteration", "operation", "place",
                                                      "issued", "ready",     "serial"};
        for (uint32_t i = 1; i < annotation_count; ++i)
            interned(data, field::annotation_names, i, annotations[i]);
        Message first;
        first.uint(field::sequence_id, 1);
        first.uint(field::sequence_flags, state_cleared);
        first.message(field::interned_data, data);
        frame_.message(field::trace_packet, first);
        packet();
    }
    uint64_t clock_name(ClockState state) const {
        return statement_name(static_cast<uint32_t>(info_.statements.size())) + 1 +
               static_cast<uint64_t>(state);
    }
    const char* state_suffix() const { return info_.view.every > 0 ? " state majority" : " state"; }
    uint64_t op_string(uint32_t op) const { return 1 + op; }
    uint64_t place_string(uint32_t statement) const { return 1 + info_.ops.size() + statement; }

    void annotate(Annotation name, uint32_t kind, uint64_t value) {
        annotation_.clear();
        annotation_.uint(field::annotation_name_iid, name);
        annotation_.uint(kind, value);
        event_.message(field::event_annotation, annotation_);
    }

    // --- tasks ---

    void by_unit_add(uint32_t task) {
        const TaskTimes& times = tasks_[task];
        if (times.begin == TaskTimes::never || times.begin >= info_.to() || end_of(times) < info_.from() ||
            !states_.shows_op(times.op))
            return;
        if (by_unit_.empty()) by_unit_.resize(info_.units.size());
        for (const uint16_t unit : {times.unit, times.partner}) {
            if (unit < by_unit_.size() && shown_[unit]) by_unit_[unit].push_back(task);
        }
    }
    Picoseconds end_of(const TaskTimes& times) const { return std::min(times.end, info_.end_ps); }
    bool has_slice(uint32_t task) const { return task < visible_.size() && visible_[task]; }

    /// Tokens between two slices that are shown; each has its own flow, numbered by its place in the list.
    /// Those of a producer are found the other way round.
    void count_flows() {
        visible_.assign(tasks_.size(), false);
        for (const auto& list : by_unit_)
            for (const uint32_t task : list) visible_[task] = true;
        consumed_first_.assign(tasks_.size() + 1, 0);
        each_flow([this](uint32_t producer, uint64_t) { ++consumed_first_[producer + size_t{1}]; });
        for (size_t i = 0; i < tasks_.size(); ++i) consumed_first_[i + 1] += consumed_first_[i];
        consumed_.resize(consumed_first_[tasks_.size()]);
        std::vector<uint64_t> next(consumed_first_.begin(), consumed_first_.end() - 1);
        each_flow([&](uint32_t producer, uint64_t flow) { consumed_[next[producer]++] = flow; });
    }
    template <typename Visit>
    void each_flow(Visit visit) const {
        for (uint32_t task = 0; task < tasks_.size(); ++task) {
            for (uint64_t i = flows_.first[task]; i < flows_.first[task + size_t{1}]; ++i)
                if (has_slice(task) && has_slice(flows_.producer[i])) visit(flows_.producer[i], i);
        }
    }

    void unit_tasks(size_t unit) {
        if (unit >= by_unit_.size() || by_unit_[unit].empty()) return;
        std::vector<uint32_t>& list = by_unit_[unit];
        std::stable_sort(list.begin(), list.end(),
                         [this](uint32_t a, uint32_t b) { return tasks_[a].begin < tasks_[b].begin; });
        std::vector<Lane> lanes;
        for (const uint32_t task : list) {
            const Picoseconds begin = std::max(tasks_[task].begin, info_.from());
            const Picoseconds end = std::max(std::min(end_of(tasks_[task]), info_.to()), begin);
            auto lane =
                std::find_if(lanes.begin(), lanes.end(), [&](const Lane& l) { return l.free <= begin; });
            if (lane == lanes.end()) {
                const std::string& name = info_.units[unit].name;
                const uint64_t uuid = slice_track(
                    process_of(unit), lanes.empty() ? name : fmt::format("{} +{}", name, lanes.size()));
                lanes.push_back({uuid, 0});
                lane = lanes.end() - 1;
            }
            lane->free = end;
            task_slice(task, lane->uuid, begin, end, unit == tasks_[task].unit);
        }
    }

    void task_slice(uint32_t task, uint64_t uuid, Picoseconds begin, Picoseconds end, bool first_unit) {
        const TaskTimes& times = tasks_[task];
        const uint32_t statement =
            std::min<uint32_t>(statement_[task], static_cast<uint32_t>(info_.statements.size()));
        event_.clear();
        event_.uint(field::event_type, slice_begin);
        event_.uint(field::event_track, uuid);
        event_.uint(field::event_name_iid, statement_name(statement));
        const std::string loops = names_.iteration(task);
        if (!loops.empty()) {
            annotation_.clear();
            annotation_.uint(field::annotation_name_iid, iteration);
            annotation_.bytes(field::annotation_string, loops);
            event_.message(field::event_annotation, annotation_);
        }
        if (times.op < info_.ops.size())
            annotate(operation, field::annotation_string_iid, op_string(times.op));
        if (statement < info_.statements.size() && info_.statements[statement].line > 0)
            annotate(place, field::annotation_string_iid, place_string(statement));
        annotate(serial, field::annotation_uint, task);
        if (times.issued != TaskTimes::never)
            annotate(issued, field::annotation_uint, clock_.edges_before(times.issued));
        if (times.ready != TaskTimes::never)
            annotate(ready, field::annotation_uint, clock_.edges_before(times.ready));
        if (first_unit) {
            for (uint64_t i = flows_.first[task]; i < flows_.first[task + size_t{1}]; ++i)
                if (has_slice(flows_.producer[i])) event_.fixed(field::event_last_flow, i + 1);
            for (uint64_t i = consumed_first_[task]; i < consumed_first_[task + size_t{1}]; ++i)
                event_.fixed(field::event_flow, consumed_[i] + 1);
        }
        emit_event(begin);
        end_slice(uuid, end);
    }

    void end_slice(uint64_t uuid, Picoseconds at) {
        event_.clear();
        event_.uint(field::event_type, slice_end);
        event_.uint(field::event_track, uuid);
        emit_event(at);
    }

    // --- states ---

    void states() {
        std::vector<uint64_t> tracks(info_.units.size(), 0);
        for_each_interval(info_, events_, [&](const StateInterval& row) {
            const bool idle = group_of(row.cause) == "idle";
            if (idle || !shown_[row.unit] || row.start >= info_.to() || row.end <= info_.from()) return;
            uint64_t& uuid = tracks[row.unit];
            if (uuid == 0)
                uuid = slice_track(process_of(row.unit), info_.units[row.unit].name + state_suffix());
            event_.clear();
            event_.uint(field::event_type, slice_begin);
            event_.uint(field::event_track, uuid);
            event_.uint(field::event_name_iid, static_cast<uint64_t>(row.cause) + 1);
            if (row.task != no_task) annotate(serial, field::annotation_uint, row.task);
            emit_event(std::max(row.start, info_.from()));
            end_slice(uuid, std::min(row.end, info_.to()));
        });
    }

    // --- counters ---

    void counter_value(uint64_t uuid, Picoseconds at, int64_t value) {
        event_.clear();
        event_.uint(field::event_type, perfetto::counter);
        event_.uint(field::event_track, uuid);
        event_.uint(field::event_counter, static_cast<uint64_t>(value));
        emit_event(at);
    }
    void counter_value(uint64_t uuid, Picoseconds at, double value) {
        event_.clear();
        event_.uint(field::event_type, perfetto::counter);
        event_.uint(field::event_track, uuid);
        event_.real(field::event_double_counter, value);
        emit_event(at);
    }

    /// Queue depths and tokens, where they change, with the value at the start of the window.
    void step_counters() {
        struct Counter {
            uint64_t uuid = 0;
            int64_t value = 0;
            Picoseconds since = 0;
        };
        std::vector<Counter> counters(info_.units.size() * 2);
        std::vector<Sampler<int64_t>> samplers;
        const auto show = [&](size_t i, int64_t value, Picoseconds from, Picoseconds to) {
            if (to <= info_.from() || from >= info_.to()) return;
            if (counters[i].uuid == 0) {
                const char* kind = i % 2 == 0 ? "queue_depth" : "tokens_in_flight";
                const char* more = info_.view.every > 0 ? " majority" : "";
                counters[i].uuid = counter_track(process_of(i / 2),
                                                 fmt::format("{} {}{}", info_.units[i / 2].name, kind, more),
                                                 i % 2 == 0 ? "tasks" : "tokens");
            }
            counter_value(counters[i].uuid, std::max(from, info_.from()), value);
        };
        for (size_t i = 0; i < counters.size() && info_.view.every > 0; ++i) {
            samplers.emplace_back(
                info_.view.every, [](const int64_t& value) { return value; },
                [&show, i](int64_t value, Picoseconds from, Picoseconds to) { show(i, value, from, to); });
        }
        std::vector<bool> found(counters.size());
        const auto pass = [&](size_t i, Picoseconds to) {
            Counter& counter = counters[i];
            if (!samplers.empty()) {
                samplers[i].add(counter.value, counter.since, to);
            } else if (to > counter.since) {
                show(i, counter.value, counter.since, to);
            }
            counter.since = to;
        };
        for (const Event& event : events_) {
            if (event.time_ps >= info_.end_ps) break;
            if (event.kind != EventKind::counter || event.cause > 1 || !shown_[event.unit]) continue;
            const size_t i = event.unit * size_t{2} + event.cause;
            pass(i, event.time_ps);
            counters[i].value = event.value;
            found[i] = true;
        }
        for (size_t i = 0; i < counters.size(); ++i) {
            if (!found[i]) continue;
            pass(i, info_.end_ps);
            if (!samplers.empty()) samplers[i].finish();
        }
    }

    /// Writes one value per bin where it changes, and 0 at the end.
    void series(uint64_t process, const std::string& name, const char* unit, const BinnedSignals& bins,
                const std::vector<double>& values) {
        if (values.empty()) return;
        const uint64_t uuid = counter_track(process, name, unit);
        double last = -1;
        for (size_t bin = 0; bin < bins.count; ++bin) {
            const Picoseconds start = std::max(bins.start(bin), info_.from());
            if (start >= info_.to() || bins.start(bin) + bins.width <= info_.from() || values[bin] == last)
                continue;
            last = values[bin];
            counter_value(uuid, start, last);
        }
        if (last != 0) counter_value(uuid, info_.to(), 0.0);
    }

    void binned() {
        const BinnedSignals bins(info_, events_);
        for (size_t unit = 0; unit < bins.bandwidth.size(); ++unit) {
            if (shown_[unit])
                series(process_of(unit), info_.units[unit].name + " bandwidth", "GB/s", bins,
                       bins.bandwidth[unit]);
        }
        series(process_uuid, "dram.read", "GB/s", bins, bins.dram[0]);
        series(process_uuid, "dram.write", "GB/s", bins, bins.dram[1]);
        for (size_t row = 0; row < bins.power.size() && info_.prices.not_modelled.empty(); ++row)
            series(process_uuid, "power." + BinnedSignals::power_name(row), "W", bins, bins.power[row]);
    }

    // --- clocks of components ---

    void component_states() {
        if (!info_.prices.not_modelled.empty() || info_.end_ps == 0) return;
        std::array<uint64_t, ComponentActivity::count> tracks{};
        for_each_clock_state(
            info_, events_, [&](size_t c, ClockState state, Picoseconds from, Picoseconds to) {
                if (from >= info_.to() || to <= info_.from()) return;
                if (tracks[c] == 0)
                    tracks[c] = slice_track(
                        process_uuid,
                        fmt::format("power.{}{}", name_of(static_cast<Component>(c)), state_suffix()));
                event_.clear();
                event_.uint(field::event_type, slice_begin);
                event_.uint(field::event_track, tracks[c]);
                event_.uint(field::event_name_iid, clock_name(state));
                emit_event(std::max(from, info_.from()));
                end_slice(tracks[c], std::min(to, info_.to()));
            });
    }

    const RunInfo& info_;
    const Events& events_;
    PerfettoTime time_;
    Output& output_;
    Clock clock_;
    TaskTable names_;
    std::vector<TaskTimes> tasks_;
    TaskFlows flows_;
    ShownStates states_;
    std::vector<bool> shown_, visible_;
    std::vector<uint32_t> statement_;                  ///< indexed by serial
    std::vector<std::vector<uint32_t>> by_unit_;       ///< tasks with a slice
    std::vector<uint64_t> consumed_first_, consumed_;  ///< flows of a producer
    uint64_t last_uuid_ = process_uuid;
    uint32_t last_rank_ = 0;
    Message event_, annotation_, head_, frame_;
};

}  // namespace

void write_perfetto(const RunInfo& info, const Events& events, PerfettoTime time, Output& output) {
    PerfettoWriter(info, events, time, output).write();
}

namespace {

uint64_t perfetto_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t state = 18, task = 160, counter = 16, flow = 20;
    return counts.of(EventKind::cause) * state + counts.of(EventKind::begin) * task +
           counts.of(EventKind::counter) * counter + counts.of(EventKind::flow) * flow;
}

}  // namespace

extern const Format perfetto_format;
const Format perfetto_format{
    "perfetto",
    "protobuf",
    "tasks, states and counters for ui.perfetto.dev",
    {{"perfetto-time", "what its nanosecond stands for", ValueKind::choice, "cycles", {"cycles", "ns"}}},
    false,
    perfetto_size,
    [](const RunInfo& info, const Events& events, const OptionValues& options, Output& output) {
        const bool ns = options.text("perfetto-time") == "ns";
        write_perfetto(info, events, ns ? PerfettoTime::ns : PerfettoTime::cycles, output);
    }};

}  // namespace kpu::traces
