#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/types.hpp"
#include "model/memory/busy_track.hpp"
#include "model/memory/clock_crossing.hpp"
#include "model/memory/divide.hpp"
#include "model/memory/memory_config.hpp"
#include "model/memory/queue_depth.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// Equal servers, of which the one that is free first takes the next customer.
class Ports {
  public:
    explicit Ports(size_t count) : count_(count), free_(count, 0) {}
    /// Returns the start of a service of `cycles` to a customer that comes at `arrival`.
    Cycles take(Cycles arrival, Cycles cycles) {
        Cycles* const free = free_.data();
        const size_t taken = first_;
        const Cycles start = std::max(arrival, free[taken]), end = start + cycles;
        first_ = taken + 1 == count_ ? 0 : taken + 1;
        if (end >= latest_)
            free[taken] = latest_ = end;
        else
            insert(taken, end);
        return start;
    }

  private:
    void insert(size_t place, Cycles end);

    size_t count_, first_ = 0;
    Cycles latest_ = 0;
    std::vector<Cycles> free_;  ///< ring, ascending from first_ to latest_
};

/// A scratchpad SRAM: ports in front of address-interleaved banks. See sram.md.
class Sram {
  public:
    /// `own`: its clock, when that is not the core's.
    Sram(const SramConfig& config, const Clock& core, const std::optional<Clock>& own);

    struct Service {
        Cycles done;       ///< data out of the bank (read), or in it (write), latency included
        Cycles port_wait;  ///< for a free port
        Cycles bank_wait;  ///< wait for the bank, after the port
        uint64_t words;    ///< physical words touched
    };
    /// Returns an access to [address, address + bytes), which may span interleave blocks. Calls come in order
    /// of arrival.
    [[gnu::always_inline]] Service serve(Cycles arrival, uint64_t address, uint32_t bytes, bool write) {
        if (!crossing_) return serve_own(arrival, address, bytes, write);
        Service service = serve_own(crossing_->to_memory(arrival), address, bytes, write);
        service.done = std::max(arrival + 1, crossing_->to_core(service.done));
        return service;
    }
    uint64_t interleave_bytes() const { return interleave_.value(); }
    /// Returns the least time: no access is served faster.
    Cycles least_time(bool write) const {
        return crossing_ ? crossing_->at_least(1 + latency_[write]) : 1 + latency_[write];
    }

    BusyTrack busy;
    QueueDepth queue;
    std::array<uint64_t, 2> bytes_moved{}, words_moved{};  ///< read, written
    uint64_t conflict_cycles = 0;

  private:
    /// Does serve() in cycles of the own clock; waits in core cycles.
    [[gnu::always_inline]] Service serve_own(Cycles arrival, uint64_t address, uint32_t bytes, bool write) {
        const Shape& shape = shape_of(bytes);
        const Cycles port_start = ports_.take(arrival, shape.port_cycles);
        if (port_start - base_ > rebase_after) rebase(port_start);
        const uint64_t into_block = interleave_.remainder(address);
        const auto start = static_cast<int32_t>(port_start - base_);
        const Banks banks = turnaround_ == 0 ? use(shape, address, into_block, start)
                                             : use_turning(address, bytes, write, start);
        if (banks.end > overflow) throw_overflow();
        const Cycles end = std::max(port_start + shape.port_cycles, base_ + static_cast<Cycles>(banks.end));
        auto port_wait = port_start - arrival, wait = static_cast<Cycles>(banks.wait);
        if (port_start + wait > arrival) queue.waits(arrival, port_start + wait);
        if (crossing_) {
            busy.add(crossing_->to_core(port_start), crossing_->to_core(end));
            port_wait = crossing_->duration_in_core(port_wait);
            wait = crossing_->duration_in_core(wait);
        } else {
            busy.add(port_start, end);
        }
        conflict_cycles += wait;
        const uint64_t words = into_block == 0 && shape.words != 0 ? shape.words : words_of(address, bytes);
        bytes_moved[write] += bytes;
        words_moved[write] += words;
        return {end + latency_[write], port_wait, wait, words};
    }

    // Times of banks are 32-bit, relative to base_: so several banks are handled at once.
    static constexpr Cycles rebase_after = Cycles{1} << 28;
    static constexpr int32_t overflow = int32_t{1} << 30;
    static constexpr uint64_t most_blocks = 4096;  ///< limit of an access that uses tables
    static constexpr size_t lanes = 4;             ///< banks handled at once

