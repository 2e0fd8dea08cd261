#include "compiler/quantize/parameters.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Value;

constexpr values::IntegerRange i8_range{-128, 127};
constexpr double least_scale = 0x1p-100;  // products of three stay normal numbers

/// The next f32 that is not below: what was in range stays there.
double as_f32(double scale) {
    auto rounded = static_cast<float>(std::max(scale, least_scale));
    if (rounded < scale) rounded = std::nextafter(rounded, HUGE_VALF);
    return rounded;
}

/// Elements of a float constant in binary64.
class Reals {
  public:
    explicit Reals(const Value& value)
        : elem_(value.elem), data_(graph::aligned(value.data, graph::element_bytes(value.elem))) {}
    double operator[](uint64_t i) const {
        return values::load_float(elem_, data_.bytes, static_cast<int64_t>(i));
    }

  private:
    ElemType elem_;
    Data data_;
};

uint64_t last_extent(const Value& value) {
    return value.shape.rank == 0 ? 1 : static_cast<uint64_t>(value.shape[value.shape.rank - 1U]);
}

}  // namespace

BoundQuant per_tensor(double scale, int64_t zero_point) {
    BoundQuant quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {scale};
    quant.zero_points = {zero_point};
    return quant;
}

BoundQuant per_channel(int axis, std::vector<double> scales) {
    BoundQuant quant;
    quant.kind = proto::Quant::PER_CHANNEL;
    quant.axis = axis;
    quant.zero_points.assign(scales.size(), 0);
    quant.scales = std::move(scales);
    return quant;
}

bool equal(const BoundQuant& a, const BoundQuant& b) {
    return a.kind == b.kind && a.axis == b.axis && a.group_size == b.group_size && a.scales == b.scales &&
           a.zero_points == b.zero_points;
}

BoundQuant activation_quant(const Range& range) {
    const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
    if (!(high > low)) return per_tensor(1, 0);
    const double scale = as_f32((high - low) / 255);
    return per_tensor(scale, values::quantized(-low / scale, -128, i8_range));
}

Range representable(const BoundQuant& quant) {
    Range range;
    for (const int64_t step : {i8_range.low, i8_range.high})
        range.include(static_cast<double>(step - quant.zero_points[0]) * quant.scales[0]);
    return range;
}

Data quantized_data(const Value& value, const BoundQuant& quant) {
    const Reals reals(value);
    const graph::NewData made = graph::new_data(value.elements());
    for (uint64_t i = 0; i < value.elements(); ++i) {
        const int64_t step = values::quantized(reals[i] / quant.scales[0], quant.zero_points[0], i8_range);
        made.bytes[i] = static_cast<uint8_t>(step);
    }
    return made.data;
}

Weights quantized_weights(const Value& value, const std::vector<double>& least_scales) {
    const Reals reals(value);
    const uint64_t channels = last_extent(value), count = value.elements();
    std::vector<double> scales(channels, 0);
    for (uint64_t i = 0; i < count; i += channels) {
        for (uint64_t c = 0; c < channels; ++c) {
            const double size = std::fabs(reals[i + c]);
            if (std::isfinite(size)) scales[c] = std::max(scales[c], size);
        }
    }
    for (uint64_t c = 0; c < channels; ++c) {
        scales[c] = scales[c] > 0 ? scales[c] / 127 : 1;
        if (!least_scales.empty()) scales[c] = std::max(scales[c], least_scales[c]);
        scales[c] = as_f32(scales[c]);
    }
    const graph::NewData made = graph::new_data(count);
    for (uint64_t i = 0; i < count; i += channels) {
        for (uint64_t c = 0; c < channels; ++c) {
            const int64_t step = values::quantized(reals[i + c] / scales[c], 0, {-127, 127});
            made.bytes[i + c] = static_cast<uint8_t>(step);
        }
    }
    return {made.data, per_channel(value.shape.rank - 1, std::move(scales))};
}

std::vector<double> least_scales_for(const Value& bias, double x_scale, int64_t channels) {
    constexpr double most_steps = 0x1p30;
    const Reals reals(bias);
    const uint64_t extent = last_extent(bias);
    std::vector<double> largest(extent, 0), result;
    for (uint64_t i = 0; i < bias.elements(); ++i) {
        const double size = std::fabs(reals[i]);
        if (std::isfinite(size)) largest[i % extent] = std::max(largest[i % extent], size);
    }
    for (int64_t c = 0; c < channels; ++c)
        result.push_back(largest[static_cast<uint64_t>(c) % extent] / (most_steps * x_scale));
    return result;
}

Data quantized_bias(const Value& bias, const std::vector<double>& scales) {
    const Reals reals(bias);
    const graph::NewData made = graph::new_data(bias.elements() * sizeof(int32_t));
    for (uint64_t i = 0; i < bias.elements(); ++i) {
        const int64_t step =
            values::quantized(reals[i] / scales[i % scales.size()], 0, values::range_of(ElemType::i32));
        values::store(made.bytes, static_cast<int64_t>(i), static_cast<int32_t>(step));
    }
    return made.data;
}

}  // namespace kpu::quantize
