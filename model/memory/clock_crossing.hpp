#pragma once

#include <numeric>

#include "base/clock.hpp"
#include "base/types.hpp"
#include "model/memory/divide.hpp"

namespace kpu::model {

/// Times of two clock domains in terms of each other: the first edge of the other domain at or after an edge.
/// Exactly what Clock says, without its divisions where both periods are whole picoseconds.
class ClockCrossing {
  public:
    ClockCrossing(const Clock& core, const Clock& memory)
        : to_memory_(core, memory),
          to_core_(memory, core),
          ratio_q32_(
              static_cast<uint64_t>(((static_cast<Wide>(core.hz()) << 32) + memory.hz() / 2) / memory.hz())) {
    }
    [[gnu::always_inline]] uint64_t to_memory(Cycles core_edge) const { return to_memory_.cross(core_edge); }
    [[gnu::always_inline]] Cycles to_core(uint64_t memory_edge) const { return to_core_.cross(memory_edge); }
    /// Returns about how long a time of the memory's clock is in core cycles.
    Cycles duration_in_core(uint64_t memory_cycles) const {
        if (memory_cycles == 0) return 0;
        return static_cast<Cycles>((static_cast<Wide>(memory_cycles) * ratio_q32_ + half_q32) >> 32);
    }

    /// Returns core cycles that `memory_cycles` take at least, whatever edges they begin and end at; 1 or
    /// more.
    Cycles at_least(uint64_t memory_cycles) const {
        const auto whole = static_cast<Cycles>((static_cast<Wide>(memory_cycles) * ratio_q32_) >> 32);
        return whole > 2 ? whole - 2 : 1;
    }

  private:
    __extension__ typedef unsigned __int128 Wide;
    /// Conversion from one domain to the other.
    class Way {
      public:
        Way(const Clock& from, const Clock& to) : from_(from), to_(to) {
            if (per_second % from.hz() != 0 || per_second % to.hz() != 0) return;
            const uint64_t common = std::gcd(from.hz(), to.hz());
            multiplier_ = to.hz() / common;
            divisor_ = Divisor(from.hz() / common);
        }
        [[gnu::always_inline]] uint64_t cross(uint64_t edge) const {
            return multiplier_ != 0 ? divisor_.ceil(edge * multiplier_) : to_.edges_before(from_.edge(edge));
        }

      private:
        Clock from_, to_;
        uint64_t multiplier_ = 0;  ///< edges of `to` in divisor_ edges of `from`; 0: their times are rounded
        Divisor divisor_;
    };
    static constexpr uint64_t per_second = 1'000'000'000'000;

    Way to_memory_, to_core_;
    static constexpr uint64_t half_q32 = uint64_t{1} << 31;
    uint64_t ratio_q32_;  ///< core cycles in a cycle of the memory, to the nearest 2^-32
};

}  // namespace kpu::model
