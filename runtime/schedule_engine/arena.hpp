#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace kpu::tile_schedule {

/// The SRAM of a schedule as plain bytes: zero at first, 64-byte aligned. It allocates nothing: the schedule
/// has every address.
class SramArena {
  public:
    /// Throws UserError on 0 bytes and above 4 GiB, which no address reaches.
    explicit SramArena(uint64_t total_bytes);

    /// Throws UserError when the range leaves the arena, with address, bytes and total.
    uint8_t* ptr(uint64_t address, uint64_t bytes = 1);
    const uint8_t* ptr(uint64_t address, uint64_t bytes = 1) const;
    void validate(uint64_t address, uint64_t bytes) const;
    uint64_t total_bytes() const { return total_bytes_; }
    void clear();  ///< to zero

  private:
    struct Free {
        void operator()(uint8_t* bytes) const { std::free(bytes); }
    };
    uint64_t total_bytes_;
    std::unique_ptr<uint8_t, Free> bytes_;
};

}  // namespace kpu::tile_schedule
