#include "model/memory/sram.hpp"

#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu::model {

namespace {

using Lanes = int32_t __attribute__((vector_size(16)));
constexpr size_t most_banks_with_turns = 64;
constexpr uint8_t no_direction = 2;

}  // namespace

/// Inserts an end that is not the newest of all: moves those that end later.
void Ports::insert(size_t place, Cycles end) {
    while (place != first_) {
        const size_t before = place == 0 ? count_ - 1 : place - 1;
        if (free_[before] <= end) break;
        free_[place] = free_[before];
        place = before;
    }
    free_[place] = end;
}

Sram::Sram(const SramConfig& config, const Clock& core, const std::optional<Clock>& own)
    : turnaround_(static_cast<int32_t>(config.turnaround_cycles)),
      direction_(config.turnaround_cycles > 0 ? config.banks : 0, no_direction),
      banks_(config.banks),
      interleave_(config.interleave_bytes),
      port_width_(config.bytes_per_cycle),
      bank_width_(config.bank_width_bytes),
      word_(config.access_width_bytes),
      latency_{config.read_latency_cycles, config.write_latency_cycles},
      block_cycles_(static_cast<int32_t>(bank_width_.ceil(config.interleave_bytes))),
      ports_(config.ports),
      bank_free_(config.banks, 0) {
    if (own) crossing_.emplace(core, *own);
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") != 0) use_lanes_ = use_lanes_wide;
#endif
    const size_t banks = config.banks;
    const uint64_t round_bytes = banks * interleave_.value();
    if (banks % lanes != 0 || banks > most_banks_with_turns || port_width_.remainder(round_bytes) != 0)
        return;
    round_cycles_ = static_cast<int32_t>(port_width_.quotient(round_bytes));
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
    if (word_.remainder(interleave_.value()) == 0) shape.words = static_cast<uint32_t>(word_.ceil(bytes));
    if (interleave_.remainder(bytes) == 0 && blocks <= most_blocks)
        shape.whole_blocks = static_cast<uint32_t>(blocks - 1);
    if (!turns_.empty() && banks_.remainder(shape.whole_blocks) == 0)
        shape.rounds = static_cast<uint32_t>(banks_.quotient(shape.whole_blocks));
    while (wanted_.size() < shape.whole_blocks)
        wanted_.push_back(static_cast<int32_t>(port_width_.quotient(wanted_.size() * interleave_.value())));
    return shape;
}

Sram::Banks Sram::use_pieces(size_t bank, uint64_t into, uint32_t bytes, int32_t start) {
    Banks all;
    uint64_t piece = interleave_.value() - into;
    for (uint64_t offset = 0; offset < bytes; offset += piece, piece = interleave_.value()) {
        piece = std::min<uint64_t>(piece, bytes - offset);
        const auto wanted = static_cast<int32_t>(port_width_.quotient(offset));
        all.add(use_bank(bank, start + wanted, static_cast<int32_t>(bank_width_.ceil(piece))));
        if (++bank == bank_free_.size()) bank = 0;
    }
    return all;
}

/// Does the same as use_pieces(), but a bank whose last access had the other direction has to turn around
/// first.
Sram::Banks Sram::use_turning(uint64_t address, uint32_t bytes, bool write, int32_t start) {
    Banks all;
    size_t bank = banks_.remainder(interleave_.quotient(address));
    uint64_t piece = interleave_.value() - interleave_.remainder(address);
    for (uint64_t offset = 0; offset < bytes; offset += piece, piece = interleave_.value()) {
        piece = std::min<uint64_t>(piece, bytes - offset);
        const auto wanted = static_cast<int32_t>(port_width_.quotient(offset));
        if (direction_[bank] != no_direction && direction_[bank] != write) bank_free_[bank] += turnaround_;
        direction_[bank] = write;
        all.add(use_bank(bank, start + wanted, static_cast<int32_t>(bank_width_.ceil(piece))));
        if (++bank == bank_free_.size()) bank = 0;
    }
    return all;
}

Sram::Banks Sram::use_blocks(size_t bank, size_t blocks, int32_t start) {
    Banks all;
    for (size_t block = 0; block < blocks; bank = 0) {
        const size_t end = block + std::min(blocks - block, bank_free_.size() - bank);
        if (const size_t count = (end - block) / lanes * lanes; count > 0) {
            all.add(use_lanes_(*this, bank, count, &wanted_[block], start));
            block += count;
            bank += count;
        }
        for (; block < end; ++block) all.add(use_bank(bank++, start + wanted_[block], block_cycles_));
    }
    return all;
}

/// Uses one block at every bank, and that again and again.
Sram::Banks Sram::use_rounds(size_t bank, uint32_t rounds, int32_t start) {
    Banks all;
    for (uint32_t round = 0; round < rounds; ++round, start += round_cycles_)
        all.add(use_lanes_(*this, 0, banks_.value(), &turns_[bank * banks_.value()], start));
    return all;
}

[[gnu::always_inline]] inline Sram::Banks Sram::use_lanes(Sram& sram, size_t bank, size_t count,
                                                          const int32_t* wanted, int32_t start) {
    Lanes wait{}, end{};
    int32_t* const bank_free = &sram.bank_free_[bank];
    const int32_t cycles = sram.block_cycles_;
    for (size_t i = 0; i < count; i += lanes) {
        Lanes want, free;
        std::memcpy(&want, wanted + i, sizeof want);
        std::memcpy(&free, bank_free + i, sizeof free);
        want += start;
        const Lanes begin = want > free ? want : free, done = begin + cycles, waited = begin - want;
        std::memcpy(bank_free + i, &done, sizeof done);
        wait = wait > waited ? wait : waited;
        end = end > done ? end : done;
    }
    Banks all;
    for (size_t lane = 0; lane < lanes; ++lane) all.add({end[lane], wait[lane]});
    return all;
}

/// The same, compiled for machines that have a maximum of integers.
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
Sram::Banks
Sram::use_lanes_wide(Sram& sram, size_t bank, size_t count, const int32_t* wanted, int32_t start) {
    return use_lanes(sram, bank, count, wanted, start);
}

void Sram::rebase(Cycles base) {
    const Cycles passed = base - base_;
    for (int32_t& free : bank_free_)
        free =
            static_cast<Cycles>(free) > passed ? static_cast<int32_t>(static_cast<Cycles>(free) - passed) : 0;
    base_ = base;
}

void Sram::throw_overflow() const {
    throw UserError(
        "accesses to an SRAM take longer than 2^28 cycles. Fix: raise its bank_width_bytes and "
        "bytes_per_cycle, or lower its interleave_bytes and the burst_bytes of its DMA engines.");
}

}  // namespace kpu::model
