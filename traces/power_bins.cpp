#include "traces/power_bins.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/diagnostics.hpp"

namespace kpu::traces {

std::string_view name_of(Component component) {
    constexpr std::array<std::string_view, component_count> names{"array", "vector", "l1",   "l2", "noc",
                                                                  "dma",   "ctrl",   "dram", "phy"};
    return names.at(static_cast<size_t>(component));
}

Picoseconds ps_of_ns(double ns) { return static_cast<Picoseconds>(std::max(1.0, std::round(ns * 1000))); }

PowerBins::PowerBins(Picoseconds width_ps, size_t max_bins) : width_(width_ps), max_bins_(max_bins) {
    if (width_ps == 0 || max_bins < 2) throw InternalError("power bins need a width and room for two");
}

PowerBins::Row& PowerBins::at(Picoseconds time) {
    while (time / width_ >= max_bins_) {
        const size_t half = (rows_.size() + 1) / 2;
        for (size_t i = 0; i < half; ++i) {
            Row merged = rows_[2 * i];
            if (2 * i + 1 < rows_.size()) {
                for (size_t c = 0; c < columns; ++c) merged[c] += rows_[2 * i + 1][c];
            }
            rows_[i] = merged;
        }
        rows_.resize(half);
        width_ *= 2;
        to_ = from_;
    }
    const size_t bin = time / width_;
    if (bin >= rows_.size()) rows_.resize(bin + 1, Row{});
    return rows_[bin];
}

void PowerBins::spread_over(Picoseconds from, Picoseconds to) {
    at(to - 1);  // settles the width
    spread_ = Spread(width_, from, to);
    from_ = from;
    to_ = to;
}

void PowerBins::finish(Picoseconds end) {
    end_ = end;
    to_ = from_;
    if (end == 0) {
        rows_.clear();
        return;
    }
    at(end - 1);
    const size_t last = (end - 1) / width_;
    for (size_t bin = last + 1; bin < rows_.size(); ++bin) {
        for (size_t c = 0; c < columns; ++c) rows_[last][c] += rows_[bin][c];
    }
    rows_.resize(last + 1);
}

Picoseconds PowerBins::real_width(size_t bin) const { return std::min(width_, end_ - bin * width_); }

double PowerBins::total(size_t bin) const {
    return std::accumulate(rows_[bin].begin(), rows_[bin].end(), 0.0);
}

double PowerBins::watts(size_t bin, double pj) const {
    return pj / static_cast<double>(real_width(bin));  // 1 pJ / 1 ps = 1 W
}

}  // namespace kpu::traces
