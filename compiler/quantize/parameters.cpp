#include "compiler/quantize/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/graph/data.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Value;

constexpr values::IntegerRange i8_range{-128, 127}, i4_range{-8, 7};
constexpr double least_scale = 0x1p-100;  // products of three stay normal numbers

/// Returns the next f32 that is not below: what was in range stays there.
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

std::optional<BoundQuant> reshaped(const BoundQuant& quant, const Dims& from, const Dims& to) {
    if (!quant || quant.kind == proto::Quant::PER_TENSOR) return quant;
    if (quant.kind != proto::Quant::PER_CHANNEL) return std::nullopt;
    const auto channels = static_cast<int64_t>(quant.scales.size());
    if (channels == 1) return per_tensor(quant.scales[0], quant.zero_points[0]);
    int64_t inner = 1;  // elements of one channel that stand together
    for (int d = quant.axis + 1; d < from.rank; ++d) inner *= from[static_cast<size_t>(d)];
    int64_t behind = 1;
    for (int d = to.rank; d-- > 0; behind *= to[static_cast<size_t>(d)]) {
        const int64_t size = to[static_cast<size_t>(d)];
        if (inner % behind != 0 || size * behind % (channels * inner) != 0) continue;
        BoundQuant result = per_channel(d, {});
        for (int64_t i = 0; i < size; ++i) {
            const auto channel = static_cast<size_t>(i * behind / inner % channels);
            result.scales.push_back(quant.scales[channel]);
            result.zero_points.push_back(quant.zero_points[channel]);
        }
        return result;
    }
    return std::nullopt;
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

bool is_step(double number, const BoundQuant& quant) {
    const double scale = quant.scales[0];
    const int64_t zero = quant.zero_points[0];
    const int64_t step = values::quantized(values::in_steps(number, scale), zero, i8_range);
    return static_cast<double>(values::f32_of(static_cast<double>(step - zero) * scale)) == number;
}

bool are_steps(const Value& value, const BoundQuant& quant) {
    const Reals reals(value);
    for (uint64_t i = 0; i < value.elements(); ++i) {
        if (!is_step(reals[i], quant)) return false;
    }
    return true;
}

std::optional<BoundQuant> exact_quant(const Value& value) {
    const Reals reals(value);
    double least = 0;
    for (uint64_t i = 0; i < value.elements(); ++i) {
        const double size = std::fabs(reals[i]);
        if (size > 0 && (least == 0 || size < least)) least = size;
    }
    if (least != 0 && !(least >= least_scale && std::isfinite(least))) return std::nullopt;
    const BoundQuant quant = per_tensor(least == 0 ? 1 : least, 0);
    return are_steps(value, quant) ? std::optional(quant) : std::nullopt;
}

Data quantized_data(const Value& value, const BoundQuant& quant) {
    const Reals reals(value);
    const graph::NewData made = graph::new_data(value.elements());
    for (uint64_t i = 0; i < value.elements(); ++i) {
        const int64_t step =
            values::quantized(values::in_steps(reals[i], quant.scales[0]), quant.zero_points[0], i8_range);
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

namespace {

/// Returns a group of numbers in 4 bits: the scale, in steps that `as_scale` can hold, with the least squared
/// error.
template <class AsScale>
double best_scale(const std::vector<double>& numbers, const AsScale& as_scale) {
    double largest = 0;
    for (const double number : numbers) largest = std::max(largest, std::fabs(number));
    if (largest == 0) return 1;
    double best = as_scale(largest / 7), least = HUGE_VAL;
    // the last one or two steps may clip; the lower end has one step more
    for (int percent = 100; percent >= 60; percent -= 4) {
        const double scale = as_scale(largest / 7 * percent / 100);
        if (scale <= 0) continue;
        double error = 0;
        for (const double number : numbers) {
            const auto step = static_cast<double>(values::quantized(number / scale, 0, i4_range));
            error += (number - step * scale) * (number - step * scale);
        }
        if (error < least) least = error, best = scale;
    }
    return best;
}

}  // namespace

GroupedWeights grouped_weights(const Value& value, int64_t group_size) {
    const Reals reals(value);
    const size_t rank = value.shape.rank;
    const auto columns = static_cast<uint64_t>(value.shape[rank - 1]),
               depth = static_cast<uint64_t>(value.shape[rank - 2]),
               taps = value.elements() / (columns * depth), size = static_cast<uint64_t>(group_size);
    const uint64_t groups = (depth + size - 1) / size;
    GroupedWeights made;
    made.group_size = group_size;
    made.scale_shape.rank = 2;
    made.scale_shape[0] = static_cast<int64_t>(groups);
    made.scale_shape[1] = static_cast<int64_t>(columns);
    std::vector<double> scales(groups * columns);
    const auto element = [&](uint64_t tap, uint64_t k, uint64_t column) {
        return (tap * depth + k) * columns + column;
    };
    const auto choose = [&](const auto& as_scale) {
        std::vector<double> numbers;
        for (uint64_t g = 0; g < groups; ++g) {
            for (uint64_t column = 0; column < columns; ++column) {
                numbers.clear();
                for (uint64_t tap = 0; tap < taps; ++tap) {
                    for (uint64_t k = g * size; k < std::min(depth, (g + 1) * size); ++k) {
                        const double number = reals[element(tap, k, column)];
                        if (std::isfinite(number)) numbers.push_back(number);
                    }
                }
                scales[g * columns + column] = best_scale(numbers, as_scale);
            }
        }
    };
    constexpr double least_f16 = 0x1p-14, most_f16 = 65504;  // normal numbers
    choose([](double scale) { return double(values::f32_of_f16(values::f16_of(scale))); });
    if (std::any_of(scales.begin(), scales.end(),
                    [](double scale) { return scale < least_f16 || scale > most_f16; })) {
        made.scale_elem = ElemType::f32;
        choose(as_f32);
    }
    const graph::NewData steps = graph::new_data(value.elements());
    for (uint64_t tap = 0; tap < taps; ++tap) {
        for (uint64_t k = 0; k < depth; ++k) {
            for (uint64_t column = 0; column < columns; ++column) {
                const uint64_t at = element(tap, k, column);
                const int64_t step =
                    values::quantized(reals[at] / scales[k / size * columns + column], 0, i4_range);
                steps.bytes[at] = static_cast<uint8_t>(step);
            }
        }
    }
    made.data = steps.data;
    made.scales = graph::make_numbers(made.scale_elem, scales);
    return made;
}

/// Returns the bytes of the scales of one tap of a window.
static size_t tap_bytes(const graph::Blocks& blocks) {
    const size_t rank = blocks.shape.rank;
    return static_cast<size_t>(blocks.shape[rank - 2] * blocks.shape[rank - 1]) *
           graph::element_bytes(blocks.elem);
}

bool has_groups(const Value& value) {
    if (value.blocks == nullptr || value.shape.rank < 2 || value.blocks->axis != value.shape.rank - 2U)
        return false;
    const graph::Blocks& blocks = *value.blocks;
    const size_t tap = tap_bytes(blocks);
    for (const Data* data : {&blocks.scales, &blocks.zero_points}) {
        for (size_t at = tap; *data && at < data->size; at += tap) {
            if (std::memcmp(data->bytes, data->bytes + at, tap) != 0) return false;
        }
    }
    return true;
}

GroupedWeights given_groups(const Value& value) {
    const graph::Blocks& blocks = *value.blocks;
    const auto rank = static_cast<size_t>(blocks.shape.rank);
    GroupedWeights given;
    given.data = blocks.steps;
    given.group_size = blocks.size;
    given.scale_elem = blocks.elem;
    if (blocks.zero_points) given.scale_shape[given.scale_shape.rank++] = 2;
    given.scale_shape[given.scale_shape.rank++] = blocks.shape[rank - 2];
    given.scale_shape[given.scale_shape.rank++] = blocks.shape[rank - 1];
    const size_t tap = tap_bytes(blocks);
    std::vector<uint8_t> bytes(blocks.scales.bytes, blocks.scales.bytes + tap);
    if (blocks.zero_points)
        bytes.insert(bytes.end(), blocks.zero_points.bytes, blocks.zero_points.bytes + tap);
    given.scales = graph::make_data(std::move(bytes));
    return given;
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
