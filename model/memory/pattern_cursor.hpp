#pragma once

#include <algorithm>
#include <cstdint>

#include "model/memory/divide.hpp"
#include "model/stream/stream.hpp"

namespace kpu::model {

/// Walks the bytes of one side of a stream, again and again, in pieces that never cross a run end or an
/// alignment.
class PatternCursor {
  public:
    PatternCursor() = default;
    /// align_bytes: pieces do not cross multiples of it; 1 = no limit.
    PatternCursor(const StreamSide& side, uint64_t align_bytes)
        : pattern_(side.pattern), memory_(side.is_memory), align_(align_bytes) {
        address_ = row_ = pattern_.address;
        run_left_ = memory_ ? pattern_.run_bytes : ~uint64_t{0};
    }

    uint64_t address() const { return address_; }
    bool at_run_start() const { return memory_ && run_left_ == pattern_.run_bytes; }
    /// Returns the longest piece, at most `limit` bytes.
    uint64_t piece(uint64_t limit) const {
        const uint64_t n = std::min(limit, run_left_);
        return align_.value() == 1 ? n : std::min(n, align_.value() - align_.remainder(address_));
    }
    /// Returns how many pieces of `bytes` follow each other with no run beginning among them.
    uint64_t pieces(uint64_t bytes) const {
        if (at_run_start()) return 0;
        const bool aligned =
            align_.value() == 1 || (align_.value() % bytes == 0 && align_.remainder(address_) % bytes == 0);
        return aligned ? run_left_ / bytes : 0;
    }
    void advance(uint64_t bytes) {
        address_ += bytes;
        run_left_ -= bytes;
        if (run_left_ == 0) next_run();
    }

    /// Returns the bytes of the side: all walks of the pattern; 0 of a unit.
    static uint64_t total_bytes(const StreamSide& side) {
        if (!side.is_memory) return 0;
        uint64_t bytes = side.pattern.run_bytes * side.repeat;
        for (int d = 0; d < side.pattern.dims; ++d) bytes *= static_cast<uint64_t>(side.pattern.count[d]);
        return bytes;
    }

  private:
    void next_run() {
        run_left_ = pattern_.run_bytes;
        for (int d = 0; d < pattern_.dims; ++d) {
            row_ += static_cast<uint64_t>(pattern_.stride_bytes[d]);
            if (++index_[d] < pattern_.count[d]) break;
            row_ -=
                static_cast<uint64_t>(pattern_.stride_bytes[d]) * static_cast<uint64_t>(pattern_.count[d]);
            index_[d] = 0;
        }
        address_ = row_;
    }

    values::Footprint pattern_;
    bool memory_ = false;  ///< else a unit: endless, without addresses
    Divisor align_;
    uint64_t address_ = 0, row_ = 0, run_left_ = 0;
    int64_t index_[max_rank] = {};
};

}  // namespace kpu::model
