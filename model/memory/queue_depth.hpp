#pragma once

#include <algorithm>
#include <vector>

#include "base/types.hpp"

namespace kpu::model {

/// The largest number of requests that waited for a resource at one time.
class QueueDepth {
  public:
    /// Notes that a request arrives (in order of arrival) and waits until `start`.
    void waits(Cycles arrival, Cycles start) {
        if (end_ - first_ >= peak_) make_room(arrival);
        if (start >= latest_)
            at(end_) = latest_ = start;
        else
            insert(start);
        ++end_;
    }
    uint64_t peak() const { return peak_; }

  private:
    /// Makes room. Starts up to now are only looked for when the peak would grow with them.
    void make_room(Cycles now) {
        uint64_t first = first_;
        while (first != end_ && at(first) <= now) ++first;
        first_ = first;
        if (end_ - first < peak_) return;
        peak_ = end_ - first_ + 1;
        if (peak_ > starts_.size()) grow();
    }
    void insert(Cycles start) {
        uint64_t place = end_;
        for (; place != first_ && at(place - 1) > start; --place) at(place) = at(place - 1);
        at(place) = start;
    }
    Cycles& at(uint64_t index) { return starts_[index & (starts_.size() - 1)]; }
    void grow() {
        std::vector<Cycles> larger(starts_.size() * 2);
        for (uint64_t i = first_; i != end_; ++i) larger[i & (larger.size() - 1)] = at(i);
        starts_.swap(larger);
    }

    std::vector<Cycles> starts_ =
        std::vector<Cycles>(16);  ///< ring, a power of two; ascending from first_ to end_
    uint64_t first_ = 0, end_ = 0;
    Cycles latest_ = 0;  ///< latest of all starts
    uint64_t peak_ = 0;
};

}  // namespace kpu::model
