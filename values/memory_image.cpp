#include "values/memory_image.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/diagnostics.hpp"

namespace kpu::values {
namespace {

constexpr uint64_t bits_per_word = 64, block_bytes = 4096;

uint64_t map_bytes_of(uint64_t size) { return (size / bits_per_word + 1) * sizeof(uint64_t); }
uint64_t full_bytes_of(uint64_t size) { return map_bytes_of(size / block_bytes); }

void* map_zero_pages(uint64_t bytes) {
    // MAP_NORESERVE: a level is as large as the device's, whatever the host has; only touched pages count
    void* p =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
}

/// Returns the bits [first, last) of one word, 0 <= first < last <= 64.
uint64_t word_mask(uint64_t first, uint64_t last) {
    const uint64_t width = last - first;
    return (width == bits_per_word ? ~uint64_t{0} : (uint64_t{1} << width) - 1) << first;
}

/// Bits [first, last) of a map.
void set_bits(uint64_t* map, uint64_t first, uint64_t last) {
    uint64_t word = first / bits_per_word;
    const uint64_t last_word = (last - 1) / bits_per_word;
    const uint64_t first_bit = first % bits_per_word;
    const uint64_t end_bit = (last - 1) % bits_per_word + 1;
    if (word == last_word) {
        map[word] |= word_mask(first_bit, end_bit);
        return;
    }
    map[word++] |= word_mask(first_bit, bits_per_word);
    std::fill(map + word, map + last_word, ~uint64_t{0});
    map[last_word] |= word_mask(0, end_bit);
}

/// Returns the first bit of [first, last) that is not set, or `last`.
uint64_t first_missing_bit(const uint64_t* map, uint64_t first, uint64_t last) {
    while (first < last) {
        const uint64_t word = first / bits_per_word;
        const uint64_t missing = ~map[word] >> (first % bits_per_word);
        if (missing != 0) return std::min(last, first + static_cast<uint64_t>(__builtin_ctzll(missing)));
        first = (word + 1) * bits_per_word;
    }
    return last;
}

}  // namespace

MemoryLevel::MemoryLevel(uint64_t size_bytes) : size_(size_bytes) {
    if (size_ == 0) return;
    constexpr uint64_t limit = uint64_t{1} << 46;
    if (size_ <= limit) {
        data_ = static_cast<uint8_t*>(map_zero_pages(size_));
        written_ = static_cast<uint64_t*>(map_zero_pages(map_bytes_of(size_)));
        full_ = static_cast<uint64_t*>(map_zero_pages(full_bytes_of(size_)));
    }
    if (data_ == nullptr || written_ == nullptr || full_ == nullptr) {
        release();
        throw UserError(fmt::format(
            "cannot reserve {} bytes of address space for a memory level. Fix: use a smaller memory.",
            size_bytes));
    }
}

MemoryLevel::MemoryLevel(MemoryLevel&& other) noexcept
    : size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      written_(std::exchange(other.written_, nullptr)),
      full_(std::exchange(other.full_, nullptr)) {}

MemoryLevel& MemoryLevel::operator=(MemoryLevel&& other) noexcept {
    if (this != &other) {
        release();
        size_ = std::exchange(other.size_, 0);
        data_ = std::exchange(other.data_, nullptr);
        written_ = std::exchange(other.written_, nullptr);
        full_ = std::exchange(other.full_, nullptr);
    }
    return *this;
}

MemoryLevel::~MemoryLevel() { release(); }

void MemoryLevel::release() noexcept {
    if (data_ != nullptr) munmap(data_, size_);
    if (written_ != nullptr) munmap(written_, map_bytes_of(size_));
    if (full_ != nullptr) munmap(full_, full_bytes_of(size_));
    data_ = nullptr;
    written_ = full_ = nullptr;
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
    const uint64_t first_block = (address + block_bytes - 1) / block_bytes, last_block = last / block_bytes;
    if (first_block >= last_block) return set_bits(written_, address, last);
    set_bits(full_, first_block, last_block);
    if (address < first_block * block_bytes) set_bits(written_, address, first_block * block_bytes);
    if (last > last_block * block_bytes) set_bits(written_, last_block * block_bytes, last);
}

bool MemoryLevel::all_written(uint64_t address, uint64_t count) const {
    return first_unwritten(address, count) == address + count;
}

uint64_t MemoryLevel::first_unwritten(uint64_t address, uint64_t count) const {
    check_range(address, count);
    const uint64_t end = address + count;
    uint64_t at = address;
    while (at < end) {
        const uint64_t block = at / block_bytes, stop = std::min(end, (block + 1) * block_bytes);
        if (!is_full(block)) {
            const uint64_t missing = first_missing_bit(written_, at, stop);
            if (missing < stop) return missing;
        }
        at = stop;
    }
    return end;
}

void MemoryLevel::reset() {
    if (size_ == 0) return;
    // private anonymous pages read as zero after MADV_DONTNEED
    if (madvise(data_, size_, MADV_DONTNEED) != 0 ||
        madvise(written_, map_bytes_of(size_), MADV_DONTNEED) != 0 ||
        madvise(full_, full_bytes_of(size_), MADV_DONTNEED) != 0) {
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
