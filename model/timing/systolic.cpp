#include "model/timing/systolic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"

namespace kpu::timing {

namespace {

__extension__ typedef unsigned __int128 Wide;

uint64_t ceil_div(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// The stationary operand is tiled rows x cols; `stream` vectors pass through each tile.
struct Tiling {
    uint64_t down, across, stream;
    double used;  ///< stationary elements of one group
};

Tiling tiling_of(const SystolicArray& array, const GemmShape& s) {
    switch (array.dataflow) {
        case proto::SystolicArray::os:
            return {ceil_div(s.m, array.rows), ceil_div(s.n, array.cols), s.k, double(s.m) * double(s.n)};
        case proto::SystolicArray::ws:
            return {ceil_div(s.k, array.rows), ceil_div(s.n, array.cols), s.m, double(s.k) * double(s.n)};
        case proto::SystolicArray::is:
            return {ceil_div(s.k, array.rows), ceil_div(s.m, array.cols), s.n, double(s.k) * double(s.m)};
    }
    throw InternalError("unknown dataflow");
}

void count_traffic(const SystolicArray& array, const GemmShape& s, const Tiling& tiles, SystolicTime& time) {
    switch (array.dataflow) {
        case proto::SystolicArray::os:
            time.a_reads = s.m * s.k * tiles.across;
            time.b_reads = s.k * s.n * tiles.down;
            time.writes = s.m * s.n;
            break;
        case proto::SystolicArray::ws:
            time.a_reads = s.m * s.k * tiles.across;
            time.b_reads = s.k * s.n;
            time.writes = s.m * s.n * tiles.down;
            break;
        case proto::SystolicArray::is:
            time.a_reads = s.m * s.k;
            time.b_reads = s.k * s.n * tiles.across;
            time.writes = s.m * s.n * tiles.down;
            break;
    }
    if (array.timing == proto::SystolicArray::physical) time.partial_reads = time.writes - s.m * s.n;
    time.a_reads *= s.groups;
    time.b_reads *= s.groups;
    time.writes *= s.groups;
    time.partial_reads *= s.groups;
}

/// Computes the terms of `compat`: every fold pays its whole fill; one cycle less per layer, as the reference
/// tool counts.
void compat_terms(const SystolicArray& array, uint64_t groups, uint64_t per_fold, SystolicTime& time) {
    const bool os = array.dataflow == proto::SystolicArray::os;
    const uint64_t load = os ? 0 : array.rows, skew = array.rows + array.cols - 2;
    time.steady = time.folds * per_fold;
    time.fill = time.folds * skew;
    time.weight_load = time.folds * load;
    // the last cycle of each layer comes out of the fill, or of what there is where it is shorter (1 x 1)
    Cycles& shortened = time.fill >= groups ? time.fill : os ? time.steady : time.weight_load;
    shortened -= groups;
    // In os the corner's sum is complete when its last operands are in, and the others follow along the skew.
    // The last cycle at the latest: results of the reference tool leave within its total.
    time.first_result = std::min<Cycles>(os ? per_fold : load + skew + 1, time.total() - (time.total() > 0));
    time.operands_in = time.occupancy = time.total();
}

/// Commands that a fold's stream goes in: `runs` times `full` commands of `command_rows` vectors and one of
/// `last`.
struct Commands {
    uint64_t runs = 1, full = 0, last = 0;
};
Commands commands_of(const SystolicArray& array, const GemmShape& shape, const Tiling& tiles) {
    const bool rows = array.dataflow == proto::SystolicArray::ws && shape.run > 0;
    const uint64_t run = rows ? std::min(shape.run, tiles.stream) : tiles.stream;
    if (array.command_rows == 0) return {1, 0, tiles.stream};
    return {ceil_div(tiles.stream, run), (run - 1) / array.command_rows, (run - 1) % array.command_rows + 1};
}

/// Returns the time of one command of so many vectors.
double command_time(const SystolicArray& array, uint64_t vectors) {
    return std::max(double(vectors) / array.rate, double(array.command_cycles));
}

/// Returns the cycles of a fold's stream: no command follows another sooner than `command_cycles`.
uint64_t stream_cycles(const SystolicArray& array, const GemmShape& shape, const Tiling& tiles) {
    const double rate_bound = double(tiles.stream) / array.rate;
    if (array.command_cycles == 0 || array.timing == proto::SystolicArray::compat ||
        array.dataflow == proto::SystolicArray::os)
        return static_cast<uint64_t>(std::ceil(rate_bound));
    const Commands commands = commands_of(array, shape, tiles);
    const double all =
        double(commands.runs) * (double(commands.full) * command_time(array, array.command_rows) +
                                 command_time(array, commands.last));
    return static_cast<uint64_t>(std::ceil(all));
}

/// Returns the cycles of a fold's stream after which the next fold's stationary elements enter: those of its
/// last command.
uint64_t last_command_cycles(const SystolicArray& array, const GemmShape& shape, const Tiling& tiles,
                             uint64_t per_fold) {
    if (array.command_rows == 0 || array.dataflow == proto::SystolicArray::os) return per_fold;
    return static_cast<uint64_t>(std::ceil(command_time(array, commands_of(array, shape, tiles).last)));
}

/// Computes the terms of `physical`: folds follow each other at the slower of streaming and draining (os) or
/// reloading weights (ws, is), which is hidden by the last `behind` cycles of a stream.
void physical_terms(const SystolicArray& array, uint64_t per_fold, uint64_t behind, SystolicTime& time) {
    const uint64_t pace = per_fold + (array.rows > behind ? array.rows - behind : 0);
    time.steady = time.folds * per_fold;
    time.waits = (time.folds - 1) * (pace - per_fold);
    time.operands_in = time.steady + time.waits;
    if (array.dataflow == proto::SystolicArray::os) {
        time.fill = array.rows + array.cols - 2;
        time.drain = array.rows;
        time.first_result = array.rows + per_fold - 1;
        // a fold may end no sooner than the one before has drained, however long that one was
        time.occupancy = time.operands_in;
        time.entry_gap = pace - per_fold;
    } else {
        time.weight_load = array.rows;
        time.fill = array.rows - 1;
        time.drain = array.cols;
        time.first_result = 2 * array.rows;
        time.operands_in += array.rows;
        time.stationary_in = time.operands_in - per_fold;
        // a weight load takes as long as the array is tall, however short the stream that hides it
        time.occupancy = time.folds * pace;
    }
}

}  // namespace

uint64_t SystolicArray::peak_q16() const {
    return static_cast<uint64_t>(std::llround(double(rows) * double(cols) * rate * 65536.0));
}

SystolicTime systolic_time(const SystolicArray& array, const GemmShape& shape) {
    SystolicTime time;
    if (shape.macs() == 0) return time;
    const Tiling tiles = tiling_of(array, shape);
    time.folds = tiles.down * tiles.across * shape.groups;
    const uint64_t per_fold = stream_cycles(array, shape, tiles);
    if (array.timing == proto::SystolicArray::compat) {
        compat_terms(array, shape.groups, per_fold, time);
    } else {
        physical_terms(array, per_fold, last_command_cycles(array, shape, tiles, per_fold), time);
    }
    const auto useful = static_cast<Cycles>((static_cast<Wide>(shape.macs()) << 16) / array.peak_q16());
    time.padding = time.steady - std::min(time.steady, useful);
    time.mapping_efficiency =
        tiles.used * double(shape.groups) / (double(time.folds) * double(array.rows * array.cols));
    count_traffic(array, shape, tiles, time);
    return time;
}

Cycles back_to_back_cycles(const SystolicArray& array, const std::vector<GemmShape>& shapes) {
    Cycles start = 0, end = 0;
    for (const GemmShape& shape : shapes) {
        const SystolicTime time = systolic_time(array, shape);
        if (end > 0) start += time.entry_gap;
        end = start + time.total();
        start += time.occupancy;
    }
    return end;
}

GemmShape gemm_shape(const BoundProgram& program, const BoundTask& task) {
    const OpcodeSpec& spec = opcode(task.opcode);
    const Dims& first = program.regions.at(task.inputs.at(0)).shape;
    const Dims& second = program.regions.at(task.inputs.at(1)).shape;
    const Dims& result = program.regions.at(task.outputs.at(0)).shape;
    GemmShape shape;
    if (spec.macs == nullptr) throw InternalError(fmt::format("{} does not run on an array", spec.name));
    if (spec.window_rank == 0) {
        shape.m = static_cast<uint64_t>(result[result.rank - 2]);
        shape.n = static_cast<uint64_t>(result[result.rank - 1]);
        shape.k = static_cast<uint64_t>(first[first.rank - 1]);
        for (int i = 0; i + 2 < result.rank; ++i) shape.groups *= static_cast<uint64_t>(result[size_t(i)]);
    } else if (
        spec.transposed) {  // X with each tap of the window; results that overlap are added on the way out
        const auto channels = static_cast<uint64_t>(first[first.rank - 1]);
        shape.groups = static_cast<uint64_t>(conv_groups(spec, task.attrs, first[first.rank - 1]));
        shape.m = static_cast<uint64_t>(first.product()) / channels;
        shape.k = channels / shape.groups;
        shape.n = static_cast<uint64_t>(second.product()) / channels;
    } else {
        const auto channels = static_cast<uint64_t>(result[result.rank - 1]);
        shape.groups = static_cast<uint64_t>(conv_groups(spec, task.attrs, first[first.rank - 1]));
        shape.m = static_cast<uint64_t>(result.product()) / channels;
        shape.n = channels / shape.groups;
        shape.k = static_cast<uint64_t>(second.product()) / channels;
        shape.run = static_cast<uint64_t>(result[result.rank - 2]);
        shape.blocks = static_cast<uint64_t>(task.attrs.integer("blocks", 1));
    }
    return shape;
}

std::string rate_name(ElemType a, ElemType b) {
    return a == b ? std::string(name_of(without_es(a)))
                  : fmt::format("{}x{}", name_of(without_es(a)), name_of(without_es(b)));
}

SystolicArray array_for(const proto::SystolicArray& array, ElemType a, ElemType b) {
    const std::string type = rate_name(a, b);
    for (const proto::MacRate& rate : array.rate()) {
        if (rate.type() == type) {
            return {array.rows(),    array.cols(),         array.dataflow(),      array.timing(),
                    rate.relative(), array.command_rows(), array.command_cycles()};
        }
    }
    throw UserError(fmt::format(
        "the array has no MAC rate for operands {}. Fix: add a `rate` row for type {} to engine.array.", type,
        type));
}

}  // namespace kpu::timing
