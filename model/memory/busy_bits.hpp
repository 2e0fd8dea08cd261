#pragma once

#include <algorithm>
#include <vector>

#include "model/memory/state_recorder.hpp"

namespace kpu::model {

/// Cycles in which a DRAM channel moved data (useful), or was held by commands, refresh or turn-around
/// without moving data (overhead); idle is the rest. One bit a cycle from the present on, because a scheduler
/// fills gaps: intervals come in any order, but never begin before the `now` of an earlier call.
class BusyBits {
  public:
    BusyBits() : words_(64) {}

    void useful(Cycles now, Cycles from, Cycles to) { add(now, from, to, useful_); }
    void overhead(Cycles now, Cycles from, Cycles to) { add(now, from, to, overhead_); }

    Cycles useful(Cycles end) const { return settled_useful_ + flushed().count(end, false); }
    Cycles overhead(Cycles end) const { return settled_overhead_ + flushed().count(end, true); }
    /// Records what is still unrecorded, up to `end`.
    void finish(Cycles end) {
        *this = flushed();
        if (recorder.connected())
            for (uint64_t w = base_; w * 64 < end && w < base_ + words_.size(); ++w) record(w, end);
        recorder.finish(end);
    }

    StateRecorder recorder;

  private:
    struct Word {
        uint64_t useful = 0, overhead = 0;
    };

    Word& word(uint64_t index) { return words_[index & (words_.size() - 1)]; }
    const Word& word(uint64_t index) const { return words_[index & (words_.size() - 1)]; }
    static uint64_t bits_below(uint64_t n) { return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }
    static int population(uint64_t bits) { return __builtin_popcountll(bits); }

    /// The interval that grows at present; bits only once it ends.
    struct Pending {
        uint64_t Word::*bits;
        Cycles from = 0, to = 0;
    };

    void add(Cycles now, Cycles from, Cycles to, Pending& pending) {
        if (to <= from) return;
        if (from >= pending.from && from <= pending.to && to - pending.from < longest_pending)
            pending.to = std::max(pending.to, to);
        else
            begin(now, from, to, pending);
    }
    /// Begins another interval: the one before is set, and what lies before `now` is settled.
    [[gnu::noinline]] void begin(Cycles now, Cycles from, Cycles to, Pending& pending) {
        set(pending);
        pending.from = from;
        pending.to = to;
        Cycles open = now;  // what may still grow is not settled
        for (Pending* each : {&useful_, &overhead_}) {
            if (each->to < now) {
                set(*each);
                each->from = each->to = now;
            }
            open = std::min(open, each->from);
        }
        if (open / 64 > base_) settle(open / 64);
    }
    void set(const Pending& pending) {
        if (pending.to == pending.from) return;
        const uint64_t last = (pending.to - 1) / 64;
        while (last >= base_ + words_.size()) grow();
        for (uint64_t w = pending.from / 64; w <= last; ++w) {
            const uint64_t begin = w == pending.from / 64 ? pending.from % 64 : 0;
            const uint64_t end = w == last ? (pending.to - 1) % 64 + 1 : 64;
            word(w).*pending.bits |= bits_below(end) & ~bits_below(begin);
        }
    }
    BusyBits flushed() const {
        BusyBits copy = *this;
        copy.set(useful_);
        copy.set(overhead_);
        return copy;
    }
    void settle(uint64_t new_base) {
        const uint64_t until = std::min(new_base, base_ + words_.size());
        for (; base_ < until; ++base_) {
            Word& w = word(base_);
            settled_useful_ += static_cast<Cycles>(population(w.useful));
            settled_overhead_ += static_cast<Cycles>(population(w.overhead & ~w.useful));
            if (recorder.connected()) record(base_, never_clipped);
            w = {};
        }
        base_ = new_base;
    }
    void grow() {
        std::vector<Word> larger(words_.size() * 2);
        for (uint64_t w = base_; w < base_ + words_.size(); ++w) larger[w & (larger.size() - 1)] = word(w);
        words_.swap(larger);
    }
    Cycles count(Cycles end, bool overhead) const {
        Cycles sum = 0;
        for (uint64_t w = base_; w * 64 < end && w < base_ + words_.size(); ++w) {
            const uint64_t bits = overhead ? word(w).overhead & ~word(w).useful : word(w).useful;
            sum += static_cast<Cycles>(population(bits & bits_below(end - w * 64)));
        }
        return sum;
    }
    /// Records the states of one word's cycles before `end`, run by run.
    void record(uint64_t index, Cycles end) {
        const Word w = word(index);
        for (unsigned bit = 0; bit < 64 && ((w.useful | w.overhead) >> bit) != 0;) {
            const Cycles from = index * 64 + bit;
            if (from >= end) return;
            const auto state_of = [&](unsigned b) {
                return (w.useful >> b & 1) != 0 ? 2 : (w.overhead >> b & 1) != 0 ? 1 : 0;
            };
            const int state = state_of(bit);
            while (bit < 64 && state_of(bit) == state) ++bit;
            if (state != 0)
                recorder.state(from, std::min<Cycles>(index * 64 + bit, end),
                               state == 2 ? traces::Cause::busy_useful : traces::Cause::busy_overhead);
        }
    }

    static constexpr Cycles never_clipped = ~Cycles{0};
    static constexpr Cycles longest_pending = 2048;
    Pending useful_{&Word::useful}, overhead_{&Word::overhead};
    std::vector<Word> words_;  ///< ring, a power of two; word w holds cycles 64 w .. 64 w + 63
    uint64_t base_ = 0;        ///< first word not settled
    Cycles settled_useful_ = 0, settled_overhead_ = 0;
};

}  // namespace kpu::model
