#include <fmt/format.h>

#include <numeric>

#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

std::string ratio_text(double value, double estimate) {
    return estimate > 0 ? real_text(value / estimate) : "";
}

}  // namespace

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
        "estimated_energy_pj,energy_over_estimate,profile,bound,bound_cycles,fused_into,precision,"
        "out_of_range\n");
    for (const OpRow& row : rows) {
        const std::string range = row.out_of_range ? fmt::format("{}", *row.out_of_range) : std::string();
        if (!row.timed) {  // what is behind the type, up to fused_into
            constexpr size_t timed_columns = 2 + unit_cause_count + 14;
            output.print("{},{},{}{},{},{}\n", csv_field(row.id), csv_field(row.type),
                         std::string(timed_columns, ','), csv_field(row.fused_into), row.precision, range);
            continue;
        }
        output.print("{},{},{},{}", csv_field(row.id), csv_field(row.type), row.span_cycles,
                     row.charged_cycles);
        for (const Cycles cycles : row.causes) output.print(",{}", cycles);
        output.print(
            ",{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.macs, row.bytes_dram, row.bytes_l2,
            row.bytes_l1, real_text(row.utilization), row.energy_modelled ? real_text(row.energy_pj) : "",
            row.energy_modelled ? real_text(row.power_w) : "", row.estimated_cycles,
            ratio_text(static_cast<double>(row.charged_cycles), static_cast<double>(row.estimated_cycles)),
            real_text(row.estimated_energy_pj), ratio_text(row.energy_pj, row.estimated_energy_pj),
            csv_field(row.profile), row.bound, row.bound_cycles, csv_field(row.fused_into), row.precision,
            range);
    }
}

}  // namespace kpu::traces
