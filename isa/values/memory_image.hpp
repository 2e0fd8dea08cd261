#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/bound_program.hpp"

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
    /// First byte of [address, address + count) that nobody wrote, or address + count.
    uint64_t first_unwritten(uint64_t address, uint64_t count) const;
    void reset();  ///< back to zero and unwritten; returns memory to the system

  private:
    void check_range(uint64_t address, uint64_t count) const;
    void release() noexcept;

    uint64_t size_ = 0;
    uint8_t* data_ = nullptr;
    uint64_t* written_ =
        nullptr;  ///< one bit per byte, a private anonymous mapping too: untouched pages cost nothing
};

/// All levels of a device.
class MemoryImage {
  public:
    MemoryImage(uint64_t ddr_bytes, uint64_t l2_bytes, const std::vector<uint64_t>& l1_bytes);
    MemoryLevel& level(Level level, unsigned engine);
    const MemoryLevel& level(Level level, unsigned engine) const;
    void reset();

  private:
    MemoryLevel ddr_, l2_;
    std::vector<MemoryLevel> l1_;
};

/// A region instance: a BoundRegion at one address. The unit of reading and writing values.
struct RegionView {
    const BoundRegion* region = nullptr;
    uint64_t address = 0;  ///< bytes, in its level
};

/// Maximal contiguous byte runs of a region's elements in ascending address order, as a strided pattern:
/// run_bytes contiguous bytes, repeated count[d] times at stride_bytes[d]. Dimension 0 is the innermost
/// (smallest stride), strides are positive, counts at least 2; dimensions that continue a run or each other
/// are merged, so a dense region has dims == 0. i4 runs are rounded out to whole bytes; i4 dimensions of odd
/// stride (in elements) are covered together with their gaps. Untyped regions are one run of their extent.
struct Footprint {
    uint64_t address = 0;
    uint64_t run_bytes = 0;
    int dims = 0;
    int64_t count[max_rank] = {};
    int64_t stride_bytes[max_rank] = {};
    uint64_t total_bytes() const;  ///< run_bytes * product(count)
    uint64_t end() const;          ///< one past the last byte touched
};
Footprint footprint_of(const RegionView& view);
/// True when the two touch a common byte (exact, gaps do not count). Patterns of many unrelated strides, for
/// which the exact answer would take millions of steps, are answered true.
bool overlap(const Footprint& a, const Footprint& b);

}  // namespace kpu::values
