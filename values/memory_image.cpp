#include "values/memory_image.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/diagnostics.hpp"

namespace kpu::values {
namespace {

constexpr uint64_t bits_per_word = 64;

uint64_t map_bytes_of(uint64_t size) { return (size / bits_per_word + 1) * sizeof(uint64_t); }

void* map_zero_pages(uint64_t bytes) {
    // MAP_NORESERVE: a level is as large as the device's, whatever the host has; only touched pages count
    void* p =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

/// Bits [first, last) of one word, 0 <= first < last <= 64.
uint64_t word_mask(uint64_t first, uint64_t last) {
    const uint64_t width = last - first;
    return (width == bits_per_word ? ~uint64_t{0} : (uint64_t{1} << width) - 1) << first;
}

}  // namespace

MemoryLevel::MemoryLevel(uint64_t size_bytes) : size_(size_bytes) {
    if (size_ == 0) return;
    constexpr uint64_t limit = uint64_t{1} << 46;
    if (size_ <= limit) {
        data_ = static_cast<uint8_t*>(map_zero_pages(size_));
        written_ = static_cast<uint64_t*>(map_zero_pages(map_bytes_of(size_)));
    }
    if (data_ == nullptr || written_ == nullptr) {
        release();
        throw UserError(fmt::format(
            "cannot reserve {} bytes of address space for a memory level. Fix: use a smaller memory.",
            size_bytes));
    }
}

MemoryLevel::MemoryLevel(MemoryLevel&& other) noexcept
    : size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      written_(std::exchange(other.written_, nullptr)) {}

MemoryLevel& MemoryLevel::operator=(MemoryLevel&& other) noexcept {
    if (this != &other) {
        release();
        size_ = std::exchange(other.size_, 0);
        data_ = std::exchange(other.data_, nullptr);
        written_ = std::exchange(other.written_, nullptr);
    }
    return *this;
}

MemoryLevel::~MemoryLevel() { release(); }

void MemoryLevel::release() noexcept {
    if (data_ != nullptr) munmap(data_, size_);
    if (written_ != nullptr) munmap(written_, map_bytes_of(size_));
    data_ = nullptr;
    written_ = nullptr;
}

void MemoryLevel::check_range(uint64_t address, uint64_t count) const {
    if (address > size_ || count > size_ - address) {
        throw InternalError(
            fmt::format("access to bytes [{}, +{}) of a memory level of {} bytes", address, count, size_));
    }
}

void MemoryLevel::write(uint64_t address, const void* bytes, uint64_t count) {
    check_range(address, count);
    if (count == 0) return;
    std::memmove(data_ + address, bytes, count);
    mark_written(address, count);
}

void MemoryLevel::mark_written(uint64_t address, uint64_t count) {
    check_range(address, count);
    if (count == 0) return;
    const uint64_t last = address + count;
    uint64_t word = address / bits_per_word;
    const uint64_t last_word = (last - 1) / bits_per_word;
    const uint64_t first_bit = address % bits_per_word;
    const uint64_t end_bit = (last - 1) % bits_per_word + 1;
    if (word == last_word) {
        written_[word] |= word_mask(first_bit, end_bit);
        return;
    }
    written_[word++] |= word_mask(first_bit, bits_per_word);
    std::fill(written_ + word, written_ + last_word, ~uint64_t{0});
    written_[last_word] |= word_mask(0, end_bit);
}

bool MemoryLevel::all_written(uint64_t address, uint64_t count) const {
    return first_unwritten(address, count) == address + count;
}

uint64_t MemoryLevel::first_unwritten(uint64_t address, uint64_t count) const {
    check_range(address, count);
    const uint64_t end = address + count;
    uint64_t at = address;
    constexpr uint64_t chunk = 8;  // words at once, as long as nothing is missing
    while (at < end) {
        const uint64_t word = at / bits_per_word;
        if (at % bits_per_word == 0 && end - at >= chunk * bits_per_word) {
            uint64_t all = ~uint64_t{0};
            for (uint64_t i = 0; i < chunk; ++i) all &= written_[word + i];
            if (all == ~uint64_t{0}) {
                at += chunk * bits_per_word;
                continue;
            }
        }
        const uint64_t missing = ~written_[word] >> (at % bits_per_word);
        if (missing != 0) {
            return std::min(end, at + static_cast<uint64_t>(__builtin_ctzll(missing)));
        }
        at = (word + 1) * bits_per_word;
    }
    return end;
}

void MemoryLevel::reset() {
    if (size_ == 0) return;
    // private anonymous pages read as zero after MADV_DONTNEED
    if (madvise(data_, size_, MADV_DONTNEED) != 0 ||
        madvise(written_, map_bytes_of(size_), MADV_DONTNEED) != 0) {
        throw InternalError("a memory level could not be reset");
    }
}

void MemoryMap::set(Level level, unsigned engine, MemoryLevel* storage) {
    if (level == Level::ddr) {
        ddr_ = storage;
    } else if (level == Level::l2) {
        l2_ = storage;
    } else {
        if (engine >= l1_.size()) l1_.resize(engine + 1, nullptr);
        l1_[engine] = storage;
    }
}

const MemoryLevel& MemoryMap::level(Level level, unsigned engine) const {
    const MemoryLevel* found = level == Level::ddr ? ddr_ : level == Level::l2 ? l2_ : nullptr;
    if (level == Level::l1 && engine < l1_.size()) found = l1_[engine];
    if (found == nullptr) {
        throw InternalError(fmt::format("{}[{}] does not exist: {} engines have an L1 here", name_of(level),
                                        engine, l1_.size()));
    }
    return *found;
}

MemoryLevel& MemoryMap::level(Level level, unsigned engine) {
    return const_cast<MemoryLevel&>(std::as_const(*this).level(level, engine));
}

MemoryImage::MemoryImage(uint64_t ddr_bytes, uint64_t l2_bytes, const std::vector<uint64_t>& l1_bytes)
    : ddr_(ddr_bytes), l2_(l2_bytes) {
    l1_.reserve(l1_bytes.size());
    for (const uint64_t bytes : l1_bytes) l1_.emplace_back(bytes);
    map_levels();
}

MemoryImage::MemoryImage(MemoryImage&& other) noexcept
    : ddr_(std::move(other.ddr_)), l2_(std::move(other.l2_)), l1_(std::move(other.l1_)) {
    map_levels();
}

void MemoryImage::map_levels() {
    set(Level::ddr, 0, &ddr_);
    set(Level::l2, 0, &l2_);
    for (unsigned k = 0; k < l1_.size(); ++k) set(Level::l1, k, &l1_[k]);
}

void MemoryImage::reset() {
    ddr_.reset();
    l2_.reset();
    for (auto& level : l1_) level.reset();
}

}  // namespace kpu::values
