#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/kernels/operations.hpp"
#include "isa/device_limits.hpp"
#include "isa/opcodes.hpp"
#include "model/timing/memory.hpp"
#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"

namespace kpu::compiler {

/// Runs of memory that a tile consists of. On the other side of its transfer it stands packed, if they are not alike.
struct Runs {
    double count = 1, bytes = 0;  ///< number of runs, bytes of one of them
    int64_t stride = 0;           ///< bytes from one to the next
    int64_t apart = 0;            ///< divisor of the first one's beginning, from tile to tile; 0: anything
    bool alike = false;           ///< on the other side of its transfer runs begin as far from a burst's end
    double all() const { return count * bytes; }
    /// Returns what runs begin at multiples of; 0: at whole bursts.
    int64_t here() const { return count > 1 ? std::gcd(stride, apart) : apart; }
    /// Returns the same on the other side, where they are packed.
    int64_t there() const { return count > 1 ? static_cast<int64_t>(bytes) : 0; }
};

/// Units that move data: bytes in rows, each cut into bursts.
struct Mover {
    double port = 1;        ///< bytes per cycle of one unit
    timing::LinkTime link;  ///< that they share
    double burst = 1;       ///< bytes
    double row_cycles = 0, descriptor_cycles = 0;
    double units = 1;

    /// Returns the cycles of a unit, and of the link, for a transfer.
    double unit_cycles(const Runs& runs) const;
    double link_cycles(const Runs& runs) const;

  private:
    double burst_cycles(const Runs& runs, double width) const;
};

/// Alignment of everything that moves between L1, L2 and DDR, bytes: transfers are cut where either side has
/// a multiple of its burst, so both sides begin alike.
constexpr uint64_t tile_align = 512;
constexpr int64_t dram_burst_bytes = 64;

/// Bytes from which on constants are loaded one after the other, perhaps in pieces.
constexpr uint64_t large_constant = 64 << 10;

/// Bytes of each element of a product; of the sums that it begins with, 0 where there are none.
struct ProductBytes {
    double a = 1, b = 1, result = 1, sums = 0;
};

/// Properties of a device that lowering needs.
struct Target {
    explicit Target(const platforms::Platform& platform);

    DeviceLimits limits;
    platforms::Platform platform;
    std::vector<proto::Engine> engines;
    uint64_t l1_bytes = 0;  ///< L1 of the smallest engine
    uint64_t staging_bytes =
        /// Bytes of L2 for what is on its way between DDR and the L1 of an engine: at most as large as that.
        0;
    uint64_t l2_bytes = 0, ddr_bytes = 0;
    Mover dma, store, system;        ///< movers of an engine, L2 to L1 and back; of all, DDR to L2 and back
    double ddr_bytes_per_cycle = 0;  ///< bytes of a core cycle, at DRAM's pins, refreshes taken off
    double ddr_row_cycles = 0;       ///< lost where a tile's rows lie in pages of their own
    double ddr_page_bytes = 1;       ///< bytes of a channel's open pages, one of each bank group
    int64_t ddr_channels = 1, ddr_interleave = 1;  ///< bytes of one channel before the next one's
    timing::SramTime l1, l2;                       ///< times of the first engine's L1; of the device's L2
    uint32_t launch_cycles = 0;                    ///< before the first dispatch
    uint32_t dispatch_cycles = 0;                  ///< cycles that the sequencer takes for a task
    double array_cycles = 1;                       ///< cycles of the arrays' clock in a cycle of the core
    double ddr_latency_cycles = 0;
    int64_t ddr_bank_groups = 1;
    int64_t cut_bytes =
        0;  ///< transfers between DDR and L2 are cut at its multiples; 0: at others of each side
    double ddr_group_cycles = 1;  ///< between bursts of one group of banks, in bursts
    /// Cycles of DRAM's bus from reads to writes and back, in all channels' time.
    double ddr_turn_cycles = 0;
    double ddr_batch_bursts = 0;  ///< that a controller writes before reads go on; 0: those of one request

    /// Bursts of DRAM that each run takes on average: those that it touches, and those that the other side's cuts split.
    double dram_bursts(const Runs& of) const;
    /// Returns the cycles of DRAM's bus lost to turning if reads go on meanwhile: so many bursts are written
    /// at once.
    double turning(const Runs& written) const;
    /// Returns the cycles of DRAM in which rows of a tile open pages anew that other transfers have closed.
    double closed_pages(const Runs& of) const;
    /// Returns how much slower bursts of DRAM are that stay in one group of banks, as those of short rows may
    /// that lie a multiple of all groups apart.
    double same_group(const Runs& of) const;
    /// Returns the part of all channels that runs of memory lie in: those a multiple of all channels apart
    /// begin in the same one. So many lanes work on the same runs `beside` each other.
    double channel_share(const Runs& of, double beside = 1) const;
    /// Returns the units that it takes to draw all that DRAM, or L2 with an engine's link, gives.
    int64_t units_at_once(bool from_ddr) const;
    /// A large constant of one of `lanes` engines comes in so many pieces, each by a unit of its own.
    int64_t pieces(bool from_ddr, uint64_t bytes, int64_t lanes) const;

    /// Returns the cycles of the array's clock for which a product keeps an engine's array: its own, or its
    /// ports'.
    double array_busy(const timing::SystolicTime& time, const timing::GemmShape& shape,
                      const ProductBytes& bytes) const;
    /// Returns core cycles of all of L1 that it takes.
    double l1_busy(const timing::SystolicTime& time, const timing::GemmShape& shape,
                   const ProductBytes& bytes) const;

    /// Lanes that a kernel's workgroup keeps busy.
    double lanes_of(const kernels::Work& work) const;
    /// Returns the cycles from the start of a kernel's copies of rows, anywhere in DDR, to the arrival of the
    /// last, and DRAM's part of it.
    double copy_cycles(const kernels::Work& work, ElemType elem) const;
    double copy_pins(const kernels::Work& work, ElemType elem) const;

    /// True if some type variant of the device takes these operands (in the order of the opcode's row; absent
    /// ones left out).
    bool takes(const OpcodeSpec& spec, const std::vector<ElemType>& inputs,
               const std::vector<ElemType>& outputs) const;
    bool takes(std::string_view opcode, const std::vector<ElemType>& inputs,
               const std::vector<ElemType>& outputs) const;
    /// True if every engine has a unit of the kind that executes the opcode.
    bool has_unit_for(std::string_view opcode) const;
    /// True if the arrays have a rate for this product.
    bool has_rate(ElemType a, ElemType b) const;
    /// Returns f32, bf16 or f16: the widest float type that products have. none: there is no float array.
    ElemType widest_float() const;
};

}  // namespace kpu::compiler
