// Convolutions. Opcodes have channels last (NHWC, HWIO): transposes stand around them, which passes cancel.
#include "compiler/onnx/products/convolutions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/onnx/operators.hpp"

namespace kpu::onnx {

using graph::ints;

namespace {

/// Returns weights [Cout, C, k...] as [k..., C, Cout].
ValueId weights(Call& call, ValueId w) {
    Sizes perm = identity_perm(call.sizes(w).size());
    std::rotate(perm.begin(), perm.begin() + 2, perm.end());
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return call.transpose(w, perm);
}

/// Returns a row as an image of one line: the accumulators of integers have an opcode along two dimensions
/// only.
ValueId row_convolution(Call& call, ValueId x, ValueId w, const Window& window, int64_t groups) {
    const auto with_line = [&](ValueId id) {
        Sizes shape = call.sizes(id);
        shape.insert(shape.end() - 1, 1);
        return call.reshape(id, shape);
    };
    const Window line{{1, window.kernel[0]},
                      {1, window.strides[0]},
                      {1, window.dilations[0]},
                      {0, window.pads[0], 0, window.pads[1]}};
    const ValueId y =
        convolution(call, with_line(x), with_line(w), std::nullopt, line, groups, ElemType::i32);
    const Sizes shape = call.sizes(y);
    return call.reshape(y, {shape[0], shape[1], shape[3]});
}

/// Returns a volume as images, those of all depths side by side in the batch: a sum over the depths of the
/// window. Images that lie outside of the volume add nothing.
ValueId volume_convolution(Call& call, ValueId x, ValueId w, const Window& window, int64_t groups) {
    const Sizes of_x = call.sizes(x), of_w = call.sizes(w);
    const auto behind_first = [](const Sizes& all) { return Sizes(all.begin() + 1, all.end()); };
    Window image{
        behind_first(window.kernel), behind_first(window.strides), behind_first(window.dilations), {}};
    image.pads = {window.pads[1], window.pads[2], window.pads[4], window.pads[5]};
    const int64_t depth = of_x[2], stride = window.strides[0], before = window.pads[0];
    const int64_t count = (depth + before + window.pads[3] - window.extent(0)) / stride + 1;
    std::optional<ValueId> sum;
    for (int64_t k = 0; k < window.kernel[0]; ++k) {
        const int64_t shift = k * window.dilations[0] - before;  // of the image that result 0 reads
        const int64_t first = shift < 0 ? (-shift + stride - 1) / stride : 0;
        const int64_t last = depth - 1 < shift ? -1 : std::min(count - 1, (depth - 1 - shift) / stride);
        if (first > last) continue;
        const int64_t images = last - first + 1, from = first * stride + shift;
        ValueId part = call.slice(x, 2, from, from + (images - 1) * stride + 1, stride);
        part = call.reshape(call.transpose(part, {0, 2, 1, 3, 4}),
                            {of_x[0] * images, of_x[1], of_x[3], of_x[4]});
        const ValueId plane = call.reshape(call.slice(w, 2, k, k + 1), {of_w[0], of_w[1], of_w[3], of_w[4]});
        part = convolution(call, part, plane, std::nullopt, image, groups, ElemType::i32);
        const Sizes y = call.sizes(part);
        part = call.transpose(call.reshape(part, {of_x[0], images, y[1], y[2], y[3]}), {0, 2, 1, 3, 4});
        part = call.pad(part, {0, 0, first, 0, 0, 0, 0, count - 1 - last, 0, 0}, 0);
        sum = sum ? call.binary("add", *sum, part) : part;
    }
    if (!sum) Call::refuse("the window does not fit");
    return *sum;
}

/// Returns the number of results of windows along a dimension.
int64_t positions(const Window& window, const Sizes& spatial, size_t d) {
    const int64_t room = spatial[d] + window.pads[d] + window.pads[d + window.rank()] - window.extent(d);
    return room < 0 ? 0 : room / window.strides[d] + 1;
}

/// True if along some dimension no element of a window meets one of the operand: all of them lie in the
/// padding.
bool reads_nothing(const Window& window, const Sizes& spatial) {
    const auto meets = [&](size_t d) {
        for (int64_t i = 0, count = positions(window, spatial, d); i < count; ++i) {
            const int64_t start = i * window.strides[d] - window.pads[d], step = window.dilations[d];
            const int64_t first =
                start >= 0 ? 0 : (-start + step - 1) / step;  // element that is not before it
            if (first < window.kernel[d] && start + first * step < spatial[d]) return true;
        }
        return false;
    };
    bool nothing = false;
    for (size_t d = 0; d < window.rank(); ++d) {
        if (positions(window, spatial, d) == 0) return false;  // which is refused
        nothing = nothing || !meets(d);
    }
    return nothing;
}

/// Returns the bias alone, or zeros.
ValueId of_padding(Call& call, const Sizes& of_x, int64_t channels, std::optional<ValueId> bias,
                   const Window& window, ElemType to) {
    Sizes shape{of_x[0], channels}, places(of_x.size(), 1);
    for (size_t d = 0; d < window.rank(); ++d) shape.push_back(positions(window, spatial_of(of_x), d));
    const ValueId zeros = call.zeros(shape, to);
    if (!bias) return zeros;
    places[1] = channels;
    return call.binary("add", zeros, call.reshape(*bias, places));
}

}  // namespace

ValueId convolution(Call& call, ValueId x, ValueId w, std::optional<ValueId> bias, const Window& window,
                    int64_t groups, ElemType to, const BoundQuant& quant) {
    const Sizes of_x = call.sizes(x), of_w = call.sizes(w);
    const size_t rank = window.rank();
    if (rank < 1 || rank > 3)
        Call::refuse(fmt::format("convolutions along {} dimensions are not taken", rank));
    if (of_w.size() != of_x.size())
        Call::refuse(fmt::format("weights {} do not fit to {}", text_of(of_w), text_of(of_x)));
    if (groups < 1 || of_x[1] % groups != 0 || of_w[0] % groups != 0 || of_w[1] != of_x[1] / groups)
        Call::refuse(
            fmt::format("weights {} do not fit to {} with {} groups", text_of(of_w), text_of(of_x), groups));
    if (!quant && reads_nothing(window, spatial_of(of_x)))
        return of_padding(call, of_x, of_w[0], bias, window, to);
    const bool sums = to == ElemType::i32;  // the accumulator itself
    if (sums && rank == 1) return row_convolution(call, x, w, window, groups);
    if (sums && rank == 3) return volume_convolution(call, x, w, window, groups);
    const bool depthwise = rank == 2 && groups > 1 && groups == of_x[1];
    const ElemType accumulator = is_float(call.elem(x)) ? ElemType::f32 : ElemType::i32;
    std::vector<BoundAttr> attrs{ints("pads", window.pads), ints("strides", window.strides),
                                 ints("dilations", window.dilations), graph::type("accum_type", accumulator)};
    if (!depthwise) attrs.push_back(graph::integer("groups", groups));
    std::vector<ValueId> operands{channels_last(call, x), weights(call, w)};
    if (bias) operands.push_back(*bias);
    constexpr std::string_view opcodes[] = {"conv1d", "conv2d", "conv3d"};
    if (sums && depthwise) attrs.push_back(graph::integer("groups", groups));
    const std::string_view opcode = sums ? "conv2d.acc" : depthwise ? "depthwise_conv2d" : opcodes[rank - 1];
    return channels_first(call, call.emit(opcode, operands, attrs, to, quant));
}

namespace {

void conv(Call& call) {
    const Sizes spatial = spatial_of(call.shape(0));
    if (call.rank(1) != call.rank(0)) Call::refuse("its weights have another rank than its operand");
    const Window window = window_of(call, spatial_of(call.shape(1)), spatial);
    if (const Sizes kernel = call.ints("kernel_shape", window.kernel); kernel != window.kernel)
        Call::refuse(fmt::format("kernel_shape {} is not that of the weights {}", text_of(kernel),
                                 text_of(call.shape(1))));
    std::optional<ValueId> bias;
    if (call.has(2)) bias = call.value(2);
    const ValueId x = call.value(0);
    if (!is_float(call.elem(x))) Call::refuse("convolutions of plain integers are not taken");
    call.result(convolution(call, x, call.value(1), bias, window, call.integer("group", 1), call.elem(x)));
}

/// A transposed convolution: the window with its pads, and what is added after it.
struct Transposed {
    Window window;
    Sizes more;
    int64_t groups = 1;
};

/// Pads so that the result has `sizes`; an odd one goes after (SAME_UPPER) or before.
void pad_to(Transposed& t, const Sizes& spatial, const Sizes& sizes, bool upper) {
    Window& window = t.window;
    for (size_t d = 0; d < window.rank(); ++d) {
        const int64_t whole = window.strides[d] * (spatial[d] - 1) + t.more[d] + window.extent(d);
        const int64_t total = std::max<int64_t>(0, whole - sizes[d]);
        t.more[d] += std::max<int64_t>(0, sizes[d] - whole);
        window.pads[d] = upper ? total / 2 : total - total / 2;
        window.pads[d + window.rank()] = total - window.pads[d];
    }
}

Transposed transposed_of(const Call& call) {
    const Sizes spatial = spatial_of(call.shape(0)), kernel = spatial_of(call.shape(1));
    const size_t rank = spatial.size();
    if (rank > 3 || kernel.size() != rank)
        Call::refuse(fmt::format("along {} dimensions it is not taken", rank));
    Transposed t{window_of(call, kernel, spatial), call.ints("output_padding", Sizes(rank, 0)),
                 call.integer("group", 1)};
    const std::string mode = call.text("auto_pad", "NOTSET");
    Sizes sizes = call.ints("output_shape");
    if (sizes.size() == rank + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);
    if (sizes.empty() && mode.rfind("SAME", 0) == 0) {
        for (size_t d = 0; d < rank; ++d) sizes.push_back(spatial[d] * t.window.strides[d]);
    }
    if (t.more.size() != rank || (!sizes.empty() && sizes.size() != rank))
        Call::refuse("output_padding or output_shape have another rank");
    for (const int64_t size : sizes) {
        if (size < 1 || size > INT32_MAX)
            Call::refuse(fmt::format("an output_shape of {} is not taken", size));
    }
    for (const int64_t size : t.more) {
        if (size < 0 || size > INT32_MAX)
            Call::refuse(fmt::format("an output_padding of {} is not taken", size));
    }
    if (!sizes.empty()) pad_to(t, spatial, sizes, mode == "SAME_UPPER");
    if (t.groups < 1 || call.shape(0)[1] % t.groups != 0 || call.shape(1)[0] != call.shape(0)[1])
        Call::refuse(fmt::format("weights {} do not fit", text_of(call.shape(1))));
    return t;
}

/// Returns weights [Cin, Cout / groups, k...] as [k..., Cin / groups, Cout].
ValueId transposed_weights(Call& call, ValueId w, int64_t groups) {
    const Sizes s = call.sizes(w);
    Sizes split{groups, s[0] / groups}, perm, whole;
    for (size_t d = 1; d < s.size(); ++d) split.push_back(s[d]);
    for (size_t d = 2; d < s.size(); ++d) {
        perm.push_back(static_cast<int64_t>(d) + 1);
        whole.push_back(s[d]);
    }
    perm.insert(perm.end(), {1, 0, 2});
    whole.insert(whole.end(), {s[0] / groups, s[1] * groups});
    return call.reshape(call.transpose(call.reshape(w, split), perm), whole);
}

/// Zeros between the elements along a dimension.
ValueId spread(Call& call, ValueId x, size_t axis, int64_t stride) {
    if (stride == 1) return x;
    Sizes shape = call.sizes(x), apart = shape;
    apart.insert(apart.begin() + static_cast<int64_t>(axis) + 1, 1);
    Sizes pads(2 * apart.size(), 0);
    pads[apart.size() + axis + 1] = stride - 1;
    x = call.pad(call.reshape(x, apart), pads, 0);
    shape[axis] *= stride;
    return call.slice(call.reshape(x, shape), static_cast<int64_t>(axis), 0, shape[axis] - stride + 1);
}

/// Replaces a transposed convolution along three dimensions, for which there is no opcode, by a convolution
/// of the spread elements with the window turned round.
ValueId spread_convolution(Call& call, ValueId x, ValueId w, const Transposed& t,
                           std::optional<ValueId> bias) {
    Sizes pads(6);
    for (size_t d = 0; d < 3; ++d) {
        x = spread(call, x, d + 1, t.window.strides[d]);
        w = call.slice(w, static_cast<int64_t>(d), -1, INT32_MIN, -1);
        pads[d] = t.window.extent(d) - 1 - t.window.pads[d];
        pads[d + 3] = t.window.extent(d) - 1 - t.window.pads[d + 3] + t.more[d];
        if (pads[d] < 0 || pads[d + 3] < 0) Call::refuse("its pads are wider than its window");
    }
    std::vector<ValueId> operands{x, w};
    if (bias) operands.push_back(*bias);
    return call.emit("conv3d", operands,
                     {ints("pads", pads), ints("strides", {1, 1, 1}), ints("dilations", t.window.dilations),
                      graph::integer("groups", t.groups), graph::type("accum_type", ElemType::f32)});
}

/// Computes x [N, Cin, ...], w [Cin, Cout / groups, ...]; along one dimension as along two, the first of size
/// 1.
ValueId transposed_convolution(Call& call, ValueId x, ValueId w, std::optional<ValueId> bias,
                               const Transposed& t) {
    if (t.window.rank() == 3) {
        const ValueId y =
            spread_convolution(call, channels_last(call, x), transposed_weights(call, w, t.groups), t, bias);
        return channels_first(call, y);
    }
    const bool line = t.window.rank() == 1;
    const auto planar = [line](Sizes list, int64_t value) {
        if (line) list.insert(list.begin(), value);
        return list;
    };
    Sizes pads = t.window.pads;
    if (line) {
        const Sizes of_x = call.sizes(x), of_w = call.sizes(w);
        x = call.reshape(x, {of_x[0], of_x[1], 1, of_x[2]});
        w = call.reshape(w, {of_w[0], of_w[1], 1, of_w[2]});
        pads = {0, pads[0], 0, pads[1]};
    }
    std::vector<ValueId> operands{channels_last(call, x), transposed_weights(call, w, t.groups)};
    if (bias) operands.push_back(*bias);
    const ValueId y = channels_first(
        call, call.emit("conv_transpose2d", operands,
                        {ints("pads", pads), ints("strides", planar(t.window.strides, 1)),
                         ints("dilations", planar(t.window.dilations, 1)),
                         ints("output_padding", planar(t.more, 0)), graph::integer("groups", t.groups),
                         graph::type("accum_type", ElemType::f32)}));
    const Sizes of_y = call.sizes(y);
    return line ? call.reshape(y, {of_y[0], of_y[1], of_y[3]}) : y;
}

void conv_transpose(Call& call) {
    const Transposed t = transposed_of(call);
    const ValueId x = call.value(0), w = call.value(1);
    std::optional<ValueId> bias;
    if (call.has(2)) bias = call.value(2);
    call.result(transposed_convolution(call, x, w, bias, t));
}

// ---- Col2Im: a transposed convolution whose windows put each channel at its own place

/// The window along the image, and how many of its places there are.
struct Columns {
    Transposed transposed;
    Sizes places;
};

Columns columns_of(Call& call) {
    const Sizes image = call.ints_of(1, "image_shape"), block = call.ints_of(2, "block_shape");
    const size_t rank = image.size();
    if (rank < 1 || rank > 3 || block.size() != rank)
        Call::refuse(fmt::format("along {} dimensions it is not taken", rank));
    Columns result;
    Window& window = result.transposed.window;
    window = {block, call.ints("strides", Sizes(rank, 1)), call.ints("dilations", Sizes(rank, 1)),
              call.ints("pads", Sizes(2 * rank, 0))};
    if (window.strides.size() != rank || window.dilations.size() != rank || window.pads.size() != 2 * rank)
        Call::refuse("its attributes have another rank than image_shape");
    for (size_t d = 0; d < rank; ++d) {
        if (std::min({block[d], window.strides[d], window.dilations[d], image[d]}) < 1 ||
            std::min(window.pads[d], window.pads[d + rank]) < 0 || image[d] > INT32_MAX)
            Call::refuse("its sizes are not positive");
        const int64_t room = image[d] + window.pads[d] + window.pads[d + rank] - window.extent(d);
        if (room < 0) Call::refuse("its blocks are larger than the image");
        result.places.push_back(room / window.strides[d] + 1);
        result.transposed.more.push_back(room % window.strides[d]);
    }
    return result;
}

void col2im(Call& call) {
    Columns columns = columns_of(call);
    const Sizes x = call.shape(0);
    const int64_t taps = elements_of(columns.transposed.window.kernel);
    if (x.size() != 3 || x[1] % taps != 0 || x[2] != elements_of(columns.places))
        Call::refuse("its operand does not fit to image_shape and block_shape");
    Sizes shape{x[0], x[1]}, kernel{x[1], 1};
    shape.insert(shape.end(), columns.places.begin(), columns.places.end());
    for (const int64_t size : columns.transposed.window.kernel) kernel.push_back(size);
    Call::check_made({x[1], taps});
    Known weights{Type::f32, kernel, {}, std::vector<double>(static_cast<size_t>(x[1] * taps), 0.0)};
    for (int64_t row = 0; row < x[1]; ++row) weights.reals[static_cast<size_t>(row * taps + row % taps)] = 1;
    columns.transposed.groups = x[1] / taps;
    const ValueId data = call.value(0);
    if (!is_float(call.elem(data))) Call::refuse("its operand is not a float");
    call.result(transposed_convolution(call, call.reshape(data, shape),
                                       call.constant(weights, call.elem(data)), std::nullopt,
                                       columns.transposed));
}

}  // namespace

void add_convolutions(Operators& t) {
    t.push_back({"Conv", conv});
    t.push_back({"ConvTranspose", conv_transpose});
    t.push_back({"Col2Im", col2im, 18});
}

}  // namespace kpu::onnx
