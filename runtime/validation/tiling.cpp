#include "runtime/validation/tiling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <tuple>

#include "base/diagnostics.hpp"
#include "runtime/validation/span.hpp"

namespace kpu::validation {
namespace {

/// Tiles a product: blocks of the array's side along rows, columns and the sum, from nearly square ones on,
/// one more of each in turn as long as they fit.
Tiles tiles_of_product(const Work& work, const Budget& budget) {
    const int64_t side = budget.side;
    const int64_t most[] = {ceil_div(work.out_width, side), ceil_div(work.out_channels, side),
                            ceil_div(work.in_channels, side)};
    const int64_t operands = budget.operand_rows / side, sums = budget.sum_rows / side;
    const auto root = static_cast<int64_t>(std::sqrt(double(sums)));
    std::array<int64_t, 3> tile{std::min(most[0], root), std::min(most[1], root),
                                std::min(most[2], operands / 2 / root)};
    const auto fits = [&](const std::array<int64_t, 3>& t) {
        return (t[0] + t[1]) * t[2] <= operands && t[0] * t[1] <= sums && t[0] <= most[0] &&
               t[1] <= most[1] && t[2] <= most[2];
    };
    for (bool grown = true; grown;) {
        grown = false;
        for (const size_t axis : {size_t{1}, size_t{0}, size_t{2}}) {
            std::array<int64_t, 3> larger = tile;
            ++larger[axis];
            if (fits(larger)) tile = larger, grown = true;
        }
    }
    return {1, std::min(work.out_width, tile[0] * side), std::min(work.out_channels, tile[1] * side),
            std::min(work.in_channels, tile[2] * side)};
}

struct Choice {
    Tiles tiles;
    int64_t from_total = std::numeric_limits<int64_t>::max(), from_walks = 0, idle = 0, columns = 0;
    bool found() const { return from_total != std::numeric_limits<int64_t>::max(); }
    bool better_than(const Choice& other) const {
        return std::tie(from_total, from_walks, idle, columns) <
               std::tie(other.from_total, other.from_walks, other.idle, other.columns);
    }
};

bool fits(const Work& work, const Budget& budget, const Tiles& tiles) {
    const int64_t rows = Tiles::unpooled(work, tiles.height), columns = Tiles::unpooled(work, tiles.width);
    const int64_t across = ceil_div(tiles.filters, budget.side), deep = ceil_div(tiles.channels, budget.side);
    const auto in = [&](int64_t out) { return (out - 1) * work.stride + work.kernel; };
    return rows * columns * across <= budget.sum_rows &&
           in(rows)*in(columns)*deep + work.kernel * work.kernel * tiles.channels * across <=
               budget.operand_rows;
}

/// Returns the rows of the array's side that rows of pixels leave idle, over all tiles: the software keeps
/// the array full.
int64_t idle_rows(const Work& work, const Budget& budget, const Tiles& tiles) {
    const auto idle = [&](int64_t pooled) {
        const int64_t pixels = Tiles::unpooled(work, pooled);
        return ceil_div(pixels, budget.side) * budget.side - pixels;
    };
    const int64_t width = pooled_width(work), whole = width / tiles.width, rest = width % tiles.width;
    return ceil_div(pooled_height(work), tiles.height) *
           (whole * idle(tiles.width) + (rest > 0 ? idle(rest) : 0));
}

/// Chooses the tiles of a convolution: as many as the row says; of equals those that leave the array idle
/// least, then the widest.
Choice best_choice(const MeasuredRow& row, const Budget& budget, bool as_walked) {
    const Work& work = row.work;
    const int64_t height = pooled_height(work), width = pooled_width(work), side = budget.side;
    Choice best;
    for (int64_t deep = 1; deep <= ceil_div(work.in_channels, side); ++deep) {
        for (int64_t across = 1; across <= ceil_div(work.out_channels, side); ++across) {
            Tiles tiles{1, 1, std::min(work.out_channels, across * side),
                        std::min(work.in_channels, deep * side)};
            const int64_t walks = ceil_div(work.out_channels, tiles.filters);
            if (as_walked && row.tiles.over_filters > 0 && walks != row.tiles.over_filters) continue;
            for (tiles.height = 1; tiles.height <= height; ++tiles.height) {
                for (tiles.width = 1; tiles.width <= width && fits(work, budget, tiles); ++tiles.width) {
                    const int64_t spots = ceil_div(height, tiles.height) * ceil_div(width, tiles.width);
                    Choice choice{tiles, std::llabs(tiles.count(work) - row.tiles.total),
                                  row.tiles.over_pixels > 0 ? std::llabs(spots - row.tiles.over_pixels) : 0,
                                  idle_rows(work, budget, tiles), ceil_div(width, tiles.width)};
                    if (choice.better_than(best)) best = choice;
                }
            }
        }
    }
    return best;
}

Tiles tiles_of_convolution(const MeasuredRow& row, const Budget& budget) {
    Choice best = best_choice(row, budget, true);
    if (!best.found()) best = best_choice(row, budget, false);
    if (!best.found()) throw UserError("no tile fits half of L1. Fix: a platform with a larger engine.l1.");
    return best.tiles;
}

}  // namespace

Budget budget_of(const platforms::Platform& platform) {
    const auto engines = platforms::engines_of(platform);
    const proto::Engine& engine = engines.at(0).get();
    Budget budget;
    budget.side = engine.array().cols();
    const int64_t third = static_cast<int64_t>(engine.l1().size_bytes()) / 3 / 2;
    budget.operand_rows = 2 * third / budget.side;
    budget.sum_rows = third / (4 * budget.side);
    if (budget.sum_rows < budget.side || budget.operand_rows < 2 * budget.side)
        throw UserError(fmt::format(
            "{}: {} bytes of L1 hold no tiles of an array {} wide. Fix: set engine.l1.size_bytes.",
            platform.name(), engine.l1().size_bytes(), budget.side));
    return budget;
}

int64_t pooled_height(const Work& work) {
    return std::max<int64_t>(1, (work.out_height - work.pool) / work.pool_stride + 1);
}
int64_t pooled_width(const Work& work) {
    return std::max<int64_t>(1, (work.out_width - work.pool) / work.pool_stride + 1);
}

int64_t Tiles::count(const Work& work) const {
    return ceil_div(pooled_height(work), height) * ceil_div(pooled_width(work), width) *
           ceil_div(work.out_channels, filters) * ceil_div(work.in_channels, channels);
}

Tiles tiles_of(const MeasuredRow& row, const Budget& budget) {
    return row.work.kind == Work::Kind::product ? tiles_of_product(row.work, budget)
                                                : tiles_of_convolution(row, budget);
}

}  // namespace kpu::validation
