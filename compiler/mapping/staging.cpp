#include "compiler/mapping/staging.hpp"

#include <algorithm>
#include <numeric>

namespace kpu::compiler {
namespace {

int64_t width_of(const TilingRequest& request, size_t operand) {
    return bit_width(request.graph.value(request.op.operands[operand].value).elem) / 8;
}

/// Its bytes in L1 are its own, and it has a tile in the staging place that may have any layout there.
bool may_have_gaps(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    if (request.homes[operand] != Home::ddr || tiling.keep[operand] != Keep::no) return false;
    const graph::Value& value = request.graph.value(request.op.operands[operand].value);
    return !value.constant() && bit_width(value.elem) >= 8 &&
           std::count(tiling.place.begin(), tiling.place.end(), operand) == 1 &&
           tiling.place[operand] == operand;
}

/// Rows as far apart as at home, but for whole bursts.
Dims strides_like_home(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    const Dims tile = tile_shape(request.graph, request.op, operand, tiling.tile);
    const Dims& home = request.strides[operand];
    const int64_t burst = request.target.cut_bytes / width_of(request, operand);
    Dims strides = tile;
    int64_t next = 1;
    for (size_t d = tile.rank; d-- > 0;) {
        strides[d] = next;
        if (tile[d] == 1) continue;
        strides[d] += ((home[d] - next) % burst + burst) % burst;
        next += strides[d] * (tile[d] - 1);
    }
    return strides;
}

}  // namespace

int64_t apart_at_home(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    const TileOperand& of = request.op.operands[operand];
    const graph::Value& value = request.graph.value(of.value);
    if (value.constant() || request.homes[operand] != Home::ddr) return 0;  // packed, or nearly so
    int64_t apart = 0;
    for (size_t d = 0; d < of.windows.size(); ++d) {
        const Window& window = of.windows[d];
        if (window.axis < 0 || tiling.tiles(request.op, static_cast<size_t>(window.axis)) == 1) continue;
        const int64_t stride = request.strides[operand][d] * bit_width(value.elem) / 8;
        apart = std::gcd(apart, tiling.tile[static_cast<size_t>(window.axis)] * window.step * stride);
        apart = std::gcd(apart, window.before * stride);
    }
    return apart;
}

std::vector<Dims> staged_strides(const TilingRequest& request, const Tiling& tiling) {
    std::vector<Dims> result(request.op.operands.size());
    if (request.target.cut_bytes == 0) return result;
    Tiling trial = tiling;
    trial.staged = result;
    bool any = false;
    for (size_t i = 0; i < result.size(); ++i) {
        if (!may_have_gaps(request, tiling, i)) continue;
        const Dims strides = strides_like_home(request, tiling, i);
        const Dims packed = row_major(tile_shape(request.graph, request.op, i, tiling.tile));
        if (strides == packed && apart_at_home(request, tiling, i) % request.target.cut_bytes == 0) continue;
        trial.staged[i] = strides;
        any = true;
    }
    if (!any) return result;
    const auto room =
        static_cast<int64_t>(request.arena_bytes * (tiling.l1_bytes() > request.arena_bytes ? 2 : 1));
    const bool fits = staged_offsets(request.graph, request.op, trial, request.homes).back() <= room;
    return fits ? trial.staged : result;
}

uint64_t staged_bytes(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand) {
    const Dims& strides = tiling.staged[operand];
    if (strides.rank == 0) return align_up(tile_bytes(graph, op, operand, tiling.tile));
    const Dims tile = tile_shape(graph, op, operand, tiling.tile);
    int64_t elements = 1;
    for (size_t d = 0; d < tile.rank; ++d) elements += strides[d] * (tile[d] - 1);
    // it begins anywhere within a burst
    return align_up(
        packed_bytes(graph.value(op.operands[operand].value).elem, static_cast<uint64_t>(elements)) +
        tile_align);
}

std::vector<int64_t> staged_offsets(const graph::Graph& graph, const TileOp& op, const Tiling& tiling,
                                    const std::vector<Home>& homes) {
    std::vector<bool> used(op.operands.size(), false);
    for (size_t i = 0; i < used.size(); ++i) {
        if (is_in_ddr(homes[i]) && op.operands[i].place != Place::internal) used[tiling.place[i]] = true;
    }
    std::vector<int64_t> offsets;
    int64_t next = 0;
    for (size_t i = 0; i < used.size(); ++i) {
        offsets.push_back(next);
        if (used[i]) next += static_cast<int64_t>(staged_bytes(graph, op, tiling, i)) * tiling.slots(op, i);
    }
    offsets.push_back(next);
    return offsets;
}

}  // namespace kpu::compiler
