#pragma once

#include "isa/types.hpp"
#include "platforms/clock.hpp"

namespace kpu::model {

/// Times of two clock domains in terms of each other: the first edge of the other domain at or after an edge.
class ClockCrossing {
  public:
    ClockCrossing(const Clock& core, const Clock& memory) : core_(core), memory_(memory) {}
    uint64_t to_memory(Cycles core_edge) const { return memory_.edges_before(core_.edge(core_edge)); }
    Cycles to_core(uint64_t memory_edge) const { return core_.edges_before(memory_.edge(memory_edge)); }

  private:
    Clock core_, memory_;
};

}  // namespace kpu::model
