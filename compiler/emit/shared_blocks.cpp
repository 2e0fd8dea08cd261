#include "compiler/emit/shared_blocks.hpp"

#include <algorithm>

namespace kpu::compiler {

std::optional<int64_t> SharedBlocks::find(const Block& block) const {
    const auto found = places_.find(block);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> SharedBlocks::add(const Block& block) {
    const auto& [tile, shape] = cuts_.at(block.value);
    for (size_t d = 0; d < tile.rank; ++d) {
        const int64_t first = block.first[d];
        if (first % tile[d] != 0 || block.count[d] != std::min(tile[d], shape[d] - first))
            return std::nullopt;
    }
    const Storage& storage = memory_.storages[memory_.shared.at(block.value)];
    uint64_t& used = used_[block.value];
    const uint64_t size = align_up(packed_bytes(block.elem, static_cast<uint64_t>(block.count.product())));
    if (used + size > storage.bytes) return std::nullopt;
    const auto at = static_cast<int64_t>(storage.address + used);
    places_[block] = at;
    used += size;
    return at;
}

}  // namespace kpu::compiler
