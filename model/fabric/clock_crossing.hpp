#pragma once

#include "isa/clock.hpp"
#include "isa/types.hpp"

namespace kpu::model {

/// Times of two clock domains in terms of each other: the first edge of the other domain at or after an edge.
/// Exactly what Clock says, without its divisions where both periods are whole picoseconds.
class ClockCrossing {
  public:
    ClockCrossing(const Clock& core, const Clock& memory) : core_(core), memory_(memory) {}
    uint64_t to_memory(Cycles core_edge) const { return cross(core_, memory_, core_edge); }
    Cycles to_core(uint64_t memory_edge) const { return cross(memory_, core_, memory_edge); }
    /// About how long a time of the memory's clock is in core cycles.
    Cycles duration_in_core(uint64_t memory_cycles) const {
        if (memory_cycles == 0) return 0;
        return static_cast<Cycles>((static_cast<Wide>(memory_cycles) * ratio_q32_ + half_q32) >> 32);
    }

    /// Core cycles that `memory_cycles` take at least, whatever edges they begin and end at; 1 or more.
    Cycles at_least(uint64_t memory_cycles) const {
        const auto whole = static_cast<Cycles>((static_cast<Wide>(memory_cycles) * ratio_q32_) >> 32);
        return whole > 2 ? whole - 2 : 1;
    }

  private:
    __extension__ typedef unsigned __int128 Wide;
    struct Domain {
        explicit Domain(const Clock& c)
            : clock(c), period(per_second % c.hz() == 0 ? per_second / c.hz() : 0) {
            if (period > 1) reciprocal = ~uint64_t{0} / period;
        }
        Clock clock;
        uint64_t period;          ///< picoseconds, 0: not whole
        uint64_t reciprocal = 0;  ///< floor((2^64 - 1) / period)
    };
    static constexpr uint64_t per_second = 1'000'000'000'000;

    static uint64_t cross(const Domain& from, const Domain& to, uint64_t edge) {
        if (from.period == 0 || to.reciprocal == 0) return to.clock.edges_before(from.clock.edge(edge));
        const uint64_t time = edge * from.period + to.period - 1;
        // the estimate is never too large, and too small by two at most
        auto quotient = static_cast<uint64_t>((static_cast<Wide>(time) * to.reciprocal) >> 64);
        while (time - quotient * to.period >= to.period) ++quotient;
        return quotient;
    }

    Domain core_, memory_;
    static constexpr uint64_t half_q32 = uint64_t{1} << 31;
    /// core cycles in a cycle of the memory, to the nearest 2^-32
    uint64_t ratio_q32_ = static_cast<uint64_t>(
        ((static_cast<Wide>(core_.clock.hz()) << 32) + memory_.clock.hz() / 2) / memory_.clock.hz());
};

}  // namespace kpu::model
