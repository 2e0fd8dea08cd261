#pragma once

#include <cstdint>

#include "base/types.hpp"

namespace kpu {

/// A clock domain. Edge n is at floor(n * 10^12 / hz) picoseconds, computed from n, never by adding periods.
class Clock {
  public:
    explicit Clock(uint64_t hz)
        : hz_(hz), period_(picoseconds_per_second % hz == 0 ? picoseconds_per_second / hz : 0) {}
    uint64_t hz() const { return hz_; }
    Picoseconds edge(Cycles n) const {
        return period_ != 0 ? n * period_
                            : static_cast<Picoseconds>(static_cast<Wide>(n) * picoseconds_per_second / hz_);
    }
    /// Returns the number of edges before t: the first edge at or after t has this number. C(t) of the
    /// accounting rules.
    Cycles edges_before(Picoseconds t) const {
        if (period_ != 0) return (t + period_ - 1) / period_;
        // smallest n with floor(n * 10^12 / hz) >= t  <=>  n >= t * hz / 10^12
        return static_cast<Cycles>((static_cast<Wide>(t) * hz_ + picoseconds_per_second - 1) /
                                   picoseconds_per_second);
    }
    /// Returns the last edge at or before t.
    Cycles last_edge(Picoseconds t) const { return edges_before(t + 1) - 1; }

  private:
    __extension__ typedef unsigned __int128 Wide;
    static constexpr uint64_t picoseconds_per_second = 1'000'000'000'000ull;
    uint64_t hz_;
    uint64_t period_;  ///< 0 when it is not a whole number of picoseconds
};

}  // namespace kpu
