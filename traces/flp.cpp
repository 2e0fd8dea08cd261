// HotSpot's floor plan: name, width, height, left x, bottom y, in metres, tabs between them.
#include "traces/floorplan.hpp"
#include "traces/formats.hpp"

namespace kpu::traces {
namespace {

uint64_t flp_size(const RunInfo& info, const RecordCounts& /*counts*/) {
    constexpr uint64_t row = 90;
    return info.units.size() * row;
}

void write_flp(const RunInfo& info, const Events& /*events*/, const OptionValues& /*options*/,
               Output& output) {
    constexpr double metre = 1e-3;  // of a millimetre
    const Floorplan plan = floorplan_of(info);
    output.print("# {} on {}: {} blocks on {:.6g} mm2; areas are the model's, places are not a real chip's\n",
                 info.program, info.platform, plan.blocks.size(), plan.side_mm * plan.side_mm);
    for (const std::string& unit : plan.left_out)
        output.print("# left out, its area is not known: {}\n", unit);
    for (const Block& block : plan.blocks) {
        const Rectangle& at = block.place;
        output.print("{}\t{:.9e}\t{:.9e}\t{:.9e}\t{:.9e}\n", info.units[block.unit].name, at.width * metre,
                     at.height * metre, at.x * metre, at.y * metre);
    }
}

}  // namespace

extern const Format flp_format;
const Format flp_format{
    "flp",
    "HotSpot",
    "floor plan: a rectangle for each unit, of the size in the area model",
    {},
    false,
    flp_size,
    write_flp,
    false,
    false,
    [](const TraceView& view, const OptionValues& /*options*/) -> std::string {
        return view.causes.empty() && view.ops.empty()
                   ? ""
                   : "it has places of units. Fix: leave out --trace-cause and --trace-op.";
    }};

}  // namespace kpu::traces
