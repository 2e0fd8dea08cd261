#include "model/fabric/sram.hpp"

#include <cstring>

#include "isa/diagnostics.hpp"

namespace kpu::model {

namespace {

/// Several banks at once. Every x86-64 and ARM64 machine has vectors of four, most have eight.
using FourLanes = int32_t __attribute__((vector_size(16)));
using EightLanes = int32_t __attribute__((vector_size(32)));
constexpr size_t most_banks_with_turns = 64;

bool has_eight_lanes() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0;
#else
    return false;
#endif
}

}  // namespace

Sram::Sram(const SramConfig& config)
    : banks_(config.banks),
      interleave_(config.interleave_bytes),
      port_width_(config.bytes_per_cycle),
      bank_width_(config.bank_width_bytes),
      word_(config.access_width_bytes),
      latency_{config.read_latency_cycles, config.write_latency_cycles},
      block_cycles_(static_cast<int32_t>(bank_width_.ceil(config.interleave_bytes))),
      ports_(config.ports),
      bank_free_(config.banks, 0),
      use_every_bank_(use_every_bank<FourLanes>) {
    const size_t banks = config.banks;
    if (banks % 4 != 0 || banks > most_banks_with_turns) return;
    if (banks % 8 == 0 && has_eight_lanes()) use_every_bank_ = use_every_bank_wide;
    for (size_t first = 0; first < banks; ++first)
        for (size_t bank = 0; bank < banks; ++bank)
            turns_.push_back(static_cast<int32_t>(
                port_width_.quotient((bank + banks - first) % banks * interleave_.value())));
}

Sram::Shape Sram::new_shape(uint32_t bytes) {
    Shape shape;
    shape.bytes = bytes;
    shape.port_cycles = port_width_.ceil(bytes);
    const uint64_t blocks = interleave_.ceil(bytes) + 1;
    const uint64_t bank_cycles = banks_.ceil(blocks) * bank_width_.ceil(interleave_.value());
    if (shape.port_cycles > rebase_after || bank_cycles > rebase_after) throw_overflow();
    if (interleave_.remainder(bytes) == 0 && blocks <= most_blocks)
        shape.whole_blocks = static_cast<uint32_t>(blocks - 1);
    while (wanted_.size() < shape.whole_blocks)
        wanted_.push_back(static_cast<int32_t>(port_width_.quotient(wanted_.size() * interleave_.value())));
    return shape;
}

void Sram::use_pieces(size_t bank, uint64_t into, uint32_t bytes, int32_t start, Banks& all) {
    uint64_t piece = interleave_.value() - into;
    for (uint64_t offset = 0; offset < bytes; offset += piece, piece = interleave_.value()) {
        piece = std::min<uint64_t>(piece, bytes - offset);
        const auto wanted = static_cast<int32_t>(port_width_.quotient(offset));
        use_banks(bank, 1, &wanted, start, static_cast<int32_t>(bank_width_.ceil(piece)), all);
        if (++bank == bank_free_.size()) bank = 0;
    }
}

/// use_banks() for all of them.
template <typename Lanes>
[[gnu::always_inline]] inline void Sram::use_every_bank(const int32_t* wanted, int32_t start, Sram& sram,
                                                        Banks& all) {
    constexpr size_t lanes = sizeof(Lanes) / sizeof(int32_t);
    Lanes wait{}, end{};
    int32_t* const bank_free = sram.bank_free_.data();
    const int32_t cycles = sram.block_cycles_;
    for (size_t bank = 0; bank < sram.bank_free_.size(); bank += lanes) {
        Lanes want, free;
        std::memcpy(&want, &wanted[bank], sizeof want);
        std::memcpy(&free, &bank_free[bank], sizeof free);
        want += start;
        const Lanes begin = want > free ? want : free, done = begin + cycles, waited = begin - want;
        std::memcpy(&bank_free[bank], &done, sizeof done);
        wait = wait > waited ? wait : waited;
        end = end > done ? end : done;
    }
    for (size_t lane = 0; lane < lanes; ++lane) {
        all.wait = std::max(all.wait, wait[lane]);
        all.end = std::max(all.end, end[lane]);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
void Sram::use_every_bank_wide(const int32_t* wanted, int32_t start, Sram& sram, Banks& all) {
    use_every_bank<EightLanes>(wanted, start, sram, all);
}

void Sram::rebase(Cycles base) {
    const Cycles passed = base - base_;
    for (int32_t& free : bank_free_)
        free = static_cast<Cycles>(free) > passed ? static_cast<int32_t>(static_cast<Cycles>(free) - passed)
                                                  : 0;
    base_ = base;
}

void Sram::throw_overflow() const {
    throw UserError(
        "accesses to an SRAM take longer than 2^28 cycles. Fix: raise its bank_width_bytes and "
        "bytes_per_cycle, or lower its interleave_bytes and the burst_bytes of its DMA engines.");
}

}  // namespace kpu::model