    /// Values that follow from the size of an access.
    struct Shape {
        uint32_t bytes = 0;
        uint32_t whole_blocks = 0;  ///< 0: it is not made of whole blocks, or of too many
        /// Words of an access that begins with a block; 0: blocks do not begin with words.
        uint32_t words = 0;
        uint32_t rounds = 0;  ///< it uses every bank so many times; 0: it does not use all alike
        Cycles port_cycles = 0;
    };
    struct Banks {
        int32_t end = 0;   ///< end at the last bank that the access uses
        int32_t wait = 0;  ///< longest wait for one of them
        void add(Banks others) { *this = {std::max(end, others.end), std::max(wait, others.wait)}; }
    };
    uint64_t words_of(uint64_t address, uint32_t bytes) const {
        return word_.quotient(address + bytes - 1) - word_.quotient(address) + 1;
    }
    const Shape& shape_of(uint32_t bytes) {
        Shape& shape = shapes_[bytes / 64 % shapes_.size()];
        if (shape.bytes != bytes) shape = new_shape(bytes);
        return shape;
    }
    /// Uses the banks of an access: each of its blocks is at its bank when the port has come to it, whatever
    /// the others wait for.
    Banks use(const Shape& shape, uint64_t address, uint64_t into, int32_t start) {
        const size_t bank = banks_.remainder(interleave_.quotient(address));
        const size_t blocks = shape.whole_blocks;
        if (into != 0 || blocks == 0) return use_pieces(bank, into, shape.bytes, start);
        if (shape.rounds != 0) return use_rounds(bank, shape.rounds, start);
        if (blocks % lanes == 0 && bank + blocks <= banks_.value())
            return use_lanes_(*this, bank, blocks, wanted_.data(), start);
        return use_blocks(bank, blocks, start);
    }
    /// Returns a block that is wanted at its bank at `want`.
    Banks use_bank(size_t bank, int32_t want, int32_t cycles) {
        const int32_t begin = std::max(want, bank_free_[bank]), end = begin + cycles;
        bank_free_[bank] = end;
        return {end, begin - want};
    }
    Banks use_blocks(size_t bank, size_t blocks, int32_t start);
    Banks use_rounds(size_t bank, uint32_t rounds, int32_t start);
    static Banks use_lanes(Sram& sram, size_t bank, size_t count, const int32_t* wanted, int32_t start);
    static Banks use_lanes_wide(Sram& sram, size_t bank, size_t count, const int32_t* wanted, int32_t start);
    Banks use_pieces(size_t bank, uint64_t into, uint32_t bytes, int32_t start);
    Banks use_turning(uint64_t address, uint32_t bytes, bool write, int32_t start);
    Shape new_shape(uint32_t bytes);
    void rebase(Cycles base);
    [[noreturn]] void throw_overflow() const;

    std::optional<ClockCrossing> crossing_;  ///< none: core cycles are the own
    int32_t turnaround_;
    std::vector<uint8_t> direction_;  ///< direction of each bank's last access; only with turn-around
    Divisor banks_, interleave_, port_width_, bank_width_, word_;
    std::array<Cycles, 2> latency_;  ///< latency of reads, of writes
    int32_t block_cycles_;
    Cycles base_ = 0;
    Ports ports_;
    std::vector<int32_t> bank_free_;
    std::array<Shape, 32> shapes_;
    std::vector<int32_t> wanted_;  ///< block i is at its bank so many cycles after the port's start
    std::vector<int32_t> turns_;   ///< the same by first bank and bank, for one block at every bank; or empty
    int32_t round_cycles_ = 0;     ///< cycles of the port for one block at every bank
    decltype(&use_lanes) use_lanes_ = use_lanes;  ///< use_bank() for multiples of `lanes` blocks
};

/// A link: one burst at a time, then the hop. See interconnect.md.
class Link {
  public:
    Link(const LinkConfig& config, const Clock& core, const std::optional<Clock>& own)
        : width_(config.bytes_per_cycle), hop_(config.hop_latency_cycles) {
        if (own) crossing_.emplace(core, *own);
    }

    struct Service {
        Cycles done;
        Cycles wait;
    };
    [[gnu::always_inline]] Service serve(Cycles arrival, uint32_t bytes) {
        if (!crossing_) return serve_own(arrival, bytes);
        const Service own = serve_own(crossing_->to_memory(arrival), bytes);
        return {std::max(arrival + 1, crossing_->to_core(own.done)), crossing_->duration_in_core(own.wait)};
    }
    /// Returns the least time: no burst is served faster.
    Cycles least_time() const { return crossing_ ? crossing_->at_least(1 + hop_) : 1 + hop_; }
    /// Returns the core cycle before which it takes no burst; with a clock of its own perhaps one edge of it
    /// later.
    Cycles free() const { return crossing_ ? std::max<Cycles>(1, crossing_->to_core(free_)) - 1 : free_; }

    BusyTrack busy;
    QueueDepth queue;
    uint64_t bytes_moved = 0;
    uint16_t last_unit = traces::no_unit;  ///< whose burst went last; for round robin

  private:
    [[gnu::always_inline]] Service serve_own(Cycles arrival, uint32_t bytes) {
        if (bytes != cached_bytes_) {
            cached_bytes_ = bytes;
            cycles_ = width_.ceil(bytes);
        }
        const Cycles start = std::max(arrival, free_);
        free_ = start + cycles_;
        if (crossing_)
            busy.add(crossing_->to_core(start), crossing_->to_core(free_));
        else
            busy.add(start, free_);
        if (start > arrival) queue.waits(arrival, start);
        bytes_moved += bytes;
        return {free_ + hop_, start - arrival};
    }

    std::optional<ClockCrossing> crossing_;  ///< none: core cycles are the own
    Divisor width_;
    Cycles hop_;
    Cycles free_ = 0;
    uint32_t cached_bytes_ = 0;
    Cycles cycles_ = 0;
};

}  // namespace kpu::model
