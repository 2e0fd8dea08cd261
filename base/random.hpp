#pragma once

#include <cstdint>

namespace kpu {

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine and library.
class SplitMix64 {
  public:
    explicit SplitMix64(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += step;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        return z ^ (z >> 31);
    }

    /// Moves on by so many calls of next().
    void skip(uint64_t numbers) { state_ += numbers * step; }

  private:
    static constexpr uint64_t step = 0x9e3779b97f4a7c15ull;
    uint64_t state_;
};

}  // namespace kpu
