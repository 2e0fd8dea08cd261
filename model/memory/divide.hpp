#pragma once

#include <cstdint>

namespace kpu::model {

/// Division by a number fixed at construction: a shift when it is a power of two, else a multiplication. The
/// number must not be 0.
class Divisor {
  public:
    explicit Divisor(uint64_t value = 1)
        : value_(value),
          shift_((value & (value - 1)) == 0 ? __builtin_ctzll(value) : -1),
          reciprocal_(shift_ >= 0 ? 0 : ~uint64_t{0} / value) {}
    uint64_t value() const { return value_; }
    uint64_t quotient(uint64_t x) const { return shift_ >= 0 ? x >> shift_ : multiply(x); }
    uint64_t remainder(uint64_t x) const { return shift_ >= 0 ? x & (value_ - 1) : x - multiply(x) * value_; }
    uint64_t ceil(uint64_t x) const { return quotient(x + value_ - 1); }

  private:
    __extension__ typedef unsigned __int128 Wide;
    uint64_t multiply(uint64_t x) const {
        // the estimate is never too large, and too small by one at most
        const auto estimate = static_cast<uint64_t>((static_cast<Wide>(x) * reciprocal_) >> 64);
        return x - estimate * value_ >= value_ ? estimate + 1 : estimate;
    }

    uint64_t value_;
    int shift_;            ///< -1: no power of two
    uint64_t reciprocal_;  ///< floor((2^64 - 1) / value), of no power of two
};

}  // namespace kpu::model
