#pragma once

#include <algorithm>
#include <vector>

#include "isa/types.hpp"
#include "model/fabric/busy_track.hpp"
#include "model/fabric/divide.hpp"
#include "model/fabric/fabric_config.hpp"
#include "model/fabric/queue_depth.hpp"

namespace kpu::model {

/// A scratchpad SRAM: ports in front of address-interleaved banks. See sram.md.
class Sram {
  public:
    explicit Sram(const SramConfig& config);

    struct Service {
        Cycles done;       ///< data out of the bank (read), or in it (write), latency included
        Cycles port_wait;  ///< for a free port
        Cycles bank_wait;  ///< for the bank, behind the port
    };
    /// An access to [address, address + bytes), which may span interleave blocks. Calls come in order of
    /// arrival.
    Service serve(Cycles arrival, uint64_t address, uint32_t bytes, bool write) {
        if (bytes != cached_bytes_) cache(bytes);
        Cycles* port = &port_free_[0];
        for (Cycles& other : port_free_)
            if (other < *port) port = &other;
        const Cycles port_start = std::max(arrival, *port);
        *port = port_start + port_cycles_;
        const uint64_t into = interleave_.remainder(address);
        Banks banks;
        if (into + bytes <= interleave_.value())
            banks = use_bank(banks_.remainder(interleave_.quotient(address)), port_start, bank_cycles_);
        else
            banks = use_banks(address, into, bytes, port_start);
        const Cycles end = std::max(port_start + port_cycles_, banks.end);
        busy.add(port_start, end);
        if (port_start + banks.wait > arrival) queue.waits(arrival, port_start + banks.wait);
        conflict_cycles += banks.wait;
        (write ? bytes_written : bytes_read) += bytes;
        return {end + (write ? write_latency_ : read_latency_), port_start - arrival, banks.wait};
    }
    /// Physical words that [address, address + bytes) touches.
    uint64_t words(uint64_t address, uint32_t bytes) const {
        return word_.quotient(address + bytes - 1) - word_.quotient(address) + 1;
    }
    uint64_t interleave_bytes() const { return interleave_.value(); }

    BusyTrack busy;
    QueueDepth queue;
    uint64_t bytes_read = 0, bytes_written = 0;
    uint64_t words_read = 0, words_written = 0;
    uint64_t conflict_cycles = 0;

  private:
    struct Banks {
        Cycles end = 0;   ///< of the last bank that the access uses
        Cycles wait = 0;  ///< longest wait for one of them
    };
    Banks use_bank(uint64_t bank, Cycles wanted, Cycles cycles) {
        const Cycles start = std::max(wanted, bank_free_[bank]);
        bank_free_[bank] = start + cycles;
        return {start + cycles, start - wanted};
    }
    /// Each block of the access is at its bank when the port has come to it, whatever the others wait for.
    Banks use_banks(uint64_t address, uint64_t into, uint32_t bytes, Cycles port_start) {
        const uint64_t block = interleave_.value();
        Banks all;
        uint64_t bank = banks_.remainder(interleave_.quotient(address));
        uint64_t piece = block - into;
        for (uint64_t offset = 0; offset < bytes; offset += piece, piece = block) {
            piece = std::min<uint64_t>(piece, bytes - offset);
            const Cycles cycles = piece == block ? block_cycles_ : bank_width_.ceil(piece);
            const Banks one = use_bank(bank, port_start + port_width_.quotient(offset), cycles);
            all.end = std::max(all.end, one.end);
            all.wait = std::max(all.wait, one.wait);
            if (++bank == bank_free_.size()) bank = 0;
        }
        return all;
    }
    void cache(uint32_t bytes) {
        cached_bytes_ = bytes;
        port_cycles_ = port_width_.ceil(bytes);
        bank_cycles_ = bank_width_.ceil(bytes);
    }

    Divisor banks_, interleave_, port_width_, bank_width_, word_;
    Cycles read_latency_, write_latency_, block_cycles_;
    std::vector<Cycles> port_free_, bank_free_;
    uint32_t cached_bytes_ = 0;
    Cycles port_cycles_ = 0, bank_cycles_ = 0;
};

/// A link: one burst at a time, then the hop. See interconnect.md.
class Link {
  public:
    explicit Link(const LinkConfig& config)
        : width_(config.bytes_per_cycle), hop_(config.hop_latency_cycles) {}

    struct Service {
        Cycles done;
        Cycles wait;
    };
    Service serve(Cycles arrival, uint32_t bytes) {
        if (bytes != cached_bytes_) {
            cached_bytes_ = bytes;
            cycles_ = width_.ceil(bytes);
        }
        const Cycles start = std::max(arrival, free_);
        free_ = start + cycles_;
        busy.add(start, free_);
        if (start > arrival) queue.waits(arrival, start);
        bytes_moved += bytes;
        return {free_ + hop_, start - arrival};
    }

    BusyTrack busy;
    QueueDepth queue;
    uint64_t bytes_moved = 0;

  private:
    Divisor width_;
    Cycles hop_;
    Cycles free_ = 0;
    uint32_t cached_bytes_ = 0;
    Cycles cycles_ = 0;
};

}  // namespace kpu::model
