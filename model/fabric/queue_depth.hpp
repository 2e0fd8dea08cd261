#pragma once

#include <algorithm>
#include <deque>

#include "isa/types.hpp"

namespace kpu::model {

/// The largest number of requests that waited for a resource at one time.
class QueueDepth {
  public:
    /// A request arrives (in order of arrival) and waits until `start`.
    void waits(Cycles arrival, Cycles start) {
        while (!starts_.empty() && starts_.front() <= arrival) starts_.pop_front();
        starts_.insert(std::upper_bound(starts_.begin(), starts_.end(), start), start);
        peak_ = std::max(peak_, starts_.size());
    }
    uint64_t peak() const { return peak_; }

  private:
    std::deque<Cycles> starts_;  ///< of the waiting requests, ascending
    size_t peak_ = 0;
};

}  // namespace kpu::model
