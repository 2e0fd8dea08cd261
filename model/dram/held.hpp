#pragma once

#include <cstdint>

namespace kpu::dram {

/// Cause that holds back a burst which waits neither for its own row nor for a refresh.
enum class Held : uint8_t {
    bus,          ///< it carries other data
    bank,         ///< banks open and close rows, or columns of one bank group follow each other
    turn_around,  ///< the bus changes its direction
    imbalance     ///< few of the channels get most of the requests
};

/// Use of a data bus since bursts last waited for nothing, in clocks.
struct BusUse {
    uint64_t since = 0;
    uint64_t data = 0, turned = 0;

    void begin(uint64_t time) {
        since = time;
        data = turned = 0;
    }
    /// Returns the bus while it moves data for half of the time or more; else the banks or the turn-arounds,
    /// whichever takes longer.
    Held held(uint64_t now) const {
        const uint64_t elapsed = now > since ? now - since : 0;
        if (2 * data >= elapsed) return Held::bus;
        return 2 * turned > elapsed - data ? Held::turn_around : Held::bank;
    }
};

}  // namespace kpu::dram
