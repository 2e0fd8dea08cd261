#include "traces/memory_trace.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "isa/bus_address.hpp"
#include "traces/formats.hpp"
#include "traces/intervals.hpp"

namespace kpu::traces {

namespace {

constexpr std::array<std::string_view, 3> level_names{"dram", "l2", "l1"};  ///< indexed by Level

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

/// Calls visit(request) for every request that a trace shows, in order of time.
template <typename Visit>
void for_each_access(const RunInfo& info, const Events& events, Visit visit) {
    if (!info.accesses) {
        throw UserError(
            "the recording has no memory accesses. Fix: run again with --memory-trace beside --events.");
    }
    const std::vector<bool> completed = completed_tasks(events);
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    const ShownStates states(info);
    std::vector<Event> rows;  // of one time
    const auto visit_rows = [&] {
        std::sort(rows.begin(), rows.end(), precedes);
        for (const Event& row : rows) visit(row);
        rows.clear();
    };
    for (const Event& event : events) {
        const bool wanted = event.kind == EventKind::access && event.time_ps >= info.view.from &&
                            event.time_ps < info.view.to && event.task < completed.size() &&
                            completed[event.task] && shown[event.unit] && states.shows_op(event.op);
        if (!wanted) continue;
        if (!rows.empty() && rows.back().time_ps != event.time_ps) visit_rows();
        rows.push_back(event);
    }
    visit_rows();
}

}  // namespace

void write_memory_trace_csv(const RunInfo& info, const Events& events, Output& output) {
    const TaskTable tasks(info, events);
    const Clock clock = info.clock();
    output.print("cycle,access,level,address,bytes,unit,task\n");
    for_each_access(info, events, [&](const Event& row) {
        const auto address = static_cast<uint64_t>(row.value);
        output.print("{},{},{},{:#018x},{},{},{}\n", clock.edges_before(row.time_ps),
                     row.cause == 0 ? "read" : "write",
                     level_names[static_cast<size_t>(level_of_bus_address(address))], address, row.reserved,
                     info.units[row.unit].name, csv_field(tasks.label(row.task)));
    });
}

void write_dram_trace(const RunInfo& info, const Events& events, DramTraceForm form, Output& output) {
    const Clock clock = info.clock();
    const uint64_t burst = info.dram_burst_bytes;
    if (form == DramTraceForm::ramulator && burst == 0) {
        throw UserError(
            "the recording does not say how long a burst of its DRAM is. Fix: record it again with this "
            "version.");
    }
    if (form != DramTraceForm::ramulator)
        output.print("# clock_mhz: {}\n", static_cast<double>(info.core_hz) / 1e6);
    Cycles before = 0;
    for_each_access(info, events, [&](const Event& row) {
        const auto address = static_cast<uint64_t>(row.value);
        if (level_of_bus_address(address) != Level::ddr) return;
        if (form == DramTraceForm::ramulator) {
            for (uint64_t at = address / burst * burst; at < address + row.reserved; at += burst)
                output.print("{} {:#x}\n", row.cause == 0 ? "LD" : "ST", at);
            return;
        }
        const Cycles cycle = clock.edges_before(row.time_ps);
        output.print("{}: ({}) {} {:#x}\n", cycle - before, row.reserved, row.cause == 0 ? "read" : "write",
                     address);
        if (form == DramTraceForm::rstl) before = cycle;
    });
}

namespace {

uint64_t memory_trace_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t row = 56;
    return counts.of(EventKind::access) * row;
}

void write_memory_trace(const RunInfo& info, const Events& events, const OptionValues& options,
                        Output& output) {
    std::string form = options.text("memory-trace-form");
    if (form == "auto") {
        form = ends_with(output.path(), ".rstl") ? "rstl" : ends_with(output.path(), ".stl") ? "stl" : "csv";
    }
    if (form == "csv") return write_memory_trace_csv(info, events, output);
    write_dram_trace(info, events,
                     form == "stl"    ? DramTraceForm::stl
                     : form == "rstl" ? DramTraceForm::rstl
                                      : DramTraceForm::ramulator,
                     output);
}

}  // namespace

extern const Format memory_trace_format;
const Format memory_trace_format{
    "memory-trace",
    "CSV",
    "every request to a memory; those to DRAM for DRAMSys if it ends in .stl or .rstl",
    {{"memory-trace-form",
      "what simulators of DRAM read instead: stl, rstl, ramulator; auto goes by the end of the name",
      ValueKind::choice,
      "auto",
      {"auto", "csv", "stl", "rstl", "ramulator"}}},
    true,
    memory_trace_size,
    write_memory_trace,
    false,
    false,
    [](const TraceView& view, const OptionValues& /*options*/) -> std::string {
        if (view.every > 0) return "it has every request, and none is a state. Fix: leave out --trace-every.";
        return view.causes.empty() ? "" : "requests have no cause. Fix: leave out --trace-cause.";
    }};

}  // namespace kpu::traces
