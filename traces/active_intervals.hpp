#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace kpu::traces {

/// Union of half-open intervals of cycles that come in any order. Gaps of up to `hysteresis` cycles do not
/// count.
class ActiveIntervals {
  public:
    using Interval = std::pair<Cycles, Cycles>;
    explicit ActiveIntervals(Cycles hysteresis) : hysteresis_(hysteresis) {}
    void add(Cycles from, Cycles to) {
        if (to <= from) return;
        if (intervals_.size() > merged_) {  // most activity continues where it was
            Interval& last = intervals_.back();
            if (from <= last.second + hysteresis_ && last.first <= to + hysteresis_) {
                last.first = std::min(last.first, from);
                last.second = std::max(last.second, to);
                return;
            }
        }
        append({from, to});
    }
    /// Returns disjoint intervals, ascending; each one lengthened by the hysteresis and cut off at `end`.
    std::vector<Interval> on_until(Cycles end);

  private:
    void append(Interval interval);
    void merge();
    Cycles hysteresis_;
    std::vector<Interval> intervals_;
    size_t merged_ = 0;  ///< the first ones are disjoint, ascending and far apart
};

}  // namespace kpu::traces
