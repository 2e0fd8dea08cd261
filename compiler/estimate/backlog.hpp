#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace kpu::estimate {

/// A memory that many read and write at rates of their own. What they ask for beyond what it gives waits, and whoever comes
/// later waits for that.
class Backlog {
  public:
    /// Adds work of so many cycles of the whole memory from `now` on, evenly over `duration` cycles or as
    /// fast as it can; `now` does not go back. Returns the cycles that it finds waiting.
    double add(double now, double work, double duration) {
        advance(now);
        duration = std::max(duration, work);
        const double rate = work / duration;
        rates_.emplace(now + duration, rate);
        rate_ += rate;
        return waiting_;
    }

  private:
    void advance(double now) {
        while (!rates_.empty() && rates_.top().first <= now) {
            const auto [end, rate] = rates_.top();
            pass(end);
            rate_ -= rate;
            rates_.pop();
        }
        if (rates_.empty()) rate_ = 0;  // what rounding left
        pass(now);
    }
    void pass(double to) {
        waiting_ = std::max(0.0, waiting_ + (rate_ - 1) * (to - at_));
        at_ = to;
    }

    using End = std::pair<double, double>;  ///< time; rate, in cycles of the memory a cycle
    std::priority_queue<End, std::vector<End>, std::greater<>> rates_;
    double at_ = 0, rate_ = 0, waiting_ = 0;
};

}  // namespace kpu::estimate
