#pragma once

#include <cstdint>
#include <string>

#include "base/diagnostics.hpp"
#include "model/dram/trace.hpp"

namespace kpu::dram {

/// The traffic patterns of tests/reference/dram/trace_params.csv, and rnd_mix10, rnd_mix30 and rnd_mix50 of our
/// own, random bursts of which so many percent are writes: address and direction of burst `i` of 64 bytes.
class Pattern final : public TraceSource {
  public:
    /// `row_stride`: bytes to the next row of the same bank.
    Pattern(std::string name, uint64_t bursts, uint64_t row_stride, double tck_ns = 1)
        : name_(std::move(name)),
          kind_(kind_of(name_)),
          bursts_(bursts),
          row_stride_(row_stride),
          tck_ns_(tck_ns) {}

    struct Burst {
        uint64_t address, ns;
        bool is_write;
    };
    Burst burst(uint64_t i) const {
        constexpr uint64_t mib = 1 << 20;
        switch (kind_) {
            case Kind::sequential_read:
                return {64 * i, 0, false};
            case Kind::sequential_write:
                return {64 * i, 0, true};
            case Kind::tile_read: {  // 32 rows of 128 bytes, 4 KiB apart; 32 tiles side by side, then down
                const uint64_t tile = i / 64, row = i / 2 % 32;
                return {(tile / 32 * 32 + row) * 4096 + tile % 32 * 128 + i % 2 * 64, 0, false};
            }
            case Kind::two_reads:
                return {i % 2 * 64 * mib + 64 * (i / 2), 0, false};
            case Kind::two_reads_one_write:
                if (i % 3 == 2) return {128 * mib + 64 * (i / 3), 0, true};
                return {64 * (i - i / 3), 0, false};
            case Kind::random_read:
                return {64 * (random(i) % (512 * mib / 64)), 0, false};
            case Kind::conflict:
                return {i % 16384 * row_stride_, 0, false};
            case Kind::read_with_gaps:
                return {64 * i, i / 64 * 1000, false};
            case Kind::random_mix10:
            case Kind::random_mix30:
            case Kind::random_mix50: {
                const uint64_t share = kind_ == Kind::random_mix10   ? 10
                                       : kind_ == Kind::random_mix30 ? 30
                                                                     : 50;
                constexpr uint64_t other_stream = uint64_t{1} << 32;
                return {64 * (random(i) % (512 * mib / 64)), 0, random(other_stream + i) % 100 < share};
            }
        }
        return {};
    }

    std::optional<TraceRequest> next() override {
        if (next_ == bursts_) return std::nullopt;
        const Burst b = burst(next_++);
        return TraceRequest{static_cast<uint64_t>(static_cast<double>(b.ns) / tck_ns_ + 0.5), b.address,
                            b.is_write, next_};
    }
    const std::string& name() const override { return name_; }

    /// FNV-1a over (address | write, time), word by word: what trace_params.csv states.
    uint64_t checksum() const {
        uint64_t hash = 0xcbf29ce484222325;
        for (uint64_t i = 0; i < bursts_; ++i) {
            const Burst b = burst(i);
            for (const uint64_t word : {b.address | (b.is_write ? 1 : 0), b.ns})
                hash = (hash ^ word) * 0x100000001b3;
        }
        return hash;
    }

  private:
    enum class Kind {
        sequential_read,
        sequential_write,
        tile_read,
        two_reads,
        two_reads_one_write,
        random_read,
        conflict,
        read_with_gaps,
        random_mix10,
        random_mix30,
        random_mix50
    };
    static Kind kind_of(const std::string& name) {
        const char* const names[] = {"seq_rd",   "seq_wr",  "tile_rd",   "two_rd",    "mix21",    "rnd_rd",
                                     "conflict", "gaps_rd", "rnd_mix10", "rnd_mix30", "rnd_mix50"};
        for (int i = 0; i < 11; ++i) {
            if (name == names[i]) return static_cast<Kind>(i);
        }
        throw UserError("there is no pattern `" + name + "`. Fix: use one of trace_params.csv.");
    }
    /// Returns the number `i` of the stream of seed 1: SplitMix64.
    static uint64_t random(uint64_t i) {
        constexpr uint64_t golden = 0x9e3779b97f4a7c15;
        uint64_t x = golden + i + golden;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }

    std::string name_;
    Kind kind_;
    uint64_t bursts_, row_stride_, next_ = 0;
    double tck_ns_;
};

}  // namespace kpu::dram
