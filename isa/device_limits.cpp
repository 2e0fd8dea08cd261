#include "isa/device_limits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/digest.hpp"

namespace kpu {

std::string legality_hash(const DeviceLimits& limits) {
    std::string text =
        fmt::format("engines {} l1 {} l2 {} tokens {} store_on_dma {}\n", limits.num_engines, limits.l1_bytes,
                    limits.l2_bytes, limits.max_active_tokens, limits.store_on_dma);
    text += fmt::format("units {}\narrays {}\n", fmt::join(limits.units, " "), fmt::join(limits.arrays, " "));
    std::vector<std::string> variants;  // sorted: their order decides nothing
    for (const TypeVariant& variant : limits.variants) variants.push_back(variant.name);
    std::sort(variants.begin(), variants.end());
    return sha256_hex(text + fmt::format("{}", fmt::join(variants, "\n")));
}

}  // namespace kpu
