#include "traces/active_intervals.hpp"

#include <algorithm>

namespace kpu::traces {

void ActiveIntervals::append(Interval interval) {
    intervals_.push_back(interval);
    constexpr size_t patience = 4096;
    if (intervals_.size() - merged_ > std::max(patience, merged_)) merge();
}

void ActiveIntervals::merge() {
    const auto added = intervals_.begin() + static_cast<std::ptrdiff_t>(merged_);
    std::sort(added, intervals_.end());
    std::inplace_merge(intervals_.begin(), added, intervals_.end());
    size_t kept = 0;
    for (const Interval& interval : intervals_) {
        if (kept > 0 && interval.first <= intervals_[kept - 1].second + hysteresis_) {
            intervals_[kept - 1].second = std::max(intervals_[kept - 1].second, interval.second);
        } else {
            intervals_[kept++] = interval;
        }
    }
    intervals_.resize(kept);
    merged_ = kept;
}

std::vector<ActiveIntervals::Interval> ActiveIntervals::on_until(Cycles end) {
    merge();
    std::vector<Interval> on;
    for (const Interval& interval : intervals_) {
        if (interval.first >= end) break;
        on.emplace_back(interval.first, std::min(end, interval.second + hysteresis_));
    }
    return on;
}

}  // namespace kpu::traces
