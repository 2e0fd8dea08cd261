#include "runtime/validation/schedule.hpp"

#include <algorithm>
#include <optional>

#include "base/diagnostics.hpp"
#include "isa/builder.hpp"
#include "runtime/validation/movers.hpp"
#include "runtime/validation/span.hpp"

namespace kpu::validation {
namespace {

using namespace kpu::builder;

constexpr int64_t slice_blocks = 4;  ///< blocks of channels that one load brings, and one product multiplies

TensorType bytes_type(std::vector<Expr> shape) {
    return tensor(ElemType::i8, std::move(shape)).quant(per_tensor(1.0 / 64));
}

class Layer {
  public:
    Layer(const MeasuredRow& row, const platforms::Platform& platform)
        : work_(row.work),
          program_("measured"),
          tiles_(tiles_of(row, budget_of(platform))),
          movers_(program_, platform) {
        const Budget budget = budget_of(platform);
        operand_half_ = budget.operand_rows * budget.side,
        sum_half_ = budget.sum_rows * budget.side * sum_bytes;
        side_ = budget.side;
        const auto l2 = static_cast<int64_t>(platform.l2().size_bytes());
        const int64_t a = work_.in_height * work_.in_width * work_.in_channels;
        const int64_t b = work_.kernel * work_.kernel * work_.in_channels * work_.out_channels;
        const int64_t y = pooled_height(work_) * pooled_width(work_) * work_.out_channels;
        inputs_ = stores("A", a, l2), weights_ = stores("B", b, l2 - inputs_.in_l2);
        bias_ = program_.buffer("D", Level::ddr, sum_half_, 64);
        result_ = program_.buffer("Y", Level::ddr, y, 64);
        operands_ = program_.l1_buffer("operands", 0, 2 * operand_half_, 64);
        sums_ = program_.l1_buffer("sums", 0, 2 * sum_half_, 64);
    }

    Module build() {
        std::optional<Tile> before;
        for (const Span rows : cut(pooled_height(work_), tiles_.height))
            for (const Span columns : cut(pooled_width(work_), tiles_.width))
                for (const Span filters : cut(work_.out_channels, tiles_.filters))
                    for (const Span channels : cut(work_.in_channels, tiles_.channels)) {
                        // loads of a tile come before the products of the one before it: two are in flight
                        Tile tile = load(rows, columns, filters, channels);
                        if (before) compute(*before);
                        before = std::move(tile);
                    }
        compute(*before);
        return std::move(program_).build();
    }

  private:
    struct Home {
        Buffer ddr, l2;
        int64_t in_l2 = 0;  ///< bytes; 0: it does not fit there
    };
    struct Tile {
        Span rows, columns;  ///< part of the pooled output
        Span filters, channels;
        Span out_rows, out_columns;  ///< part of the convolution
        Span in_rows, in_columns;
        int64_t sums = 0;        ///< place in L1
        std::vector<Task> bias;  ///< none: the sums continue
        struct Slice {
            Span channels;
            int64_t input = 0, weights = 0;  ///< places in L1
            std::vector<Task> loads;         ///< loads of the input, then of each row of the window
        };
        std::vector<Slice> slices;
    };

    Home stores(const std::string& name, int64_t bytes, int64_t l2_bytes) {
        Home home;
        home.ddr = program_.buffer(name, Level::ddr, bytes, 64);
        if (bytes > l2_bytes) return home;
        home.l2 = program_.buffer(name + "_L2", Level::l2, bytes, 64);
        home.in_l2 = bytes;
        return home;
    }
    static Buffer source(const Home& home, bool again) {
        return again && home.in_l2 > 0 ? home.l2 : home.ddr;
    }

