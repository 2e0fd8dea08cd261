#include "isa/data_section.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/diagnostics.hpp"
#include "base/digest.hpp"

namespace kpu {

struct DataSection::Pending {
    std::once_flag once;
    Check check;
};

DataSection DataSection::of(std::string bytes) {
    DataSection section;
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    section.bytes_ = *owner;
    section.owner_ = std::move(owner);
    return section;
}

DataSection DataSection::mapped(std::string_view bytes, std::shared_ptr<const void> mapping, Check check) {
    DataSection section;
    section.bytes_ = bytes;
    section.owner_ = std::move(mapping);
    section.pending_ = std::make_shared<Pending>();
    section.pending_->check = std::move(check);
    return section;
}

DataSection DataSection::promised(uint64_t size) {
    DataSection section;
    section.promised_ = size;
    return section;
}

void DataSection::check() const {
    if (promised_ > 0) throw InternalError("bytes are read of a program that was made without them");
    if (!pending_) return;
    std::call_once(pending_->once, [this] {
        pending_->check(bytes_);
        give_back(bytes_);
    });
}

/// Gives whole pages back to the system only: those at the ends may hold what is a neighbour's. They come
/// back when they are read again.
void DataSection::give_back(std::string_view bytes) const {
    constexpr uintptr_t page = 4096;
    if (!pending_) return;
    const uintptr_t first = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
    const uintptr_t last = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
    if (first < last)
        madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);  // NOLINT: an address
}

std::string_view DataSection::bytes() const {
    check();
    return bytes_;
}

void DataSection::read_once(const std::function<void(uint64_t, std::string_view)>& take) const {
    constexpr size_t block_bytes = 4 << 20;
    check();
    for (size_t at = 0; at < bytes_.size(); at += block_bytes) {
        const std::string_view block = bytes_.substr(at, std::min(block_bytes, bytes_.size() - at));
        take(at, block);
        give_back(block);
    }
}

uint32_t DataSection::crc() const { return has_crc_ ? recorded_crc_ : crc32c(bytes()); }

}  // namespace kpu
