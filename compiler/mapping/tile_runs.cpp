#include "compiler/mapping/tile_runs.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/mapping/staging.hpp"

namespace kpu::compiler {

Runs TileRuns::runs(size_t operand, const Dims& tile) const {
    const Dims& strides = request_.strides[operand];
    const bool packed = value(operand).constant() && !tiling_.follows(request_.op, operand, Walk::loop);
    int64_t run = 1, stride = 0;
    for (size_t d = tile.rank; d-- > 0;) {
        if (tile[d] == 1) continue;
        if (packed || (stride == 0 && strides[d] == run)) {
            run *= tile[d];
        } else if (stride == 0) {
            stride = strides[d];
        }
    }
    const double count = double(tile.product()) / double(run);
    const graph::Value& of = value(operand);
    const auto bytes = double(packed_bytes(of.elem, static_cast<uint64_t>(tile.product())));
    return {count, bytes / count, stride * bit_width(value(operand).elem) / 8,
            apart_at_home(request_, tiling_, operand),
            !tiling_.staged.empty() && tiling_.staged[operand].rank > 0};
}

double TileRuns::pin_cycles(size_t operand) const {
    const Target& target = request_.target;
    const Runs of = on_the_way(operand);
    const double moved = of.all() * burst_share(operand, of) * target.same_group(of);
    const double pages = target.closed_pages(of);
    return moved / target.ddr_bytes_per_cycle / channel_share(operand, of) + pages;
}

/// Returns the bytes of whole bursts over bytes that are needed, of all tiles: the last runs of a row may be
/// shorter.
double TileRuns::burst_share(size_t operand, const Runs& of) const {
    double bursts = request_.target.dram_bursts(of);
    double needed = of.bytes;
    const Dims whole = shape_of(value(operand)), tile = tile_of(operand);
    for (size_t d = tile.rank; of.count > 1 && d-- > 0;) {
        if (tile[d] == whole[d]) continue;
        const Window& window = request_.op.operands[operand].windows[d];
        if (window.axis < 0 || window.slides()) break;
        const auto axis = static_cast<size_t>(window.axis);
        const int64_t extent = request_.op.axes[axis].extent,
                      size = tiling_.on_the_way(request_.op, operand, axis);
        const double full = double(extent / size), rest = of.bytes * double(extent % size) / double(size);
        Runs last = of;
        last.bytes = rest;
        bursts = full * bursts + (rest > 0 ? request_.target.dram_bursts(last) : 0);
        needed = full * needed + rest;
        break;
    }
    return bursts * dram_burst_bytes / needed;
}

double TileRuns::channel_share(size_t operand, const Runs& of) const {
    const Dims whole = shape_of(value(operand)), tile = tile_of(operand);
    double beside = 1;  // lanes that work on the same rows
    for (size_t d = tile.rank; d-- > 0;) {
        if (tile[d] == whole[d]) continue;
        const int axis = request_.op.operands[operand].windows[d].axis;
        if (axis >= 0) beside = double(tiling_.split[static_cast<size_t>(axis)]);
        break;
    }
    return request_.target.channel_share(of, beside);
}

}  // namespace kpu::compiler
