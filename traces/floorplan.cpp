#include "traces/floorplan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/diagnostics.hpp"

namespace kpu::traces {
namespace {

double sum_of(const std::vector<double>& areas) { return std::accumulate(areas.begin(), areas.end(), 0.0); }

/// Returns the largest ratio of sides in a strip of these areas along a side.
double worst_ratio(const std::vector<double>& areas, double side) {
    const double depth = sum_of(areas) / side;
    double worst = 1;
    for (const double area : areas) {
        const double along = area / depth;
        worst = std::max({worst, along / depth, depth / along});
    }
    return worst;
}

/// Cuts a rectangle into rectangles of these areas, which sum to its own: strips along the shorter side, each with as many areas
/// as make it better.
std::vector<Rectangle> squarified(std::vector<double> areas, Rectangle room) {
    std::vector<size_t> order(areas.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return areas[a] > areas[b]; });
    std::vector<Rectangle> places(areas.size());
    for (size_t next = 0; next < order.size();) {
        const bool upright = room.width >= room.height;  // the strip stands at the left, else it lies below
        const double side = upright ? room.height : room.width;
        std::vector<double> strip{areas[order[next]]};
        size_t end = next + 1;
        for (; end < order.size(); ++end) {
            std::vector<double> longer = strip;
            longer.push_back(areas[order[end]]);
            if (worst_ratio(longer, side) > worst_ratio(strip, side)) break;
            strip = std::move(longer);
        }
        const double depth = sum_of(strip) / side;
        double at = 0;
        for (size_t i = next; i < end; ++i) {
            const double along = areas[order[i]] / depth;
            places[order[i]] = upright ? Rectangle{room.x, room.y + at, depth, along}
                                       : Rectangle{room.x + at, room.y, along, depth};
            at += along;
        }
        (upright ? room.x : room.y) += depth;
        (upright ? room.width : room.height) -= depth;
        next = end;
    }
    return places;
}

}  // namespace

Floorplan floorplan_of(const RunInfo& info) {
    Floorplan plan;
    std::map<int, std::vector<size_t>> groups;  // units by engine; -1: of none
    for (size_t u = 0; u < info.units.size(); ++u) {
        const UnitInfo& unit = info.units[u];
        if (unit.kind == UnitKind::device) continue;
        if (unit.area_mm2 > 0)
            groups[unit.engine].push_back(u);
        else
            plan.left_out.push_back(unit.name);
    }
    if (groups.empty())
        throw UserError(
            "a floor plan needs the area of a unit, and none is known for this device. Fix: see "
            "area.not_modelled "
            "in stats.json for the reason.");
    std::vector<double> areas;
    std::vector<std::vector<double>> units;
    for (const auto& [engine, members] : groups) {
        std::vector<double>& own = units.emplace_back();
        for (const size_t u : members) own.push_back(info.units[u].area_mm2);
        areas.push_back(sum_of(own));
    }
    plan.side_mm = std::sqrt(sum_of(areas));
    const std::vector<Rectangle> rooms = squarified(areas, {0, 0, plan.side_mm, plan.side_mm});
    size_t group = 0;
    for (const auto& [engine, members] : groups) {
        const std::vector<Rectangle> places = squarified(units[group], rooms[group]);
        for (size_t i = 0; i < members.size(); ++i)
            if (info.view.shows(info.units[members[i]].name)) plan.blocks.push_back({members[i], places[i]});
        ++group;
    }
    std::sort(plan.blocks.begin(), plan.blocks.end(),
              [](const Block& a, const Block& b) { return a.unit < b.unit; });
    return plan;
}

}  // namespace kpu::traces
