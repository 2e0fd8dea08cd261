#include "values/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/diagnostics.hpp"
#include "isa/output_shapes.hpp"

namespace kpu::values {
namespace {

[[noreturn]] void reject(std::string_view op, const std::string& what, std::string_view fix) {
    throw UserError(fmt::format("{}: {}. Fix: {}.", op, what, fix));
}

Addend broadcast(std::string_view op, const Tensor& c, const Tensor& y) {
    Addend result;
    result.tensor = &c;
    result.strides.rank = y.shape.rank;
    int64_t stride = 1;
    for (int back = 1; back <= y.shape.rank; ++back) {
        const auto yd = static_cast<size_t>(y.shape.rank - back);
        if (back > c.shape.rank) continue;
        const int64_t extent = c.shape[static_cast<size_t>(c.shape.rank - back)];
        if (extent != 1 && extent != y.shape[yd]) {
            reject(op, fmt::format("the addend {} cannot be broadcast to {}", describe(c), describe(y)),
                   "give it the trailing dimensions of the output, or 1");
        }
        result.strides[yd] = extent == 1 ? 0 : stride;
        stride *= extent;
    }
    if (c.shape.rank > y.shape.rank) {
        reject(op, fmt::format("the addend {} has more dimensions than {}", describe(c), describe(y)),
               "give it at most the rank of the output");
    }
    return result;
}

void check_accumulator(std::string_view op, const Tensor& a, const BoundAttrs& attrs) {
    const BoundAttr* attr = attrs.find("accum_type");
    if (attr == nullptr) return;
    const ElemType wanted = is_float(a.type) ? ElemType::f32 : ElemType::i32;
    if (attr->type != wanted) {
        reject(op, fmt::format("accum_type must equal {} for {} operands", name_of(wanted), name_of(a.type)),
               fmt::format("write accum_type={}", name_of(wanted)));
    }
}

/// An integer list attribute of a given length with every value at least `least`.
std::vector<int64_t> int_list(std::string_view op, const BoundAttrs& attrs, std::string_view name,
                              size_t length, int64_t least, const std::vector<int64_t>& fallback) {
    const BoundAttr* attr = attrs.find(name);
    if (attr == nullptr && fallback.empty()) {
        reject(op, fmt::format("{} is required", name), fmt::format("give {} integers", length));
    }
    std::vector<int64_t> values = attr == nullptr ? fallback : attr->ints;
    constexpr int64_t most = int64_t{1} << 31;
    const auto bad = [&](int64_t v) { return v < least || v > most; };
    if (values.size() != length || std::any_of(values.begin(), values.end(), bad)) {
        reject(op, fmt::format("{}=[{}] is not usable", name, fmt::join(values, ",")),
               fmt::format("give {} integers of at least {}", length, least));
    }
    return values;
}

int64_t window_positions(int64_t size, int64_t pads, int64_t dilation, int64_t kernel, int64_t stride) {
    const int64_t room = size + pads - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

}  // namespace

std::string describe(const Tensor& tensor) {
    return fmt::format("{}[{}]", name_of(tensor.type),
                       fmt::join(tensor.shape.begin(), tensor.shape.end(), ","));
}

GemmProblem gemm_problem(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                         const BoundAttrs& attrs) {
    GemmProblem p;
    p.a = &inputs[0];
    p.b = &inputs[1];
    p.y = &outputs[0];
    const size_t rank = p.a->shape.rank;
    check_accumulator("gemm", *p.a, attrs);
    const auto shapes = [&] {
        return fmt::format("{} x {} -> {}", describe(*p.a), describe(*p.b), describe(*p.y));
    };
    const bool ranks =
        rank >= 2 && p.y->shape.rank == rank && (p.b->shape.rank == rank || p.b->shape.rank == 2);
    if (!ranks) reject("gemm", "ranks do not fit: " + shapes(), "use equal ranks of at least 2");
    const size_t b_rank = p.b->shape.rank;
    p.b_shared = b_rank == 2;
    for (size_t d = 0; d + 2 < rank; ++d) {
        if (p.a->shape[d] != p.y->shape[d] || (!p.b_shared && p.b->shape[d] != p.a->shape[d])) {
            reject("gemm", "leading dimensions differ: " + shapes(), "make them equal");
        }
        p.batch *= p.a->shape[d];
    }
    p.m = p.a->shape[rank - 2];
    p.k = p.a->shape[rank - 1];
    p.n = p.b->shape[b_rank - 1];
    if (p.b->shape[b_rank - 2] != p.k) {
        reject("gemm", "inner dimensions differ: " + shapes(), "make A's columns equal to B's rows");
    }
    if (p.y->shape[rank - 2] != p.m || p.y->shape[rank - 1] != p.n) {
        reject("gemm", "the output does not fit: " + shapes(), fmt::format("declare [...,{},{}]", p.m, p.n));
    }
    if (inputs.size() > 2) {
        p.c = broadcast("gemm", inputs[2], *p.y);
        p.c.first = op == Op::gemm_acc;
    }
    return p;
}

int64_t GemmProblem::c_offset(int64_t batch_index, int64_t row, int64_t column) const {
    const size_t rank = y->shape.rank;
    int64_t offset = row * c.strides[rank - 2] + column * c.strides[rank - 1];
    for (int d = y->shape.rank - 3; d >= 0; --d) {
        const auto i = static_cast<size_t>(d);
        offset += batch_index % y->shape[i] * c.strides[i];
        batch_index /= y->shape[i];
    }
    return offset;
}

namespace {

/// Spatial extents of an operand as depth, height, width; missing leading ones are `fill`.
std::array<int64_t, 3> spatial(const std::vector<int64_t>& values, int64_t fill) {
    std::array<int64_t, 3> result{fill, fill, fill};
    std::copy(values.begin(), values.end(), result.end() - static_cast<std::ptrdiff_t>(values.size()));
    return result;
}

std::vector<int64_t> extents(const Dims& shape, size_t first, size_t count) {
    return {shape.begin() + first, shape.begin() + first + count};
}

/// Broadcast strides of a bias over [batch, spatial..., channel], with 0 for the spatial dimensions it lacks.
Dims conv_addend_strides(const Dims& strides, size_t rank) {
    Dims result;
    result.rank = 5;
    result[0] = strides[0];
    for (size_t d = 1; d < rank; ++d) result[5 - rank + d] = strides[d];
    return result;
}

}  // namespace

ConvProblem conv_problem(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                         const BoundAttrs& attrs) {
    ConvProblem p;
    p.x = &inputs[0];
    p.w = &inputs[1];
    p.y = &outputs[0];
    check_accumulator("conv2d", *p.x, attrs);
    const auto shapes = [&] {
        return fmt::format("{} * {} -> {}", describe(*p.x), describe(*p.w), describe(*p.y));
    };
    const size_t dims = op == Op::conv1d ? 1 : op == Op::conv3d ? 3 : 2, rank = dims + 2;
    if (p.x->shape.rank != rank || p.w->shape.rank != rank || p.y->shape.rank != rank) {
        reject("conv", fmt::format("operands must have rank {}: {}", rank, shapes()),
               "use channels last, and the window, input and output channels for W");
    }
    const std::vector<int64_t> zeros(2 * dims, 0), ones(dims, 1);
    const std::vector<int64_t> pads = int_list("conv", attrs, "pads", 2 * dims, 0, zeros);
    const auto strides = spatial(int_list("conv", attrs, "strides", dims, 1, ones), 1);
    const auto dilations = spatial(int_list("conv", attrs, "dilations", dims, 1, ones), 1);
    const auto before = spatial({pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(dims)}, 0);
    const auto behind = spatial({pads.begin() + static_cast<std::ptrdiff_t>(dims), pads.end()}, 0);
    const auto size = spatial(extents(p.x->shape, 1, dims), 1);
    const auto kernel = spatial(extents(p.w->shape, 0, dims), 1);
    const auto out = spatial(extents(p.y->shape, 1, dims), 1);
    p.batch = p.x->shape[0];
    p.channels = p.x->shape[rank - 1];
    p.out_channels = p.y->shape[rank - 1];
    std::tie(p.depth, p.height, p.width) = std::tie(size[0], size[1], size[2]);
    std::tie(p.kernel_d, p.kernel_h, p.kernel_w) = std::tie(kernel[0], kernel[1], kernel[2]);
    std::tie(p.out_d, p.out_h, p.out_w) = std::tie(out[0], out[1], out[2]);
    std::tie(p.pad_front, p.pad_top, p.pad_left) = std::tie(before[0], before[1], before[2]);
    std::tie(p.stride_d, p.stride_h, p.stride_w) = std::tie(strides[0], strides[1], strides[2]);
    std::tie(p.dilation_d, p.dilation_h, p.dilation_w) = std::tie(dilations[0], dilations[1], dilations[2]);
    p.groups = op == Op::depthwise_conv2d ? p.channels : attrs.integer("groups", 1);
    if (p.groups < 1 || p.channels % p.groups != 0 || p.out_channels % p.groups != 0 ||
        p.w->shape[rank - 2] != p.channels / p.groups || p.w->shape[rank - 1] != p.out_channels ||
        p.y->shape[0] != p.batch) {
        reject("conv", fmt::format("channels do not fit: {}, groups={}", shapes(), p.groups),
               "W must be [Kh,Kw,Cin/groups,Cout] with Cin and Cout multiples of groups");
    }
    p.group_in = p.channels / p.groups;
    p.group_out = p.out_channels / p.groups;
    std::vector<int64_t> most;
    bool larger = false;
    for (size_t d = 3 - dims; d < 3; ++d) {
        most.push_back(window_positions(size[d], before[d] + behind[d], dilations[d], kernel[d], strides[d]));
        larger = larger || out[d] > most.back();
    }
    if (larger) {
        reject("conv", fmt::format("the output {} is larger than {}", describe(*p.y), fmt::join(most, "x")),
               "declare at most the derived extents");
    }
    if (inputs.size() > 2) {
        p.b = broadcast("conv", inputs[2], *p.y);
        p.b.strides = conv_addend_strides(p.b.strides, rank);
        p.b.first = op == Op::conv2d_acc;
    } else {
        p.b.strides.rank = 5;
    }
    return p;
}

PoolProblem pool_problem(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
                         const BoundAttrs& attrs) {
    const std::string_view name = op == Op::maxpool ? "maxpool" : "avgpool";
    PoolProblem p;
    p.x = &inputs[0];
    p.y = &outputs[0];
    if (p.x->shape.rank != 4 || p.y->shape.rank != 4 || p.x->shape[0] != p.y->shape[0] ||
        p.x->shape[3] != p.y->shape[3]) {
        reject(name, fmt::format("operands do not fit: {} -> {}", describe(*p.x), describe(*p.y)),
               "use NHWC with equal batch and channels");
    }
    const auto kernel = int_list(name, attrs, "kernel_shape", 2, 1, {});
    const auto pads = int_list(name, attrs, "pads", 4, 0, {0, 0, 0, 0});
    const auto strides = int_list(name, attrs, "strides", 2, 1, {1, 1});
    p.batch = p.x->shape[0];
    p.height = p.x->shape[1];
    p.width = p.x->shape[2];
    p.channels = p.x->shape[3];
    p.kernel_h = kernel[0];
    p.kernel_w = kernel[1];
    p.out_h = p.y->shape[1];
    p.out_w = p.y->shape[2];
    p.pad_top = pads[0];
    p.pad_left = pads[1];
    p.stride_h = strides[0];
    p.stride_w = strides[1];
    const int64_t most_h = window_positions(p.height, pads[0] + pads[2], 1, p.kernel_h, p.stride_h);
    const int64_t most_w = window_positions(p.width, pads[1] + pads[3], 1, p.kernel_w, p.stride_w);
    if (p.out_h > most_h || p.out_w > most_w) {
        reject(name, fmt::format("the output {} is larger than {}x{}", describe(*p.y), most_h, most_w),
               "declare at most the derived height and width");
    }
    return p;
}

PointwiseProblem pointwise_problem(Op op, const std::vector<Tensor>& inputs, const BoundAttrs& attrs) {
    PointwiseProblem p;
    p.op = op;
    p.truncate = op == Op::div && is_integer(inputs[0].type) && !has_quant(inputs[0]);
    const auto number = [&](std::string_view op_name, std::string_view name) {
        if (attrs.find(name) == nullptr)
            reject(op_name, fmt::format("{} is required", name), "give a number");
        return attrs.real(name, 0);
    };
    if (op == Op::leaky_relu) p.alpha = number("leaky_relu", "alpha");
    if (op != Op::clamp) return p;
    p.low = number("clamp", "min_val");
    p.high = number("clamp", "max_val");
    if (p.low > p.high) {
        reject("clamp", fmt::format("min_val {} is above max_val {}", p.low, p.high), "swap them");
    }
    return p;
}

NormProblem norm_problem(Op op, const std::vector<Tensor>& inputs, const BoundAttrs& attrs) {
    const Tensor& x = inputs[0];
    constexpr std::string_view names[] = {"layernorm", "rmsnorm", "softmax", "log_softmax"};
    const std::string_view name = names[static_cast<size_t>(op) - static_cast<size_t>(Op::layernorm)];
    NormProblem p;
    p.op = op;
    int64_t axis = attrs.integer("axis", -1);
    if (axis < 0) axis += x.shape.rank;
    if (axis < 0 || axis >= x.shape.rank) {
        reject(name, fmt::format("axis {} does not exist in {}", attrs.integer("axis", -1), describe(x)),
               "give an axis of the input");
    }
    for (int64_t d = 0; d < x.shape.rank; ++d) {
        (d < axis ? p.outer : d == axis ? p.count : p.inner) *= x.shape[static_cast<size_t>(d)];
    }
    p.epsilon = attrs.real("epsilon", 1e-5);
    const auto vector = [&](size_t i) -> const Tensor* {
        if (inputs.size() <= i) return nullptr;
        if (inputs[i].shape.rank != 1 || inputs[i].shape[0] != p.count) {
            reject(name, fmt::format("the vector {} does not fit axis {}", describe(inputs[i]), axis),
                   fmt::format("declare it [{}]", p.count));
        }
        return &inputs[i];
    };
    p.scale = vector(1);
    p.bias = vector(2);
    return p;
}

ReduceProblem reduce_problem(Op op, const std::vector<Tensor>& inputs, const BoundAttrs& attrs) {
    const Dims& shape = inputs[0].shape;
    ReduceProblem p;
    p.op = op;
    std::vector<bool> axes(shape.rank, false);
    if (is_search(op)) {
        axes[axis_of(shape, attrs)] = true;
    } else {
        axes = reduced_axes(shape, attrs);
    }
    int64_t stride = shape.product();
    for (size_t d = 0; d < shape.rank; ++d) {
        stride /= std::max<int64_t>(shape[d], 1);
        std::vector<ReduceProblem::Span>& spans = axes[d] ? p.reduced : p.kept;
        (axes[d] ? p.count : p.outputs) *= shape[d];
        if (d > 0 && axes[d - 1] == axes[d]) {
            spans.back() = {spans.back().count * shape[d], stride};
        } else {
            spans.push_back({shape[d], stride});
        }
    }
    return p;
}

TapRange valid_taps(int64_t start, int64_t dilation, int64_t count, int64_t size) {
    const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    const int64_t last = start >= size ? 0 : (size - start + dilation - 1) / dilation;
    const int64_t bounded = std::min(count, last);
    return {std::min(first, bounded), bounded};
}

}  // namespace kpu::values
