// Pools. The opcodes move along two dimensions, channels last; others are reshaped, or one pool behind another.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/windows.hpp"

namespace kpu::onnx {
namespace {

using graph::ints;

/// Windows that begin inside count with ceil_mode, even where they end outside: more pads behind.
void round_up(Window& window, const Sizes& spatial) {
    const size_t rank = window.rank();
    for (size_t d = 0; d < rank; ++d) {
        const int64_t before = window.pads[d], behind = window.pads[d + rank], stride = window.strides[d];
        const int64_t room = spatial[d] + before + behind - window.extent(d);
        if (room < 0) Call::refuse("the window does not fit");
        int64_t count = (room + stride - 1) / stride + 1;
        if ((count - 1) * stride >= spatial[d] + before) --count;
        const int64_t end = (count - 1) * stride + window.extent(d);
        window.pads[d + rank] = std::max(behind, end - spatial[d] - before);
        if (count == room / stride + 1) window.pads[d + rank] = behind;
    }
}

/// Along two dimensions of x [N, H, W, C].
ValueId pool2(Call& call, std::string_view opcode, ValueId x, const Sizes& kernel, const Sizes& strides,
              const Sizes& pads) {
    return call.emit(opcode, {x},
                     {ints("kernel_shape", kernel), ints("pads", pads), ints("strides", strides)});
}

/// x [N, d..., C] with 1 to 3 dimensions between. Maxima of maxima and means of means of rows: windows are boxes.
ValueId pool(Call& call, std::string_view opcode, ValueId x, const Window& w) {
    const Sizes s = call.sizes(x);
    switch (w.rank()) {
        case 1: {
            const ValueId y = pool2(call, opcode, call.reshape(x, {s[0], 1, s[1], s[2]}), {1, w.kernel[0]},
                                    {1, w.strides[0]}, {0, w.pads[0], 0, w.pads[1]});
            return call.reshape(y, {s[0], call.sizes(y)[2], s[2]});
        }
        case 2:
            return pool2(call, opcode, x, w.kernel, w.strides, w.pads);
        case 3: {
            const ValueId planes = pool2(call, opcode, call.reshape(x, {s[0] * s[1], s[2], s[3], s[4]}),
                                         {w.kernel[1], w.kernel[2]}, {w.strides[1], w.strides[2]},
                                         {w.pads[1], w.pads[2], w.pads[4], w.pads[5]});
            const Sizes p = call.sizes(planes);
            const ValueId y = pool2(call, opcode, call.reshape(planes, {s[0], s[1], p[1] * p[2], s[4]}),
                                    {w.kernel[0], 1}, {w.strides[0], 1}, {w.pads[0], 0, w.pads[3], 0});
            return call.reshape(y, {s[0], call.sizes(y)[1], p[1], p[2], s[4]});
        }
        default:
            Call::refuse(fmt::format("pools along {} dimensions are not taken", w.rank()));
    }
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

double least_of(ElemType elem) {
    if (is_float(elem)) return -INFINITY;
    return elem == ElemType::u8 || elem == ElemType::u16 || elem == ElemType::u32
               ? 0
               : -std::ldexp(1, bit_width(elem) - 1);
}

/// One strided slice for each place of the window, where dilations leave gaps between them.
ValueId dilated_max(Call& call, ValueId x, const Window& w) {
    x = call.pad(x, around_spatial(w.pads), least_of(call.elem(x)));
    const Sizes padded = call.sizes(x);
    Sizes place(w.rank(), 0);
    std::optional<ValueId> result;
    for (bool more = true; more;) {
        Sizes starts, ends, axes;
        for (size_t d = 0; d < w.rank(); ++d) {
            const int64_t count = (padded[d + 1] - w.extent(d)) / w.strides[d] + 1,
                          first = place[d] * w.dilations[d];
            if (padded[d + 1] < w.extent(d)) Call::refuse("the window does not fit");
            starts.push_back(first);
            ends.push_back(first + (count - 1) * w.strides[d] + 1);
            axes.push_back(static_cast<int64_t>(d) + 1);
        }
        const ValueId part = call.emit(
            "slice", {x},
            {ints("starts", starts), ints("ends", ends), ints("axes", axes), ints("steps", w.strides)});
        result = result ? call.binary("max", *result, part) : part;
        more = false;
        for (size_t d = w.rank(); d-- > 0 && !more;) {
            more = ++place[d] < w.kernel[d];
            if (!more) place[d] = 0;
        }
    }
    return *result;
}

bool is_dilated(const Window& window) {
    return std::any_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d != 1; });
}

Window pool_window(Call& call) {
    const Sizes spatial = spatial_of(call.shape(0));
    Window window = window_of(call, call.ints("kernel_shape"), spatial);
    const std::string mode = call.text("auto_pad", "NOTSET");
    if (call.integer("ceil_mode", 0) != 0 && (mode == "NOTSET" || mode.empty())) round_up(window, spatial);
    return window;
}

void max_pool(Call& call) {
    if (call.wants(1)) Call::refuse("its output Indices is not taken");
    const Window window = pool_window(call);
    const ValueId x = channels_last(call, call.value(0));
    // a window may lie in the padding alone, which the opcode refuses
    bool wide = is_dilated(window);
    for (size_t d = 0; d < window.rank(); ++d)
        wide =
            wide || window.pads[d] >= window.kernel[d] || window.pads[d + window.rank()] >= window.kernel[d];
    call.result(channels_first(call, wide ? dilated_max(call, x, window) : pool(call, "maxpool", x, window)));
}

/// Means with the given pads counted as zeros: those become elements.
void average_pool(Call& call) {
    Window window = pool_window(call);
    ValueId x = channels_last(call, call.value(0));
    if (is_dilated(window)) Call::refuse("dilations are not taken");
    if (call.integer("count_include_pad", 0) != 0) {
        const Window given = window_of(call, window.kernel, spatial_of(call.shape(0)));
        x = call.pad(x, around_spatial(given.pads), 0);
        for (size_t i = 0; i < window.pads.size(); ++i) window.pads[i] -= given.pads[i];
    }
    call.result(channels_first(call, pool(call, "avgpool", x, window)));
}

/// (sum of |x|^p)^(1/p); pads add nothing.
void lp_pool(Call& call) {
    Window window = pool_window(call);
    if (is_dilated(window)) Call::refuse("dilations are not taken");
    const double p = static_cast<double>(call.integer("p", 2));
    ValueId x = call.binary("pow", call.unary("abs", channels_last(call, call.value(0))), p);
    x = call.pad(x, around_spatial(window.pads), 0);
    window.pads.assign(window.pads.size(), 0);
    x = call.binary("mul", pool(call, "avgpool", x, window), static_cast<double>(elements_of(window.kernel)));
    call.result(channels_first(call, call.binary("pow", x, 1 / p)));
}

/// One window over everything.
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
    t.push_back({"MaxPool", max_pool});
    t.push_back({"AveragePool", average_pool});
    t.push_back({"LpPool", lp_pool});
    t.push_back({"GlobalMaxPool", global_pool});
    t.push_back({"GlobalAveragePool", global_pool});
    t.push_back({"GlobalLpPool", global_lp_pool});
}

}  // namespace kpu::onnx
