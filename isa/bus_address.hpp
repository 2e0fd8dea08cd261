#pragma once

#include <cstdint>

#include "base/types.hpp"

namespace kpu {

/// Returns the one address map of a device, of bus payloads and of the memory trace: level (0 DDR, 1 L2, 2
/// L1) in bits 56 to 63, engine in bits 40 to 55 (L1 only), byte offset in the level below.
constexpr uint64_t bus_address(Level level, unsigned engine, uint64_t offset) {
    return static_cast<uint64_t>(level) << 56 |
           (level == Level::l1 ? static_cast<uint64_t>(engine) << 40 : 0) | offset;
}
constexpr Level level_of_bus_address(uint64_t address) { return static_cast<Level>(address >> 56 & 0xff); }
constexpr unsigned engine_of_bus_address(uint64_t address) {
    return static_cast<unsigned>(address >> 40 & 0xffff);
}

}  // namespace kpu
