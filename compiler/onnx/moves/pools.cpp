// Pools: the opcodes have channels last.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/windows.hpp"

namespace kpu::onnx {
namespace {

using graph::ints;

/// Most elements of a window along a dimension, where each of them becomes nodes.
constexpr int64_t most_taps = 256;

/// Adds pads at the end for ceil_mode: windows that begin inside count, even where they end outside.
void round_up(Window& window, const Sizes& spatial) {
    const size_t rank = window.rank();
    for (size_t d = 0; d < rank; ++d) {
        const int64_t before = window.pads[d], behind = window.pads[d + rank], stride = window.strides[d];
        const int64_t room = spatial[d] + before + behind - window.extent(d);
        if (room <= -stride) Call::refuse("the window does not fit");
        int64_t count = (room + stride - 1) / stride + 1;
        if ((count - 1) * stride >= spatial[d] + before) --count;
        const int64_t end = (count - 1) * stride + window.extent(d);
        window.pads[d + rank] = std::max(behind, end - spatial[d] - before);
        if (room >= 0 && count == room / stride + 1) window.pads[d + rank] = behind;
    }
}

/// Cuts a window that is larger than everything there is, and still is one by ceil_mode: as many of its
/// elements as can meet something, and no second window.
void cut_to_fit(Window& window, const Sizes& spatial) {
    const size_t rank = window.rank();
    for (size_t d = 0; d < rank; ++d) {
        const int64_t whole = spatial[d] + window.pads[d] + window.pads[d + rank];
        const int64_t room = whole - window.extent(d);
        if (room >= 0 || room <= -window.strides[d]) continue;
        window.kernel[d] = (whole - 1) / window.dilations[d] + 1;
        window.strides[d] = whole;
    }
}

/// Pools x [N, d..., C] with 1 to 3 dimensions between.
ValueId pool(Call& call, std::string_view opcode, ValueId x, Window w, bool ceil = false,
             bool count_pads = false) {
    if (ceil) {
        const Sizes shape = call.sizes(x);
        cut_to_fit(w, Sizes(shape.begin() + 1, shape.end() - 1));
    }
    if (w.rank() > 3) Call::refuse(fmt::format("pools along {} dimensions are not taken", w.rank()));
    std::vector<BoundAttr> attrs{ints("kernel_shape", w.kernel), ints("pads", w.pads),
                                 ints("strides", w.strides)};
    if (std::any_of(w.dilations.begin(), w.dilations.end(), [](int64_t d) { return d != 1; }))
        attrs.push_back(ints("dilations", w.dilations));
    if (ceil) attrs.push_back(graph::integer("ceil_mode", 1));
    if (count_pads) attrs.push_back(graph::integer("count_include_pad", 1));
    return call.emit(opcode, {x}, std::move(attrs), ElemType::none, call.graph.value(x).quant);
}

Sizes around_spatial(const Sizes& pads) {
    const size_t rank = pads.size() / 2;
    Sizes result(2 * (rank + 2), 0);
    for (size_t d = 0; d < rank; ++d) {
        result[d + 1] = pads[d];
        result[d + 1 + rank + 2] = pads[d + rank];
    }
    return result;
}

bool rounds_up(const Call& call) {
    const std::string mode = call.text("auto_pad", "NOTSET");
    return call.integer("ceil_mode", 0) != 0 && (mode == "NOTSET" || mode.empty());
}

Window pool_window(const Call& call) {
    return window_of(call, call.ints("kernel_shape"), spatial_of(call.shape(0)));
}

/// Imports com.microsoft: channels are last, as in the opcode.
void nhwc_max_pool(Call& call) {
    const Sizes& shape = call.shape(0);
    if (shape.size() < 3) Call::refuse("it has no dimensions to move along");
    const Window window =
        window_of(call, call.ints("kernel_shape"), Sizes(shape.begin() + 1, shape.end() - 1));
    call.result(pool(call, "maxpool", call.value(0), window, rounds_up(call)));
}

/// Positions in the plane of a channel, [1, 1, d...]; `by_columns`: counted from the last dimension to the first.
Known positions_in_plane(const Sizes& spatial, bool by_columns) {
    Call::check_made(spatial);
    const size_t rank = spatial.size();
    Sizes strides(rank, 1), shape{1, 1};
    for (size_t i = 1; i < rank; ++i) {
        const size_t d = by_columns ? i : rank - 1 - i, inner = by_columns ? d - 1 : d + 1;
        strides[d] = strides[inner] * spatial[inner];
    }
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    Known result{Type::i64, shape, {}, {}};
    Sizes index(rank, 0);
    for (int64_t left = elements_of(spatial); left > 0; --left) {
        int64_t at = 0;
        for (size_t d = 0; d < rank; ++d) at += index[d] * strides[d];
        result.ints.push_back(at);
        for (size_t d = rank; d-- > 0 && ++index[d] == spatial[d];) index[d] = 0;
    }
    return result;
}

/// Finds where the greatest element of each window lies among all of x [N, C, d...]: of equal ones the first.
/// Dimension by dimension from the last: the greatest so far, and where it is.
ValueId greatest_positions(Call& call, ValueId x, Window w, bool by_columns) {
    const Sizes shape = call.sizes(x), spatial = spatial_of(shape);
    const size_t rank = w.rank();
    const int64_t plane = elements_of(spatial);
    if (elements_of(shape) > INT32_MAX) Call::refuse("its Indices do not fit into 32 bits");
    constexpr double lowest = std::numeric_limits<float>::lowest();
    x = call.cast(x, ElemType::f32);  // whose least number is below all integers of 8 bits
    ValueId at = call.expand(call.constant(positions_in_plane(spatial, by_columns), ElemType::i32), shape);
    for (size_t d = rank; d-- > 0;) {
        if (w.kernel[d] > most_taps)
            Call::refuse(fmt::format("its Indices with a window of {} elements are not taken", w.kernel[d]));
        Sizes pads(2 * (rank + 2), 0);
        pads[d + 2] = w.pads[d];
        pads[d + 4 + rank] = w.pads[d + rank];
        const auto axis = static_cast<int64_t>(d + 2);
        const ValueId values = call.pad(x, pads, lowest), places = call.pad(at, pads, 0);
        const int64_t room = call.sizes(values)[d + 2] - w.extent(d), count = room / w.strides[d] + 1;
        const auto tap = [&](ValueId from, int64_t k) {
            const int64_t first = k * w.dilations[d];
            return call.slice(from, axis, first, first + (count - 1) * w.strides[d] + 1, w.strides[d]);
        };
        x = tap(values, 0);
        at = tap(places, 0);
        for (int64_t k = 1; k < w.kernel[d]; ++k) {
            const ValueId other = tap(values, k);
            const ValueId greater = call.emit("greater", {other, x}, {}, truth);
            at = call.emit("where", {greater, tap(places, k), at}, {}, ElemType::i32);
            x = call.emit("where", {greater, other, x}, {}, ElemType::f32);
        }
    }
    Known planes{Type::i64, Sizes(rank + 2, 1), {}, {}};
    planes.shape[0] = shape[0];
    planes.shape[1] = shape[1];
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) planes.ints.push_back(i * plane);
    return call.binary("add", at, call.constant(planes, ElemType::i32));
}

void import_indices(Call& call) {
    Window window = pool_window(call);
    if (rounds_up(call)) round_up(window, spatial_of(call.shape(0)));
    const bool by_columns = call.integer("storage_order", 0) != 0;
    call.result(1, greatest_positions(call, call.value(0), window, by_columns), Type::i64);
}

void import_pool(Call& call) {
    const ValueId x = channels_last(call, call.value(0));
    const bool max = call.node.type == "MaxPool";
    const bool count = !max && call.integer("count_include_pad", 0) != 0;
    call.result(channels_first(
        call, pool(call, max ? "maxpool" : "avgpool", x, pool_window(call), rounds_up(call), count)));
    if (call.wants(1)) import_indices(call);
}

/// Computes (sum of |x|^p)^(1/p); pads add nothing.
void lp_pool(Call& call) {
    Window window = pool_window(call);
    if (rounds_up(call)) round_up(window, spatial_of(call.shape(0)));
    const double p = static_cast<double>(call.integer("p", 2));
    ValueId x = call.binary("pow", call.unary("abs", channels_last(call, call.value(0))), p);
    x = call.pad(x, around_spatial(window.pads), 0);
    window.pads.assign(window.pads.size(), 0);
    x = call.binary("mul", pool(call, "avgpool", x, window), static_cast<double>(elements_of(window.kernel)));
    call.result(channels_first(call, call.binary("pow", x, 1 / p)));
}

/// Pools with one window over everything.
void global_pool(Call& call) {
    const bool max = call.node.type == "GlobalMaxPool";
    const Sizes spatial = spatial_of(call.shape(0));
    const size_t rank = spatial.size();
    const Window all{spatial, Sizes(rank, 1), Sizes(rank, 1), Sizes(2 * rank, 0)};
    call.result(channels_first(
        call, pool(call, max ? "maxpool" : "avgpool", channels_last(call, call.value(0)), all)));
}

void global_lp_pool(Call& call) {
    const double p = static_cast<double>(call.integer("p", 2));
    const ValueId powers = call.binary("pow", call.unary("abs", call.value(0)), p);
    Sizes axes = identity_perm(call.shape(0).size());
    axes.erase(axes.begin(), axes.begin() + 2);
    call.result(call.binary("pow", call.reduce("reduce_sum", powers, axes, true), 1 / p));
}

}  // namespace

void add_pools(Operators& t) {
    t.push_back({"MaxPool", import_pool});
    t.push_back({"AveragePool", import_pool});
    t.push_back({"NhwcMaxPool", nhwc_max_pool, 1, 999, "com.microsoft"});
    t.push_back({"LpPool", lp_pool});
    t.push_back({"GlobalMaxPool", global_pool});
    t.push_back({"GlobalAveragePool", global_pool});
    t.push_back({"GlobalLpPool", global_lp_pool});
}

}  // namespace kpu::onnx
