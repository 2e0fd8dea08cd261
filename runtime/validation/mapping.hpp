#pragma once
// A layer with the loops that ran: "L3[WIO] P7 Q14 - L2[WI] N1 K16X - L1[O] K4 R3 C16X - L0[W] Q4".
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/module.hpp"
#include "platforms/platform.hpp"

namespace kpu::validation {

/// Dimensions of a layer: channels in and out, rows and columns out, rows and columns of the window.
enum class Dim : uint8_t { c, k, p, q, r, s };
constexpr size_t dim_count = 6;
using Extents = std::array<int64_t, dim_count>;

struct Mapped {
    Extents extents{};
    int64_t stride = 1;
    struct Loop {
        Dim dim;
        int64_t count;
    };
    std::vector<Loop> outer;  ///< loops of L3, from the outermost on: each pass loads the tile of operands
    Extents tile{};           ///< extents of one pass
    Extents inmost{};         ///< extents of L0: what one weight is used for
    int64_t spatial_c = 1, spatial_k = 1;
    int64_t at(Dim dim) const { return extents[static_cast<size_t>(dim)]; }
    int64_t tile_at(Dim dim) const { return tile[static_cast<size_t>(dim)]; }
    int64_t pad() const { return (at(Dim::r) - 1) / 2; }
    int64_t passes() const;
    double macs() const;
    std::string text() const;
};

/// Throws UserError, without a place, where the text is no mapping or its factors do not make the layer.
Mapped parse_mapping(std::string_view text, const Extents& extents, int64_t stride);

/// Returns the program that does exactly this: loads of a pass go beside the products of the one before.
/// Throws UserError where its tiles do not fit, or its passes are too many to simulate.
Module mapped_schedule(const Mapped& mapped, const platforms::Platform& platform);

}  // namespace kpu::validation