    Tile load(Span rows, Span columns, Span filters, Span channels) {
        Tile tile;
        tile.rows = rows, tile.columns = columns, tile.filters = filters, tile.channels = channels;
        const auto unpooled = [&](Span span) {
            return Span{span.first * work_.pool_stride, Tiles::unpooled(work_, span.size)};
        };
        tile.out_rows = unpooled(rows), tile.out_columns = unpooled(columns);
        tile.in_rows = reached(tile.out_rows, work_.kernel, work_.stride, work_.pad, work_.in_height);
        tile.in_columns = reached(tile.out_columns, work_.kernel, work_.stride, work_.pad, work_.in_width);
        tile.sums = sum_number_ % 2 * sum_half_;
        if (channels.first == 0) {
            std::vector<Task> emptied;
            if (stored_[sum_number_ % 2]) emptied.push_back(*stored_[sum_number_ % 2]);
            const int64_t pixels = tile.out_rows.size * tile.out_columns.size;
            const int64_t bias = (pixels + side_ - 1) / side_ * filters.size * sum_bytes;
            tile.bias = {movers_.load(program_.bytes("", sums_, tile.sums, bias),
                                      program_.bytes("", bias_, 0, bias), emptied)};
        }
        std::vector<Task> free;  // the tile two before it no longer needs its place
        if (number_ >= 2) free.push_back(last_product_[number_ % 2].value());
        int64_t place = number_ % 2 * operand_half_;
        for (Span slice : cut(channels.size, slice_blocks * side_)) {
            slice.first += channels.first;
            tile.slices.push_back(load_slice(tile, slice, place, free));
        }
        ++number_;
        if (channels.end() == work_.in_channels) ++sum_number_;
        return tile;
    }

    /// Loads some channels of a tile: input, and weights by rows of the window. Moves `place` past them.
    Tile::Slice load_slice(const Tile& tile, Span channels, int64_t& place, const std::vector<Task>& free) {
        Tile::Slice slice;
        slice.channels = channels, slice.input = place;
        const std::vector<Expr> input_shape{tile.in_rows.size, tile.in_columns.size, channels.size};
        const int64_t input_at =
            (tile.in_rows.first * work_.in_width + tile.in_columns.first) * work_.in_channels +
            channels.first;
        slice.loads.push_back(movers_.load(
            program_.region("", operands_, place, bytes_type(input_shape)),
            program_.region(
                "", source(inputs_, tile.filters.first > 0), input_at,
                bytes_type(input_shape).strides({work_.in_width * work_.in_channels, work_.in_channels, 1})),
            free));
        place += tile.in_rows.size * tile.in_columns.size * channels.size;
        slice.weights = place;
        const bool again = tile.rows.first > 0 || tile.columns.first > 0;
        const int64_t filters = work_.out_channels, row = work_.kernel * work_.in_channels * filters;
        const std::vector<Expr> weight_shape{work_.kernel, channels.size, tile.filters.size};
        for (int64_t at_row = 0; at_row < work_.kernel; ++at_row) {
            slice.loads.push_back(movers_.load(
                program_.region("", operands_, place, bytes_type(weight_shape)),
                program_.region("", source(weights_, again),
                                at_row * row + channels.first * filters + tile.filters.first,
                                bytes_type(weight_shape).strides({work_.in_channels * filters, filters, 1})),
                free));
            place += work_.kernel * channels.size * tile.filters.size;
        }
        return slice;
    }

    void compute(const Tile& tile) {
        std::optional<Task> last;
        for (const Tile::Slice& slice : tile.slices)
            for (int64_t at_row = 0; at_row < work_.kernel; ++at_row)
                for (int64_t at_column = 0; at_column < work_.kernel; ++at_column) {
                    const Span rows =
                        touched(tile.out_rows, at_row, work_.stride, work_.pad, work_.in_height);
                    const Span columns =
                        touched(tile.out_columns, at_column, work_.stride, work_.pad, work_.in_width);
                    if (rows.size == 0 || columns.size == 0) continue;
                    last = product(tile, slice, rows, columns, at_row, at_column);
                }
        if (!last) throw InternalError("a tile that lies in the padding");
        last_product_[computed_ % 2] = last;
        ++computed_;
        if (tile.channels.end() != work_.in_channels) return;
        store(tile, *last);
    }

