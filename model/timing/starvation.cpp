// Operands through narrow ports, word by word. systolic.md has the rules.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/diagnostics.hpp"
#include "model/timing/systolic.hpp"

namespace kpu::timing {

namespace {

constexpr double most_words = 1 << 20;
constexpr size_t ahead = 16;  ///< operand words that wait in front of the array at most

/// A dimension cut into tiles: all whole but the last.
struct Cut {
    Cut(uint64_t size, uint64_t tile)
        : tiles((size + tile - 1) / tile), whole(tile), last(size - (tiles - 1) * tile) {}
    uint64_t of(uint64_t index) const { return index + 1 == tiles ? last : whole; }
    uint64_t tiles, whole, last;
};

/// A port that brings the words of one operand, in order, at most one a cycle.
class Port {
  public:
    Port(uint64_t bits_per_cycle, uint32_t element_bits)
        : width_(bits_per_cycle), element_bits_(element_bits) {}
    bool brings_in_a_cycle(double elements) const { return elements * element_bits_ <= double(width_); }
    /// Returns the first cycle in which the array can take the next word, of so many elements.
    Cycles ready(uint64_t elements) {
        const uint64_t need = elements * element_bits_;
        const Cycles room = count_ < ahead ? 0 : taken_[count_ % ahead] + 2;
        const Cycles cycles = need <= have_ + width_ ? 1 : (need - have_ + width_ - 1) / width_;
        have_ = std::min(have_ + cycles * width_ - need, width_);
        return ready_ = std::max(ready_, room) + cycles;
    }
    void take(Cycles cycle) { taken_[count_++ % ahead] = cycle; }

  private:
    uint64_t width_;
    uint32_t element_bits_;
    uint64_t have_ = 0;  ///< bits that came along with the word before
    Cycles ready_ = 0;
    uint64_t count_ = 0;
    std::array<Cycles, ahead> taken_{};
};

/// Elements of each of `words` words in which `vectors` vectors of `length` elements pass.
class Words {
  public:
    Words(uint64_t vectors, uint64_t length, uint64_t words) : all_(vectors * length), words_(words) {}
    uint64_t next() {
        rest_ += all_ % words_;
        const bool more = rest_ >= words_;
        rest_ -= more ? words_ : 0;
        return all_ / words_ + more;
    }

  private:
    uint64_t all_, words_, rest_ = 0;
};

bool too_many(const Cut& down, const Cut& across, uint64_t groups, uint64_t words) {
    return double(down.tiles) * double(across.tiles) * double(groups) * double(words) > most_words;
}

/// Returns the stall when both operands pass through the array in the same cycles; a fold may end no sooner
/// than the one before has drained.
std::optional<Cycles> output_stationary(const SystolicArray& array, const GemmShape& s, Port a, Port b,
                                        uint64_t words) {
    const double vectors = double(s.k) / double(words);
    if (a.brings_in_a_cycle(double(array.rows) * vectors) &&
        b.brings_in_a_cycle(double(array.cols) * vectors))
        return std::nullopt;
    const Cut down(s.m, array.rows), across(s.n, array.cols);
    if (too_many(down, across, s.groups, words)) return std::nullopt;
    const Cycles gap = std::max(array.rows, words) - words;
    Cycles taken = 0;
    for (uint64_t fold = 0; fold < down.tiles * across.tiles * s.groups; ++fold) {
        Words a_words(s.k, down.of(fold / across.tiles % down.tiles), words);
        Words b_words(s.k, across.of(fold % across.tiles), words);
        if (fold > 0) taken += gap;
        for (uint64_t n = 0; n < words; ++n) {
            taken = std::max({taken + 1, a.ready(a_words.next()), b.ready(b_words.next())});
            a.take(taken);
            b.take(taken);
        }
    }
    return taken;
}

/// K x `columns` elements stay, K x `stream` pass by (ws: weights stay, is: inputs). The next fold's
/// stationary elements, the bottom row's first, enter from this one's first streamed word on.
std::optional<Cycles> one_stays(const SystolicArray& array, const GemmShape& s, uint64_t columns,
                                uint64_t stream, Port stationary, Port streamed, uint64_t words) {
    const double vectors = double(stream) / double(words);
    if (streamed.brings_in_a_cycle(double(array.rows) * vectors) &&
        stationary.brings_in_a_cycle(double(array.cols)))
        return std::nullopt;
    const Cut down(s.k, array.rows), across(columns, array.cols);
    if (too_many(down, across, s.groups, std::max(words, array.rows))) return std::nullopt;
    Cycles taken = 0, loaded = 0, begin = 1;
    for (uint64_t fold = 0; fold < down.tiles * across.tiles * s.groups; ++fold) {
        const uint64_t height = down.of(fold % down.tiles);
        const uint64_t width = across.of(fold / down.tiles % across.tiles);
        loaded = std::max(loaded, begin - 1);
        for (uint64_t row = array.rows; row-- > 0;) {
            loaded = std::max(loaded + 1, stationary.ready(row < height ? width : 0));
            stationary.take(loaded);
        }
        Words streamed_words(stream, height, words);
        for (uint64_t n = 0; n < words; ++n) {
            taken = std::max(taken + 1, streamed.ready(streamed_words.next()));
            if (n == 0) begin = taken = std::max(taken, loaded + 1);
            streamed.take(taken);
        }
    }
    return taken;
}

}  // namespace

std::optional<Cycles> starved_operands_in(const SystolicArray& array, const GemmShape& s,
                                          const OperandPorts& ports) {
    if (s.macs() == 0) return std::nullopt;
    const Port a(ports.a_port_bits, ports.a_bits), b(ports.b_port_bits, ports.b_bits);
    const auto words = [&](uint64_t stream) {
        return static_cast<uint64_t>(std::ceil(double(stream) / array.rate));
    };
    switch (array.dataflow) {
        case proto::SystolicArray::os:
            return output_stationary(array, s, a, b, words(s.k));
        case proto::SystolicArray::ws:
            return one_stays(array, s, s.n, s.m, b, a, words(s.m));
        case proto::SystolicArray::is:
            return one_stays(array, s, s.m, s.n, a, b, words(s.n));
    }
    throw InternalError("unknown dataflow");
}

}  // namespace kpu::timing
