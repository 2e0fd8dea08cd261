#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/platform.pb.h"
#include "traces/event.hpp"
#include "traces/power_bins.hpp"

namespace kpu::platforms {

/// Silicon of a unit, or why there is no figure for it. area.md says what is in it.
struct Area {
    double mm2 = 0, low = 0, high = 0;
    std::string_view source;  ///< source of the figures: lives as long as the program
    /// Note on this unit: what it consists of, what is doubtful; empty: nothing to say.
    std::string note;
    std::string not_modelled;  ///< empty, or why the three are 0
};

struct AreaRow {
    std::string unit;  ///< e0_nmu0, l2, ddr0; the device as a whole has none
    traces::Component component;
    Area area;
};

struct AreaReport {
    std::vector<AreaRow> rows;
    double mm2 = 0, low = 0, high = 0;  ///< sums of the rows that have a figure
};

/// Parts of a chip that the report leaves out, for whoever prints it.
constexpr std::string_view area_left_out =
    "host interface, pads, decompressors, clock and power nets, test, gaps";

/// Returns the area of each unit at a node.
AreaReport area_of(const proto::Platform& platform, const std::vector<traces::UnitInfo>& units,
                   uint32_t node_nm);

/// Tells each unit its area; 0 where there is no figure.
void set_areas(const proto::Platform& platform, uint32_t node_nm, std::vector<traces::UnitInfo>& units);

/// Banks and the crossbar from ports to banks, at a node.
Area sram_area(const proto::Sram& sram, uint32_t node_nm);

/// The node of the figures.
constexpr double area_node_nm = 16;
/// Returns a figure of area_figures.csv, by its name: mm2 at 16 nm. Throws InternalError for one without.
double figure_mm2(std::string_view name);
/// Returns the figure for the cells of an array: that of the dearest of its types.
std::string_view cell_figure(const proto::SystolicArray& array);

}  // namespace kpu::platforms
