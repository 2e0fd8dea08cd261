#include "compiler/mapping/staging.hpp"

#include <algorithm>
#include <numeric>

#include "compiler/mapping/tile_runs.hpp"

namespace kpu::compiler {
namespace {

int64_t width_of(const TilingRequest& request, size_t operand) {
    return bit_width(request.graph.value(request.op.operands[operand].value).elem) / 8;
}

/// True if its bytes in L1 are its own, and it has a tile in the staging place that may have any layout
/// there.
bool may_have_gaps(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    if (request.homes[operand] != Home::ddr || tiling.keep[operand] != Keep::no) return false;
    const graph::Value& value = request.graph.value(request.op.operands[operand].value);
    return !value.constant() && bit_width(value.elem) >= 8 &&
           std::count(tiling.place.begin(), tiling.place.end(), operand) == 1 &&
           tiling.place[operand] == operand;
}

/// True if its parts of a sum that is cut may come together.
bool may_come_in_chunks(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    return may_have_gaps(request, tiling, operand) && !tiling.hoisted[operand] &&
           request.op.operands[operand].place == Place::input && tiling.parts(request.op, operand) > 1;
}

/// Returns the rows as far apart as at home, but for whole bursts.
Dims strides_like_home(const TilingRequest& request, const Tiling& tiling, size_t operand) {
    const Dims tile = shape_on_the_way(request.graph, request.op, tiling, operand);
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

/// True if it fits: a stage that has both halves of L1 has both of the staging place.
bool fits_staging(const TilingRequest& request, const Tiling& tiling) {
    const uint64_t room = request.staging_bytes * (tiling.l1_bytes() > request.arena_bytes ? 2 : 1);
    const int64_t taken = staged_offsets(request.graph, request.op, tiling, request.homes).back();
    return static_cast<uint64_t>(taken) <= room;
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
        apart = std::gcd(apart, tiling.on_the_way(request.op, operand, static_cast<size_t>(window.axis)) *
                                    window.step * stride);
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
        const bool chunks = tiling.chunk > 1 && may_come_in_chunks(request, tiling, i);
        if (chunks) trial.staged[i] = shape_of(request.graph.value(request.op.operands[i].value));
        const Dims strides = strides_like_home(request, trial, i);
        const Dims packed = row_major(shape_on_the_way(request.graph, request.op, trial, i));
        const bool alike =
            strides == packed && apart_at_home(request, trial, i) % request.target.cut_bytes == 0;
        trial.staged[i] = alike && !chunks ? Dims{} : strides;
        any = any || trial.staged[i].rank > 0;
    }
    if (!any) return result;
    return fits_staging(request, trial) ? trial.staged : result;
}

bool gains_by_chunks(const TilingRequest& request, const Tiling& tiling) {
    if (!tiling.cuts_sum(request.op)) return false;
    const TileRuns at_home(request, tiling);
    for (size_t i = 0; i < request.op.operands.size(); ++i) {
        if (may_come_in_chunks(request, tiling, i) && request.target.channel_share(at_home.runs(i)) < 1)
            return true;
    }
    return false;
}

bool staging_fits(const TilingRequest& request, const Tiling& tiling) {
    // packed tiles take no more than in L1
    return request.staging_bytes >= request.arena_bytes || fits_staging(request, tiling);
}

uint64_t staged_bytes(const graph::Graph& graph, const TileOp& op, const Tiling& tiling, size_t operand) {
    const Dims& strides = tiling.staged[operand];
    if (strides.rank == 0) return align_up(tile_bytes(graph, op, operand, tiling.tile));
    const Dims tile = shape_on_the_way(graph, op, tiling, operand);
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
        const bool kept = tiling.keep[i] != Keep::no;  // it stands in L2 anyhow
        if (is_in_ddr(homes[i]) && op.operands[i].place != Place::internal && !kept)
            used[tiling.place[i]] = true;
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
