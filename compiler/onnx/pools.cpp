// Pools: the opcodes have channels last.
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

/// x [N, d..., C] with 1 to 3 dimensions between.
ValueId pool(Call& call, std::string_view opcode, ValueId x, const Window& w, bool ceil = false,
             bool count_pads = false) {
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

/// com.microsoft: channels are last, as in the opcode.
void nhwc_max_pool(Call& call) {
    const Sizes& shape = call.shape(0);
    if (shape.size() < 3) Call::refuse("it has no dimensions to move along");
    const Window window =
        window_of(call, call.ints("kernel_shape"), Sizes(shape.begin() + 1, shape.end() - 1));
    call.result(pool(call, "maxpool", call.value(0), window, rounds_up(call)));
}

void import_pool(Call& call) {
    if (call.wants(1)) Call::refuse("its output Indices is not taken");
    const ValueId x = channels_last(call, call.value(0));
    const bool max = call.node.type == "MaxPool";
    const bool count = !max && call.integer("count_include_pad", 0) != 0;
    call.result(channels_first(
        call, pool(call, max ? "maxpool" : "avgpool", x, pool_window(call), rounds_up(call), count)));
}

/// (sum of |x|^p)^(1/p); pads add nothing.
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
    t.push_back({"MaxPool", import_pool});
    t.push_back({"AveragePool", import_pool});
    t.push_back({"NhwcMaxPool", nhwc_max_pool, 1, 999, "com.microsoft"});
    t.push_back({"LpPool", lp_pool});
    t.push_back({"GlobalMaxPool", global_pool});
    t.push_back({"GlobalAveragePool", global_pool});
    t.push_back({"GlobalLpPool", global_lp_pool});
}

}  // namespace kpu::onnx
