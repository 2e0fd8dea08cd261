#include "runtime/schedule_engine/arena.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/diagnostics.hpp"
#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

SramArena::SramArena(uint64_t total_bytes) : total_bytes_(total_bytes) {
    if (total_bytes == 0 || total_bytes > (uint64_t{1} << 32))
        throw UserError(fmt::format("an arena of {} bytes. Fix: give 1 to 2^32.", total_bytes));
    const uint64_t whole = (total_bytes + address_align - 1) / address_align * address_align;
    bytes_.reset(static_cast<uint8_t*>(std::aligned_alloc(address_align, whole)));
    if (!bytes_) throw UserError(fmt::format("no memory for an arena of {} bytes.", total_bytes));
    clear();
}

uint8_t* SramArena::ptr(uint64_t address, uint64_t bytes) {
    validate(address, bytes);
    return bytes_.get() + address;
}

const uint8_t* SramArena::ptr(uint64_t address, uint64_t bytes) const {
    validate(address, bytes);
    return bytes_.get() + address;
}

void SramArena::validate(uint64_t address, uint64_t bytes) const {
    if (address <= total_bytes_ && bytes <= total_bytes_ - address) return;
    throw UserError(
        fmt::format("address {} and {} bytes leave the arena, which has {} bytes. Fix: stay inside, or "
                    "take a larger arena.",
                    address, bytes, total_bytes_));
}

void SramArena::clear() { std::memset(bytes_.get(), 0, total_bytes_); }

}  // namespace kpu::tile_schedule
