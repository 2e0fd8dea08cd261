#include <algorithm>

#include "traces/formats.hpp"
#include "traces/intervals.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

void write_stalls_csv(const RunInfo& info, const Events& events, Output& output) {
    const TaskTable tasks(info, events);
    output.print("unit,start_ps,end_ps,cycles,{},task,iteration,operation,blamed,profile\n",
                 info.view.every > 0 ? "cause_majority" : "cause");
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    const Clock clock = info.clock();
    for_each_interval(info, events, [&](StateInterval row) {
        if (!shown[row.unit] || row.start >= info.to() || row.end <= info.from()) return;
        row.start = std::max(row.start, info.from());
        row.end = std::min(row.end, info.to());
        row.cycles = clock.edges_before(row.end) - clock.edges_before(row.start);
        const std::string_view op = row.task == no_task ? std::string_view() : info.op_name(row.op);
        output.print("{},{},{},{},{},{},{},{},{},{}\n", info.units[row.unit].name, row.start, row.end,
                     row.cycles, full_name_of(row.cause), csv_field(tasks.name(row.task)),
                     csv_field(tasks.iteration(row.task)), csv_field(op), csv_field(tasks.blamed(row.blame)),
                     csv_field(tasks.profile(row.task)));
    });
}

namespace {

uint64_t stalls_size(const RunInfo& /*info*/, const RecordCounts& counts) {
    constexpr uint64_t row = 47;
    return counts.of(EventKind::cause) * row;
}

}  // namespace

extern const Format stalls_format;
const Format stalls_format{"stalls",
                           "CSV",
                           "every interval of every unit with its cause",
                           {},
                           false,
                           stalls_size,
                           [](const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                              Output& output) { write_stalls_csv(info, events, output); }};

}  // namespace kpu::traces
