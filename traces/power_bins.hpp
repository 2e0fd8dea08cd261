#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "traces/event.hpp"

namespace kpu::traces {

/// Components of the energy accounts. The static share of each comes from its states, not from actions.
enum class Component : uint8_t { array, vector, l1, l2, noc, dma, ctrl, dram, phy };
constexpr int component_count = 9;
std::string_view name_of(Component component);

/// Returns a width of bins, at least one picosecond.
Picoseconds ps_of_ns(double ns);

/// Spread of [from, to) over bins of a width; the shares of its time sum to 1. An interval without length
/// lies in the bin of `from`.
struct Spread {
    Spread(Picoseconds width, Picoseconds from, Picoseconds to)
        : first(from / width), last(to > from ? (to - 1) / width : first) {
        if (first == last) return;
        const double length = static_cast<double>(to - from);
        of_first = static_cast<double>((first + 1) * width - from) / length;
        of_middle = static_cast<double>(width) / length;
        of_last = static_cast<double>(to - last * width) / length;
    }
    /// Calls visit(bin, share) for every bin.
    template <typename Visit>
    void for_each(Visit visit) const {
        visit(first, of_first);
        if (first == last) return;
        for (size_t bin = first + 1; bin < last; ++bin) visit(bin, of_middle);
        visit(last, of_last);
    }
    size_t first, last;
    double of_first = 1, of_middle = 0, of_last = 0;
};

/// Energy over time: one row per bin, one column per source of energy. Bins are [i w, (i+1) w); the last one
/// ends with the run, so its real width may be smaller.
class PowerBins {
  public:
    /// Columns: actions of each Component, then these.
    static constexpr size_t dram_background = component_count, phy_static = component_count + 1,
                            statics = component_count + 2, columns = component_count + 3;
    using Row = std::array<double, columns>;

    /// Above max_bins the width doubles, pairs of bins become one: memory stays bounded on runs of any
    /// length.
    PowerBins(Picoseconds width_ps, size_t max_bins);
    /// Spreads `pj` evenly over [from, to); from == to books it at `from`.
    void add(size_t column, double pj, Picoseconds from, Picoseconds to) {
        if (to <= from) {
            at(from)[column] += pj;
            return;
        }
        if (from != from_ || to != to_) spread_over(from, to);
        spread_.for_each([&](size_t bin, double share) { rows_[bin][column] += pj * share; });
    }
    /// Ends the run: every bin up to `end` exists, what was booked later is moved into the last one. Without
    /// time (end == 0) there are no bins.
    void finish(Picoseconds end);

    size_t count() const { return rows_.size(); }
    Picoseconds width() const { return width_; }
    Picoseconds start(size_t bin) const { return bin * width_; }
    Picoseconds real_width(size_t bin) const;                ///< after finish
    const Row& row(size_t bin) const { return rows_[bin]; }  ///< pJ
    double total(size_t bin) const;                          ///< pJ
    double watts(size_t bin, double pj) const;               ///< pJ of that bin as power

  private:
    Row& at(Picoseconds time);
    void spread_over(Picoseconds from, Picoseconds to);
    Picoseconds width_;
    size_t max_bins_;
    Picoseconds end_ = 0;
    std::vector<Row> rows_;
    /// Spread of the interval [from_, to_) added last: the actions of a stream have one interval. None: it is
    /// empty.
    Spread spread_{1, 0, 0};
    Picoseconds from_ = 0, to_ = 0;
};

}  // namespace kpu::traces
