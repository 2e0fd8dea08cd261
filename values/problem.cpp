#include "values/problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/diagnostics.hpp"
#include "isa/shapes.hpp"

namespace kpu::values {
namespace {

/// NumPy's rule; the shapes fit.
Addend broadcast(const Tensor& c, const Tensor& y) {
    Addend result;
    result.tensor = &c;
    result.strides.rank = y.shape.rank;
    int64_t stride = 1;
    for (int back = 1; back <= c.shape.rank; ++back) {
        const int64_t extent = c.shape[static_cast<size_t>(c.shape.rank - back)];
        result.strides[static_cast<size_t>(y.shape.rank - back)] = extent == 1 ? 0 : stride;
        stride *= extent;
    }
    return result;
}

void check_accumulator(const Call& call) {
    const BoundAttr* attr = call.attrs.find("accum_type");
    const ElemType type = call.x().type, wanted = is_float(type) ? ElemType::f32 : ElemType::i32;
    if (attr == nullptr || attr->type == wanted) return;
    throw UserError(fmt::format("{}: accum_type must equal {} for {} operands. Fix: write accum_type={}.",
                                call.spec.name, name_of(wanted), name_of(type), name_of(wanted)));
}

/// Returns the default of an attribute that is not given; 0 when the row names none.
double default_number(const AttrSpec& attr) {
    if (attr.kind == AttrKind::boolean) return attr.default_text == "true" ? 1 : 0;
    double value = 0;
    std::from_chars(attr.default_text.data(), attr.default_text.data() + attr.default_text.size(), value);
    return value;
}

}  // namespace

Addend addend_of(const Call& call) {
    Addend result;
    result.strides.rank = call.y().shape.rank;
    if (call.inputs.size() <= call.spec.addend) return result;
    result = broadcast(call.inputs[call.spec.addend], call.y());
    result.first = call.spec.accumulates;
    return result;
}

void start_sums(const Addend& c, const Tensor& y) {
    auto* to = reinterpret_cast<float*>(y.data);
    const int64_t count = y.shape.product();
    if (c.tensor == nullptr) {
        std::fill(to, to + count, 0.0F);
        return;
    }
    const auto* from = reinterpret_cast<const float*>(c.tensor->data);
    const size_t last = y.shape.rank - 1U;
    for (int64_t i = 0; i < count; i += y.shape[last]) {
        int64_t rest = i / y.shape[last], start = 0;
        for (size_t d = last; d-- > 0; rest /= y.shape[d]) start += rest % y.shape[d] * c.strides[d];
        for (int64_t n = 0; n < y.shape[last]; ++n) to[i + n] = from[start + n * c.strides[last]];
    }
}

void require_quant(const Call& call, const Tensor& tensor, std::string_view side) {
    if (has_quant(tensor)) return;
    throw UserError(
        fmt::format("{}: the {} {} has no quantisation. Fix: give its region quant=per_tensor(...).",
                    call.spec.name, side, describe(tensor)));
}

std::vector<double> numbers_of(const Call& call) {
    std::vector<double> numbers;
    for (const AttrSpec& attr : call.spec.attributes) {
        const BoundAttr* given = call.attrs.find(attr.name);
        const bool real = attr.kind == AttrKind::real;
        numbers.push_back(given == nullptr ? default_number(attr)
                          : real           ? given->real
                                           : static_cast<double>(given->integer));
    }
    return numbers;
}

std::string describe(const Tensor& tensor) {
    return fmt::format("{}[{}]", name_of(tensor.type),
                       fmt::join(tensor.shape.begin(), tensor.shape.end(), ","));
}

GemmProblem gemm_problem(const Call& call) {
    check_accumulator(call);
    GemmProblem p;
    p.a = &call.inputs[0];
    p.b = &call.inputs[1];
    p.y = &call.y();
    const size_t rank = p.a->shape.rank;
    for (size_t d = 0; d + 2 < rank; ++d) p.batch *= p.a->shape[d];
    p.m = p.a->shape[rank - 2];
    p.k = p.a->shape[rank - 1];
    p.n = p.b->shape[rank - 1];
    p.c = addend_of(call);
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

const std::vector<int64_t>& ints(const Call& call, std::string_view name) {
    return call.attrs.find(name)->ints;
}

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

ConvProblem conv_problem(const Call& call) {
    check_accumulator(call);
    ConvProblem p;
    p.x = &call.inputs[0];
    p.w = &call.inputs[1];
    p.y = &call.y();
    const size_t dims = call.spec.window_rank, rank = dims + 2;
    const std::vector<int64_t>& pads = ints(call, "pads");
    const auto strides = spatial(ints(call, "strides"), 1);
    const auto dilations = spatial(ints(call, "dilations"), 1);
    const auto before = spatial({pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(dims)}, 0);
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
    p.groups = conv_groups(call.spec, call.attrs, p.channels);
    p.group_in = p.channels / p.groups;
    p.group_out = p.out_channels / p.groups;
    p.transposed = call.spec.transposed;
    p.b = addend_of(call);
    p.b.strides = conv_addend_strides(p.b.strides, rank);
    return p;
}

int64_t PoolProblem::counted(size_t d, int64_t at) const {
    const TapRange range = count_padding ? valid_taps(start(d, at) + before[d], dilation[d], kernel[d],
                                                      size[d] + before[d] + behind[d])
                                         : taps(d, at);
    return range.last - range.first;
}

PoolProblem pool_problem(const Call& call) {
    PoolProblem p;
    p.x = &call.x();
    p.y = &call.y();
    const size_t dims = p.x->shape.rank - 2u;
    const std::vector<int64_t>& pads = ints(call, "pads");
    const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(dims);
    p.batch = p.x->shape[0];
    p.channels = p.x->shape[dims + 1];
    p.size = spatial(extents(p.x->shape, 1, dims), 1);
    p.out = spatial(extents(p.y->shape, 1, dims), 1);
    p.kernel = spatial(ints(call, "kernel_shape"), 1);
    p.before = spatial({pads.begin(), middle}, 0);
    p.behind = spatial({middle, pads.end()}, 0);
    p.stride = spatial(ints(call, "strides"), 1);
    const BoundAttr* dilations = call.attrs.find("dilations");
    p.dilation = spatial(dilations == nullptr ? std::vector<int64_t>{} : dilations->ints, 1);
    p.count_padding = call.attrs.integer("count_include_pad", 0) != 0;
    return p;
}

GroupNormProblem group_norm_problem(const Call& call) {
    const Dims& shape = call.x().shape;
    GroupNormProblem p;
    p.batch = shape[0];
    p.channels = shape[shape.rank - 1u];
    for (size_t d = 1; d + 1 < shape.rank; ++d) p.pixels *= shape[d];
    p.groups = call.attrs.integer("groups", 1);
    p.epsilon = call.attrs.real("epsilon", 0);
    if (call.inputs.size() > 1) p.scale = &call.inputs[1];
    if (call.inputs.size() > 2) p.bias = &call.inputs[2];
    return p;
}

NormProblem norm_problem(const Call& call) {
    const Dims& shape = call.x().shape;
    NormProblem p;
    const size_t axis = axis_of(shape, call.attrs);
    for (size_t d = 0; d < shape.rank; ++d) (d < axis ? p.outer : d == axis ? p.count : p.inner) *= shape[d];
    p.epsilon = call.attrs.real("epsilon", 0);
    if (call.inputs.size() > 1) p.scale = &call.inputs[1];
    if (call.inputs.size() > 2) p.bias = &call.inputs[2];
    return p;
}

ReduceProblem reduce_problem(const Call& call) {
    const Dims& shape = call.x().shape;
    ReduceProblem p;
    std::vector<bool> axes(shape.rank, false);
    const auto is_axis = [](const AttrSpec& attr) { return attr.name == "axis"; };
    if (std::any_of(call.spec.attributes.begin(), call.spec.attributes.end(), is_axis)) {
        axes[axis_of(shape, call.attrs)] = true;
    } else {
        axes = reduced_axes(shape, call.attrs);
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
