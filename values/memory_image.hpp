#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/footprint.hpp"

namespace kpu::values {

/// The bytes of one memory level (DDR, L2, or one engine's L1), zero at the start, with a map of which bytes
/// were ever written. Pages appear when first written, so a 4 GiB DDR costs what the program touches.
/// (Interface: the implementation owns its representation.)
class MemoryLevel {
  public:
    explicit MemoryLevel(uint64_t size_bytes);
    MemoryLevel(MemoryLevel&&) noexcept;
    MemoryLevel& operator=(MemoryLevel&&) noexcept;
    ~MemoryLevel();

    uint64_t size() const { return size_; }
    /// Contiguous storage of [0, size): a private anonymous mapping, so untouched pages cost nothing.
    const uint8_t* data() const { return data_; }
    uint8_t* data() { return data_; }

    void write(uint64_t address, const void* bytes, uint64_t count);  ///< also marks the bytes written
    void mark_written(uint64_t address, uint64_t count);
    bool all_written(uint64_t address, uint64_t count) const;
    /// Returns the first byte of [address, address + count) that nobody wrote, or address + count.
    uint64_t first_unwritten(uint64_t address, uint64_t count) const;
    void reset();  ///< back to zero and unwritten; returns memory to the system

  private:
    void check_range(uint64_t address, uint64_t count) const;
    bool is_full(uint64_t block) const { return (full_[block / 64] >> (block % 64) & 1) != 0; }
    void release() noexcept;

    uint64_t size_ = 0;
    uint8_t* data_ = nullptr;
    /// Bits of written bytes: one per byte, and one per block of 4096 that was written whole, whose bits then
    /// do not count: weights of gigabytes cost little. Private anonymous mappings too: untouched pages cost
    /// nothing.
    uint64_t *written_ = nullptr, *full_ = nullptr;
};

/// The levels of a device as something that reads and writes them reaches them: a host, or a unit through its
/// memory socket. Owns nothing.
class MemoryMap {
  public:
    /// Throws InternalError for an engine, or a level, that is not there.
    MemoryLevel& level(Level level, unsigned engine);
    const MemoryLevel& level(Level level, unsigned engine) const;
    void set(Level level, unsigned engine, MemoryLevel* storage);

  private:
    MemoryLevel *ddr_ = nullptr, *l2_ = nullptr;
    std::vector<MemoryLevel*> l1_;
};

/// Memory of all levels of a device, with their bytes.
class MemoryImage : public MemoryMap {
  public:
    MemoryImage(uint64_t ddr_bytes, uint64_t l2_bytes, const std::vector<uint64_t>& l1_bytes);
    MemoryImage(MemoryImage&& other) noexcept;
    MemoryImage& operator=(MemoryImage&&) = delete;
    void reset();

  private:
    void map_levels();

    MemoryLevel ddr_, l2_;
    std::vector<MemoryLevel> l1_;
};

/// A region instance: a BoundRegion at one address. The unit of reading and writing values.
struct RegionView {
    const BoundRegion* region = nullptr;
    uint64_t address = 0;  ///< bytes, in its level
};

using kpu::Footprint;
using kpu::overlap;
inline Footprint footprint_of(const RegionView& view) {
    return kpu::footprint_of(*view.region, view.address);
}

}  // namespace kpu::values
