#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "traces/intervals.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

/// Picoseconds as nanoseconds, exactly.
std::string ns_text(Picoseconds ps) {
    return ps % 1000 == 0 ? fmt::format("{}", ps / 1000) : fmt::format("{}.{:03}", ps / 1000, ps % 1000);
}

std::string ratio_text(double value, double estimate) {
    return estimate > 0 ? real_text(value / estimate) : "";
}

}  // namespace

void write_stalls_csv(const RunInfo& info, const std::vector<Event>& events, Output& output) {
    const TaskTable tasks(info, events);
    output.print("unit,start_ps,end_ps,cycles,cause,task,iteration,operation,blamed,profile\n");
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

void write_power_csv(const RunInfo& info, const std::vector<Event>& events, Output& output) {
    const PowerTrace trace = power_trace(info, events, info.bin_ps());
    const PowerBins& bins = trace.bins;
    const EnergyPrices& prices = info.prices;
    output.print("# table={}, corner={}, node={}, vdd={}, temp={}, bin_ns={}, units=W\n", prices.table,
                 prices.corner, prices.node_nm, prices.vdd, prices.temp_c, ns_text(bins.width()));
    output.print("time_ns,dt_ns,");
    for (size_t c = 0; c < component_count; ++c) {
        const auto component = static_cast<Component>(c);
        if (component != Component::dram && component != Component::phy)
            output.print("{}_w,", name_of(component));
    }
    output.print("dram_dyn_w,dram_bg_w,phy_w,static_w,total_w,op\n");
    for (size_t bin = 0; bin < bins.count(); ++bin) {
        if (bins.start(bin) >= info.to() || bins.start(bin) + bins.width() <= info.from()) continue;
        const PowerBins::Row& row = bins.row(bin);
        output.print("{},{}", ns_text(bins.start(bin)), ns_text(bins.real_width(bin)));
        for (size_t c = 0; c <= static_cast<size_t>(Component::dram); ++c) {
            output.print(",{}", real_text(bins.watts(bin, row[c])));
        }
        const double phy = row[static_cast<size_t>(Component::phy)] + row[PowerBins::phy_static];
        output.print(",{},{},{},{},{}\n", real_text(bins.watts(bin, row[PowerBins::dram_background])),
                     real_text(bins.watts(bin, phy)), real_text(bins.watts(bin, row[PowerBins::statics])),
                     real_text(bins.watts(bin, bins.total(bin))), csv_field(info.op_name(trace.op[bin])));
    }
}

void write_energy_csv(const std::vector<EnergyLedger::Row>& rows, Output& output) {
    const double total = std::accumulate(rows.begin(), rows.end(), 0.0,
                                         [](double sum, const auto& row) { return sum + row.energy_pj; });
    output.print("component,action,per,count,energy_per_action_pj,energy_pj,share\n");
    for (const EnergyLedger::Row& row : rows) {
        output.print("{},{},{},{},{},{},{}\n", row.component, csv_field(row.action), csv_field(row.per),
                     row.count, real_text(row.energy_per_action_pj), real_text(row.energy_pj),
                     real_text(total > 0 ? row.energy_pj / total : 0));
    }
}

void write_ops_csv(const std::vector<OpRow>& rows, Output& output) {
    output.print("op,type,span_cycles,charged_cycles");
    for (int cause = 0; cause < unit_cause_count; ++cause)
        output.print(",{}", full_name_of(static_cast<Cause>(cause)));
    output.print(
        ",macs,bytes_dram,bytes_l2,bytes_l1,utilization,energy_pj,power_w,estimated_cycles,cycles_over_"
        "estimate,"
        "estimated_energy_pj,energy_over_estimate,profile\n");
    for (const OpRow& row : rows) {
        output.print("{},{},{},{}", csv_field(row.id), csv_field(row.type), row.span_cycles,
                     row.charged_cycles);
        for (const Cycles cycles : row.causes) output.print(",{}", cycles);
        output.print(
            ",{},{},{},{},{},{},{},{},{},{},{},{}\n", row.macs, row.bytes_dram, row.bytes_l2, row.bytes_l1,
            real_text(row.utilization), real_text(row.energy_pj), real_text(row.power_w),
            row.estimated_cycles,
            ratio_text(static_cast<double>(row.charged_cycles), static_cast<double>(row.estimated_cycles)),
            real_text(row.estimated_energy_pj), ratio_text(row.energy_pj, row.estimated_energy_pj),
            csv_field(row.profile));
    }
}

}  // namespace kpu::traces