    /// Computes the pixels of a tile at one position of the window. Sums are added to in the order of issue:
    /// the array keeps it, so that no token has to.
    Task product(const Tile& tile, const Tile::Slice& slice, Span rows, Span columns, int64_t at_row,
                 int64_t at_column) {
        const int64_t channels = slice.channels.size, filters = tile.filters.size;
        const auto input = [&](Span span, int64_t at, int64_t first) {
            return span.first * work_.stride + at - work_.pad - first;
        };
        const int64_t x_at = (input(rows, at_row, tile.in_rows.first) * tile.in_columns.size +
                              input(columns, at_column, tile.in_columns.first)) *
                             channels;
        const Region x = program_.region(
            "", operands_, slice.input + x_at,
            bytes_type({1, rows.size, columns.size, channels})
                .strides({0, work_.stride * tile.in_columns.size * channels, work_.stride * channels, 1}));
        const Region w = program_.region(
            "", operands_, slice.weights + (at_row * work_.kernel + at_column) * channels * filters,
            bytes_type({1, 1, channels, filters}));
        const int64_t y_at = ((rows.first - tile.out_rows.first) * tile.out_columns.size + columns.first -
                              tile.out_columns.first) *
                             filters * sum_bytes;
        const Region y = program_.region("", sums_, tile.sums + y_at,
                                         tensor(ElemType::i32, {1, rows.size, columns.size, filters})
                                             .strides({0, tile.out_columns.size * filters, filters, 1}));
        std::vector<Task> loads = tile.bias;
        loads.push_back(slice.loads.at(0)), loads.push_back(slice.loads.at(static_cast<size_t>(at_row) + 1));
        return program_.compute("conv2d.acc", {x, w, y}, {y})
            .attr("pads", {0, 0, 0, 0})
            .attr("strides", {1, 1})
            .attr("dilations", {1, 1})
            .attr("accum_type", ElemType::i32)
            .after(loads);
    }

    void store(const Tile& tile, const Task& last) {
        const std::vector<Expr> shape{tile.rows.size, tile.columns.size, tile.filters.size};
        const int64_t width = pooled_width(work_), filters = work_.out_channels;
        const Region to = program_.region(
            "", result_, (tile.rows.first * width + tile.columns.first) * filters + tile.filters.first,
            bytes_type(shape).strides({width * filters, filters, 1}));
        stored_[stores_++ % 2] =
            movers_.store(to, program_.region("", sums_, tile.sums, bytes_type(shape)), last);
    }

    const Work& work_;
    Program program_;
    Tiles tiles_;
    Movers movers_;
    int64_t operand_half_ = 0, sum_half_ = 0, side_ = 0;
    Home inputs_, weights_;
    Buffer bias_, result_, operands_, sums_;
    size_t number_ = 0, sum_number_ = 0, computed_ = 0, stores_ = 0;
    std::optional<Task> last_product_[2], stored_[2];
};

/// Sums of two tensors, as much at a time as the sums have room for, all in one place: the next loads wait for the store.
Module schedule_of_sum(const MeasuredRow& row, const platforms::Platform& platform) {
    const Budget budget = budget_of(platform);
    const int64_t most = budget.sum_rows * budget.side, all = row.work.elements;
    Program p("measured");
    const Buffer a = p.buffer("A", Level::ddr, all, 64), b = p.buffer("B", Level::ddr, all, 64),
                 y = p.buffer("Y", Level::ddr, all, 64);
    const Buffer place = p.l1_buffer("sums", 0, 2 * most, 64);
    Movers movers(p, platform);
    std::vector<Task> stored;
    for (const Span span : cut(all, most)) {
        const TensorType type = bytes_type({span.size});
        const auto in_ddr = [&](Buffer buffer) { return p.region("", buffer, span.first, type); };
        const Region left = p.region("", place, 0, type), right = p.region("", place, most, type);
        const Task one = movers.load(left, in_ddr(a), stored), other = movers.load(right, in_ddr(b), stored);
        const Task sum = p.compute("add", {left, right}, {left}).after({one, other});
        stored = {movers.store(in_ddr(y), left, sum)};
    }
    return std::move(p).build();
}

}  // namespace

Module measured_schedule(const MeasuredRow& row, const platforms::Platform& platform) {
    if (row.work.kind == Work::Kind::sum) return schedule_of_sum(row, platform);
    return Layer(row, platform).build();
}

}  // namespace kpu::validation
