// HotSpot's power trace: names of the floor plan's blocks, then a row of watts for each interval, tabs between them.
#include <fmt/format.h>

#include "traces/floorplan.hpp"
#include "traces/formats.hpp"
#include "traces/power_trace.hpp"

namespace kpu::traces {
namespace {

uint64_t ptrace_size(const RunInfo& info, const RecordCounts& /*counts*/) {
    constexpr uint64_t number = 12;
    return ((info.to() - info.from()) / info.bin_ps() + 1) * info.units.size() * number;
}

/// Intervals are alike to HotSpot, so the last one's energy counts over a whole one: the rows sum to the energy of the chip.
void write_ptrace(const RunInfo& info, const Events& events, const OptionValues& /*options*/,
                  Output& output) {
    require_energy(info.prices);
    const Floorplan plan = floorplan_of(info);
    const PowerTrace trace = power_trace(info, events, info.bin_ps(), {true, false, true});
    for (const Block& block : plan.blocks)
        output.print("{}{}", &block == &plan.blocks.front() ? "" : "\t", info.units[block.unit].name);
    output.print("\n");
    for (size_t bin = 0; bin < trace.count; ++bin) {
        if (trace.start(bin) >= info.to() || trace.start(bin) + trace.width <= info.from()) continue;
        for (const Block& block : plan.blocks) {
            const double watts = pj_of(trace.units[block.unit].of(bin)) / static_cast<double>(trace.width);
            output.print("{}{}", &block == &plan.blocks.front() ? "" : "\t", real_text(watts));
        }
        output.print("\n");
    }
}

}  // namespace

extern const Format ptrace_format;
const Format ptrace_format{
    "ptrace",     "HotSpot", "watts of each block of --flp in each interval of --bin-ns, DRAM chips left out",
    {},           false,     ptrace_size,
    write_ptrace, true};

}  // namespace kpu::traces
