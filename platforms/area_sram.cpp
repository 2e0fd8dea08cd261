#include "platforms/area_sram.hpp"

#include <algorithm>
#include <cmath>

#include "platforms/csv.hpp"

namespace kpu::platforms {
namespace {

/// Returns the last of ascending values that is at most x; the first if none is.
size_t place(const std::vector<double>& values, double x) {
    const auto above = std::upper_bound(values.begin(), values.end(), x);
    return above == values.begin() ? 0 : static_cast<size_t>(above - values.begin()) - 1;
}

SramTable::Points read_points() {
    SramTable::Points points;
    for (const auto& row : shipped_rows("area_sram.csv", 4)) {
        const double size = number_of(row[0]), width = number_of(row[1]);
        if (points.width_bytes.empty() || points.width_bytes.back() != width) {
            points.width_bytes.push_back(width);
            points.mm2.emplace_back();
        }
        if (points.width_bytes.size() == 1) points.size_bytes.push_back(size);
        points.mm2.back().push_back(number_of(row[3]));
    }
    return points;
}

}  // namespace

double log_between(double x0, double a, double x1, double b, double x) {
    return a * std::pow(b / a, std::log(x / x0) / std::log(x1 / x0));
}

const SramTable& SramTable::shipped() {
    static const SramTable table(read_points());
    return table;
}

double SramTable::along_sizes(const std::vector<double>& mm2, double size_bytes) const {
    const std::vector<double>& sizes = points_.size_bytes;
    const size_t at = place(sizes, size_bytes);
    if (size_bytes <= sizes[at]) return mm2[at];
    if (at + 1 == sizes.size()) return mm2[at] * (size_bytes / sizes[at]);
    return log_between(sizes[at], mm2[at], sizes[at + 1], mm2[at + 1], size_bytes);
}

double SramTable::macro_mm2(double size_bytes, double width_bytes) const {
    const std::vector<double>& widths = points_.width_bytes;
    const double abreast = std::max(1.0, width_bytes / widths.back());
    const double size = size_bytes / abreast, width = width_bytes / abreast;
    const size_t at = place(widths, width);
    const double narrow = along_sizes(points_.mm2[at], size);
    if (width <= widths[at] || at + 1 == widths.size()) return abreast * narrow;
    return abreast *
           log_between(widths[at], narrow, widths[at + 1], along_sizes(points_.mm2[at + 1], size), width);
}

}  // namespace kpu::platforms
