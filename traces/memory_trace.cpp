#include "traces/memory_trace.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/diagnostics.hpp"
#include "isa/bus_address.hpp"
#include "traces/formats.hpp"
#include "traces/intervals.hpp"

namespace kpu::traces {

namespace {

constexpr std::array<std::string_view, 3> level_names{"dram", "l2", "l1"};  ///< by Level

/// The model serves one memory at a time, so records of one instant come in no order that means anything.
bool precedes(const Event& a, const Event& b) {
    return std::tie(a.time_ps, a.unit, a.task, a.cause, a.value) <
           std::tie(b.time_ps, b.unit, b.task, b.cause, b.value);
}

std::vector<bool> completed_tasks(const Events& events) {
    std::vector<bool> completed;
    for (const Event& event : events) {
        if (event.kind != EventKind::end || event.task >= events.size()) continue;
        if (event.task >= completed.size()) completed.resize(event.task + size_t{1});
        completed[event.task] = true;
    }
    return completed;
}

}  // namespace

void write_memory_trace_csv(const RunInfo& info, const Events& events, Output& output) {
    if (!info.accesses) {
        throw UserError(
            "the recording has no memory accesses. Fix: run again with --memory-trace beside --events.");
    }
    const TaskTable tasks(info, events);
    const std::vector<bool> completed = completed_tasks(events);
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    const ShownStates states(info);
    const Clock clock = info.clock();
    output.print("cycle,access,level,address,bytes,unit,task\n");
    std::vector<Event> rows;  // of one time
    const auto write_rows = [&] {
        std::sort(rows.begin(), rows.end(), precedes);
        for (const Event& row : rows) {
            const auto address = static_cast<uint64_t>(row.value);
            output.print("{},{},{},{:#018x},{},{},{}\n", clock.edges_before(row.time_ps),
                         row.cause == 0 ? "read" : "write",
                         level_names[static_cast<size_t>(level_of_bus_address(address))], address,
                         row.reserved, info.units[row.unit].name, csv_field(tasks.label(row.task)));
        }
        rows.clear();
    };
    for (const Event& event : events) {
        const bool wanted = event.kind == EventKind::access && event.time_ps >= info.view.from &&
                            event.time_ps < info.view.to && event.task < completed.size() &&
                            completed[event.task] && shown[event.unit] && states.shows_op(event.op);
        if (!wanted) continue;
        if (!rows.empty() && rows.back().time_ps != event.time_ps) write_rows();
        rows.push_back(event);
    }
    write_rows();
}

namespace {

uint64_t memory_trace_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t row = 56;
    return counts.of(EventKind::access) * row;
}

}  // namespace

extern const Format memory_trace_format;
const Format memory_trace_format{
    "memory-trace",
    "CSV",
    "every request to a memory",
    {},
    true,
    memory_trace_size,
    [](const RunInfo& info, const Events& events, const OptionValues& /*options*/, Output& output) {
        write_memory_trace_csv(info, events, output);
    },
    false,
    false,
    [](const TraceView& view, const OptionValues& /*options*/) -> std::string {
        if (view.every > 0) return "it has every request, and none is a state. Fix: leave out --trace-every.";
        return view.causes.empty() ? "" : "requests have no cause. Fix: leave out --trace-cause.";
    }};

}  // namespace kpu::traces
