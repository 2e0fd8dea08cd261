#include "runtime/validation/schedule.hpp"

#include <algorithm>
#include <optional>

#include "isa/builder.hpp"

namespace kpu::validation {
namespace {

using namespace kpu::builder;

constexpr int64_t sum_bytes = 4;
constexpr int64_t reader = 0, writer = 1;  ///< channels of the DMA

TensorType bytes_type(std::vector<Expr> shape) {
    return tensor(ElemType::i8, std::move(shape)).quant(per_tensor(1.0 / 64));
}

/// Indices [first, first + size) of an axis.
struct Span {
    int64_t first = 0, size = 0;
    int64_t end() const { return first + size; }
};
std::vector<Span> cut(int64_t extent, int64_t size) {
    std::vector<Span> spans;
    for (int64_t first = 0; first < extent; first += size) spans.push_back({first, std::min(size, extent - first)});
    return spans;
}

/// Input pixels under a span of output pixels, without the padding.
Span reached(Span out, int64_t kernel, int64_t stride, int64_t pad, int64_t extent) {
    const int64_t first = std::max<int64_t>(0, out.first * stride - pad);
    const int64_t end = std::min(extent, (out.end() - 1) * stride - pad + kernel);
    return {first, std::max<int64_t>(0, end - first)};
}
/// Of a span of output pixels, those whose input at this position of the window is no padding.
Span touched(Span out, int64_t at, int64_t stride, int64_t pad, int64_t extent) {
    int64_t first = out.first, end = out.end();
    while (first < end && first * stride + at - pad < 0) ++first;
    while (end > first && (end - 1) * stride + at - pad >= extent) --end;
    return {first, end - first};
}

class Layer {
  public:
    Layer(const MeasuredRow& row, const platforms::Platform& platform)
        : work_(row.work), program_("measured"), tiles_(tiles_of(row, budget_of(platform))) {
        const Budget budget = budget_of(platform);
        operand_half_ = budget.operand_rows * budget.side, sum_half_ = budget.sum_rows * budget.side * sum_bytes;
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
        Span rows, columns;        ///< of the pooled output
        Span filters, channels;
        Span out_rows, out_columns;  ///< of the convolution
        Span in_rows, in_columns;
        int64_t operands = 0, weights = 0, sums = 0;  ///< places in L1
        std::vector<Task> loads;
    };

    Home stores(const std::string& name, int64_t bytes, int64_t l2_bytes) {
        Home home;
        home.ddr = program_.buffer(name, Level::ddr, bytes, 64);
        if (bytes > l2_bytes) return home;
        home.l2 = program_.buffer(name + "_L2", Level::l2, bytes, 64);
        home.in_l2 = bytes;
        return home;
    }
    static Buffer source(const Home& home, bool again) { return again && home.in_l2 > 0 ? home.l2 : home.ddr; }

    Task move(const Region& to, const Region& from, int64_t channel) {
        return program_.transfer("", to, from).resource(UnitKind::dma, channel);
    }

    Tile load(Span rows, Span columns, Span filters, Span channels) {
        Tile tile{rows, columns, filters, channels, {}, {}, {}, {}, 0, 0, 0, {}};
        const auto unpooled = [&](Span span) {
            return Span{span.first * work_.pool_stride, Tiles::unpooled(work_, span.size)};
        };
        tile.out_rows = unpooled(rows), tile.out_columns = unpooled(columns);
        tile.in_rows = reached(tile.out_rows, work_.kernel, work_.stride, work_.pad, work_.in_height);
        tile.in_columns = reached(tile.out_columns, work_.kernel, work_.stride, work_.pad, work_.in_width);
        tile.operands = number_ % 2 * operand_half_;
        tile.sums = sum_number_ % 2 * sum_half_;
        const bool first_sum = channels.first == 0, last_sum = channels.end() == work_.in_channels;
        std::vector<Task> free;  // the tile two before it no longer needs its place
        if (number_ >= 2) free.push_back(last_product_[number_ % 2].value());
        const int64_t pixels = tile.out_rows.size * tile.out_columns.size;
        if (first_sum) {
            std::vector<Task> emptied;
            if (stored_[sum_number_ % 2]) emptied.push_back(*stored_[sum_number_ % 2]);
            const int64_t bias = (pixels + side_ - 1) / side_ * filters.size * sum_bytes;
            tile.loads.push_back(move(program_.bytes("", sums_, tile.sums, bias),
                                      program_.bytes("", bias_, 0, bias), reader).after(emptied));
        }
        const Expr in_row(work_.in_width * work_.in_channels), in_pixel(work_.in_channels);
        const std::vector<Expr> input_shape{tile.in_rows.size, tile.in_columns.size, channels.size};
        const int64_t input_at =
            (tile.in_rows.first * work_.in_width + tile.in_columns.first) * work_.in_channels + channels.first;
        tile.loads.push_back(
            move(program_.region("", operands_, tile.operands, bytes_type(input_shape)),
                 program_.region("", source(inputs_, filters.first > 0), input_at,
                                 bytes_type(input_shape).strides({in_row, in_pixel, 1})), reader).after(free));
        tile.weights = tile.operands + (tile.in_rows.size * tile.in_columns.size * channels.size + 63) / 64 * 64;
        const std::vector<Expr> weight_shape{work_.kernel * work_.kernel, channels.size, filters.size};
        const bool again = rows.first > 0 || columns.first > 0;
        tile.loads.push_back(
            move(program_.region("", operands_, tile.weights, bytes_type(weight_shape)),
                 program_.region("", source(weights_, again), channels.first * work_.out_channels + filters.first,
                                 bytes_type(weight_shape)
                                     .strides({work_.in_channels * work_.out_channels, work_.out_channels, 1})),
                 reader).after(free));
        ++number_;
        if (last_sum) ++sum_number_;
        return tile;
    }

