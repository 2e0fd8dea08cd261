#pragma once

#include <cstdint>

namespace kpu::model {

/// Division by a number fixed at construction: a shift when it is a power of two. The number must not be 0.
class Divisor {
  public:
    explicit Divisor(uint64_t value = 1)
        : value_(value), shift_((value & (value - 1)) == 0 ? __builtin_ctzll(value) : -1) {}
    uint64_t value() const { return value_; }
    uint64_t quotient(uint64_t x) const { return shift_ >= 0 ? x >> shift_ : x / value_; }
    uint64_t remainder(uint64_t x) const { return shift_ >= 0 ? x & (value_ - 1) : x % value_; }
    uint64_t ceil(uint64_t x) const { return quotient(x + value_ - 1); }

  private:
    uint64_t value_;
    int shift_;  ///< -1: no power of two
};

}  // namespace kpu::model
