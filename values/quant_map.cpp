#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "values/problem.hpp"

namespace kpu::values {
namespace {

const std::vector<double> unit_scale = {1.0};
const std::vector<int64_t> no_zero_point = {0};

[[noreturn]] void reject(const Tensor& tensor, const std::string& what, std::string_view fix) {
    throw UserError(fmt::format("quantisation of {}: {}. Fix: {}.", describe(tensor), what, fix));
}

void check_values(const Tensor& tensor, size_t entries) {
    const BoundQuant& quant = *tensor.quant;
    if (quant.scales.size() != entries || quant.zero_points.size() != entries) {
        reject(tensor,
               fmt::format("{} scales and {} zero points where {} are needed", quant.scales.size(),
                           quant.zero_points.size(), entries),
               "give as many of each");
    }
    for (const double scale : quant.scales) {
        if (!(scale > 0) || !std::isfinite(scale)) {
            reject(tensor, fmt::format("scale {} is not usable", scale), "use positive finite scales");
        }
    }
    if (!is_integer(tensor.type)) reject(tensor, "only integers can be quantised", "remove quant");
    const IntegerRange range = range_of(tensor.type);
    for (const int64_t zero : quant.zero_points) {
        if (zero < range.low || zero > range.high) {
            reject(tensor, fmt::format("zero point {} is out of range", zero),
                   "use a value of the element type");
        }
    }
}

double checked_multiplier(const Tensor& y, double value) {
    if (!std::isfinite(value)) {
        reject(y, "the product of the input scales over the output scale overflows",
               "use scales of usual size");
    }
    return value;
}

/// Entry of `map` for each index along one axis.
std::vector<size_t> entries_along(const Tensor& tensor, const QuantMap& map, size_t axis) {
    int64_t inner = 1;
    for (size_t d = axis + 1; d < tensor.shape.rank; ++d) inner *= tensor.shape[d];
    std::vector<size_t> entries;
    for (int64_t i = 0; i < tensor.shape[axis]; ++i) entries.push_back(map.entry(i * inner));
    return entries;
}

void require_axis(const Tensor& tensor, const QuantMap& map, std::initializer_list<size_t> axes) {
    if (map.uniform()) return;
    const auto axis = static_cast<size_t>(tensor.quant->axis);
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
        reject(tensor, fmt::format("gemm and conv2d cannot use scales along axis {}", axis),
               "quantise inputs per tensor, weights per tensor, per output channel or per group of input "
               "channels, "
               "outputs per tensor or channel");
    }
}

}  // namespace

QuantMap::QuantMap(const Tensor& tensor) : scales_(&unit_scale), zero_points_(&no_zero_point) {
    if (!has_quant(tensor)) return;
    const BoundQuant& quant = *tensor.quant;
    scales_ = &quant.scales;
    zero_points_ = &quant.zero_points;
    if (quant.kind == proto::Quant::PER_TENSOR) {
        check_values(tensor, 1);
        return;
    }
    if (quant.axis < 0 || quant.axis >= tensor.shape.rank) {
        reject(tensor, fmt::format("axis {} does not exist", quant.axis), "use an axis of the shape");
    }
    period_ = tensor.shape[static_cast<size_t>(quant.axis)];
    for (size_t d = static_cast<size_t>(quant.axis) + 1; d < tensor.shape.rank; ++d)
        inner_ *= tensor.shape[d];
    if (quant.kind == proto::Quant::PER_GROUP) {
        if (quant.group_size <= 0)
            reject(tensor, "group_size must be positive", "use a group size of at least 1");
        group_ = quant.group_size;
    }
    check_values(tensor, static_cast<size_t>((period_ + group_ - 1) / group_));
}

IntScaling int_scaling(const Tensor& a, const Tensor& b, const Tensor& y, const Addend& c, size_t b_depth,
                       size_t b_columns) {
    const QuantMap a_map(a);
    const QuantMap b_map(b);
    const QuantMap y_map(y);
    const size_t y_axis = y.shape.rank - 1U;
    require_axis(a, a_map, {});
    require_axis(b, b_map, {b_depth, b_columns});
    require_axis(y, y_map, {y_axis});
    IntScaling s;
    s.raw = y.type == ElemType::i32;
    s.range = range_of(y.type);
    s.a_zero = a_map.zero_point(0);
    const std::vector<size_t> y_entry = entries_along(y, y_map, y_axis);
    for (const size_t entry : y_entry) s.y_zero.push_back(y_map.zero_point(entry));
    const bool divided = has_quant(b) && (b.quant->kind == proto::Quant::PER_GROUP || !b_map.uniform());
    if (divided && static_cast<size_t>(b.quant->axis) == b_depth) {
        if (s.raw || !y_map.uniform()) {
            reject(b, "scales along the summed axis need an output of 8 or 16 bits quantised per tensor",
                   "use i8 or i16 output, or per-channel weights");
        }
        s.group_size = b.quant->kind == proto::Quant::PER_GROUP ? b.quant->group_size : 1;
        for (size_t g = 0; g < b.quant->scales.size(); ++g) {
            s.b_zero.push_back(b_map.zero_point(g));
            s.multiplier.push_back(checked_multiplier(y, a_map.scale(0) * b_map.scale(g) / y_map.scale(0)));
        }
        if (c.tensor != nullptr) {
            if (!has_quant(*c.tensor) || c.tensor->quant->kind != proto::Quant::PER_TENSOR) {
                reject(*c.tensor,
                       "with weights quantised per group along the summed axis the bias needs its own scale",
                       "give it quant=per_tensor(scale=..., zero_point=0)");
            }
            const QuantMap c_map(*c.tensor);
            s.c_multiplier = checked_multiplier(y, c_map.scale(0) / y_map.scale(0));
        }
        return s;
    }
    const std::vector<size_t> b_entry = entries_along(b, b_map, b_columns);
    for (size_t n = 0; n < b_entry.size(); ++n) {
        s.b_zero.push_back(b_map.zero_point(b_entry[n]));
        s.multiplier.push_back(
            checked_multiplier(y, a_map.scale(0) * b_map.scale(b_entry[n]) / y_map.scale(y_entry[n])));
    }
    return s;
}

GroupScaling group_scaling(const Call& call) {
    const QuantMap a_map(call.x());
    require_axis(call.x(), a_map, {});
    const Tensor& s = call.inputs[2];
    GroupScaling scaling;
    scaling.group_size = call.attrs.integer("group_size", 1);
    scaling.a_zero = a_map.zero_point(0);
    const int64_t count = s.shape.product(), each = s.shape.rank == 3 ? count / 2 : count;
    for (int64_t i = 0; i < each; ++i)
        scaling.scale.push_back(a_map.scale(0) * static_cast<double>(load_float(s.type, s.data, i)));
    for (int64_t i = each; i < count; ++i)
        scaling.zero_point.push_back(static_cast<double>(load_float(s.type, s.data, i)));
    return scaling;
}

}  // namespace kpu::values
