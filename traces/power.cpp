#include <fmt/format.h>

#include <algorithm>

#include "traces/formats.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

namespace {

/// Picoseconds as nanoseconds, exactly.
std::string ns_text(Picoseconds ps) {
    return ps % 1000 == 0 ? fmt::format("{}", ps / 1000) : fmt::format("{}.{:03}", ps / 1000, ps % 1000);
}

}  // namespace

void write_power_csv(const RunInfo& info, const Events& events, Output& output) {
    require_energy(info.prices);
    const PowerTrace trace = power_trace(info, events, info.bin_ps());
    const PowerBins& bins = trace.bins;
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

namespace {

uint64_t power_size(const RunInfo& info, const RecordCounts& /*counts*/) {
    constexpr uint64_t row = 190, most_bins = 1'000'000;
    return std::min((info.to() - info.from()) / info.bin_ps() + 1, most_bins) * row;
}

}  // namespace

extern const Format power_format;
const Format power_format{"power",
                          "CSV",
                          "watts per component over time",
                          {},
                          false,
                          power_size,
                          [](const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                             Output& output) { write_power_csv(info, events, output); },
                          true};

}  // namespace kpu::traces
