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

/// The requests that a trace shows, in order of time.
std::vector<Event> shown_accesses(const RunInfo& info, const Events& events) {
    if (!info.accesses) {
        throw UserError(
            "the recording has no memory accesses. Fix: run again with --memory-trace beside --events.");
    }
    const std::vector<bool> completed = completed_tasks(events);
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    std::vector<Event> rows;
    for (const Event& event : events) {
        const bool wanted = event.kind == EventKind::access && event.time_ps >= info.view.from &&
                            event.time_ps < info.view.to && event.task < completed.size() &&
                            completed[event.task] && shown[event.unit];
        if (wanted) rows.push_back(event);
    }
    std::sort(rows.begin(), rows.end(), precedes);
    return rows;
}

}  // namespace

void write_memory_trace_csv(const RunInfo& info, const Events& events, Output& output) {
    const std::vector<Event> rows = shown_accesses(info, events);
    const TaskTable tasks(info, events);
    const Clock clock = info.clock();
    output.print("cycle,access,level,address,bytes,unit,task\n");
    for (const Event& row : rows) {
        const auto address = static_cast<uint64_t>(row.value);
        output.print("{},{},{},{:#018x},{},{},{}\n", clock.edges_before(row.time_ps),
                     row.cause == 0 ? "read" : "write",
                     level_names[static_cast<size_t>(level_of_bus_address(address))], address, row.reserved,
                     info.units[row.unit].name, csv_field(tasks.label(row.task)));
    }
}

void write_dram_trace(const RunInfo& info, const Events& events, DramTraceForm form, Output& output) {
    const std::vector<Event> rows = shown_accesses(info, events);
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
    for (const Event& row : rows) {
        const auto address = static_cast<uint64_t>(row.value);
        if (level_of_bus_address(address) != Level::ddr) continue;
        if (form == DramTraceForm::ramulator) {
            for (uint64_t at = address / burst * burst; at < address + row.reserved; at += burst)
                output.print("{} {:#x}\n", row.cause == 0 ? "LD" : "ST", at);
            continue;
        }
        const Cycles cycle = clock.edges_before(row.time_ps);
        output.print("{}: ({}) {} {:#x}\n", cycle - before, row.reserved, row.cause == 0 ? "read" : "write",
                     address);
        if (form == DramTraceForm::rstl) before = cycle;
    }
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
    write_memory_trace};

}  // namespace kpu::traces