    void compute(const Tile& tile) {
        std::optional<Task> last;
        for (int64_t at_row = 0; at_row < work_.kernel; ++at_row)
            for (int64_t at_column = 0; at_column < work_.kernel; ++at_column) {
                const Span rows = touched(tile.out_rows, at_row, work_.stride, work_.pad, work_.in_height);
                const Span columns = touched(tile.out_columns, at_column, work_.stride, work_.pad, work_.in_width);
                if (rows.size == 0 || columns.size == 0) continue;
                last = product(tile, rows, columns, at_row, at_column);
            }
        last_product_[computed_ % 2] = last;
        ++computed_;
        if (tile.channels.end() != work_.in_channels) return;
        store(tile, *last);
    }

    /// The pixels of a tile at one position of the window. Sums are added to in the order of issue: the array keeps
    /// it, so that no token has to.
    Task product(const Tile& tile, Span rows, Span columns, int64_t at_row, int64_t at_column) {
        const int64_t channels = tile.channels.size, filters = tile.filters.size;
        const auto input = [&](Span span, int64_t at, int64_t first) {
            return span.first * work_.stride + at - work_.pad - first;
        };
        const int64_t x_at = (input(rows, at_row, tile.in_rows.first) * tile.in_columns.size +
                              input(columns, at_column, tile.in_columns.first)) * channels;
        const Region x = program_.region(
            "", operands_, tile.operands + x_at,
            bytes_type({1, rows.size, columns.size, channels})
                .strides({0, work_.stride * tile.in_columns.size * channels, work_.stride * channels, 1}));
        const Region w = program_.region(
            "", operands_, tile.weights + (at_row * work_.kernel + at_column) * channels * filters,
            bytes_type({1, 1, channels, filters}));
        const int64_t y_at = ((rows.first - tile.out_rows.first) * tile.out_columns.size + columns.first -
                              tile.out_columns.first) * filters * sum_bytes;
        const Region y = program_.region(
            "", sums_, tile.sums + y_at,
            tensor(ElemType::i32, {1, rows.size, columns.size, filters})
                .strides({0, tile.out_columns.size * filters, filters, 1}));
        return program_.compute("conv2d.acc", {x, w, y}, {y})
            .attr("pads", {0, 0, 0, 0}).attr("strides", {1, 1}).attr("dilations", {1, 1})
            .attr("accum_type", ElemType::i32).after(tile.loads);
    }

    void store(const Tile& tile, const Task& last) {
        const std::vector<Expr> shape{tile.rows.size, tile.columns.size, tile.filters.size};
        const int64_t width = pooled_width(work_), filters = work_.out_channels;
        const Region to = program_.region(
            "", result_, (tile.rows.first * width + tile.columns.first) * filters + tile.filters.first,
            bytes_type(shape).strides({width * filters, filters, 1}));
        const Region from = program_.region("", sums_, tile.sums, bytes_type(shape));
        stored_[stores_++ % 2] = move(to, from, writer).after({last});
    }

    const Work& work_;
    Program program_;
    Tiles tiles_;
    int64_t operand_half_ = 0, sum_half_ = 0, side_ = 0;
    Home inputs_, weights_;
    Buffer bias_, result_, operands_, sums_;
    size_t number_ = 0, sum_number_ = 0, computed_ = 0, stores_ = 0;
    std::optional<Task> last_product_[2], stored_[2];
};

/// Sums of two tensors, as much at a time as the sums have room for.
Module schedule_of_sum(const MeasuredRow& row, const platforms::Platform& platform) {
    const Budget budget = budget_of(platform);
    const int64_t most = budget.sum_rows * budget.side, all = row.work.elements;
    Program p("measured");
    const Buffer a = p.buffer("A", Level::ddr, all, 64), b = p.buffer("B", Level::ddr, all, 64),
                 y = p.buffer("Y", Level::ddr, all, 64);
    const Buffer slots = p.l1_buffer("sums", 0, 4 * most, 64);
    std::optional<Task> stored[2];
    size_t number = 0;
    for (const Span span : cut(all, most)) {
        const size_t half = number++ % 2;
        const auto in_l1 = [&](int64_t place) {
            return p.region("", slots, (2 * int64_t(half) + place) * most, bytes_type({span.size}));
        };
        const auto in_ddr = [&](Buffer buffer) { return p.region("", buffer, span.first, bytes_type({span.size})); };
        const Region left = in_l1(0), right = in_l1(1);
        std::vector<Task> free;
        if (stored[half]) free.push_back(*stored[half]);
        const Task one = p.transfer("", left, in_ddr(a)).resource(UnitKind::dma, reader).after(free);
        const Task other = p.transfer("", right, in_ddr(b)).resource(UnitKind::dma, reader).after(free);
        const Task sum = p.compute("add", {left, right}, {left}).after({one, other});
        stored[half] = p.transfer("", in_ddr(y), left).resource(UnitKind::dma, writer).after({sum});
    }
    return std::move(p).build();
}

}  // namespace

Module measured_schedule(const MeasuredRow& row, const platforms::Platform& platform) {
    if (row.work.kind == Work::Kind::sum) return schedule_of_sum(row, platform);
    return Layer(row, platform).build();
}

}  // namespace kpu::validation
