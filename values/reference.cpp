#include "values/reference.hpp"

#include <cmath>

#include "values/backend_base.hpp"
#include "values/elementary.hpp"
#include "values/small_float.hpp"

namespace kpu::values::reference {
namespace {

/// Returns the dequantised element in binary64.
double dequantised(const Tensor& tensor, const QuantMap& map, int64_t index) {
    const size_t entry = map.entry(index);
    const double raw = load_real(tensor.type, tensor.data, index);
    return (raw - static_cast<double>(map.zero_point(entry))) * map.scale(entry);
}

class ReferenceBackend final : public BackendBase {
  public:
    const char* name() const override { return "reference"; }

  private:
    void run(const Arithmetic& arithmetic, const Call& call) override { arithmetic.reference(call); }
};

}  // namespace

void put_float(const Tensor& tensor, int64_t index, double value) {
    store_float(tensor.type, tensor.data, index, value);
    if (tensor.beyond != nullptr) note_float(*tensor.beyond, first_beyond(tensor.type), value);
}

void put_cast_small_float(const Tensor& tensor, int64_t index, double value, bool saturates) {
    const SmallFloat& format = small_float_format(tensor.type);
    if (std::isinf(value) && saturates) {
        tensor.data[index] = static_cast<uint8_t>((value < 0 ? 1 << (format.bits - 1) : 0) | format.greatest);
        return;
    }
    put_float(tensor, index, value);
    if (!saturates) tensor.data[index] = small_float_of(value, format);
}

void put_steps(const Tensor& tensor, int64_t index, double steps, int64_t zero) {
    const IntegerRange range = range_of(tensor.type);
    const int64_t step = rounded_steps(steps, zero);
    store_saturated(tensor.type, tensor.data, index, step);
    if (tensor.beyond != nullptr && std::isfinite(steps))
        tensor.beyond->note(range.low > step, step > range.high);
}

double real_value(const Tensor& tensor, const QuantMap& map, int64_t index) {
    if (!has_quant(tensor)) return load_real(tensor.type, tensor.data, index);
    return f32_of(dequantised(tensor, map, index));
}

void store_real(const Tensor& tensor, const QuantMap& map, int64_t index, double value) {
    if (is_float(tensor.type)) return put_float(tensor, index, value);
    const size_t entry = map.entry(index);
    const double steps = has_quant(tensor) ? in_steps(value, map.scale(entry)) : value;
    put_steps(tensor, index, steps, map.zero_point(entry));
}

void elementwise(const Elementwise& row, const Call& call) {
    const Tensor& y = call.y();
    const QuantMap y_map(y);
    const std::vector<QuantMap> maps(call.inputs.begin(), call.inputs.end());
    const std::vector<double> attributes = numbers_of(call);
    const auto operand = [&](size_t i, int64_t at) {
        return i < maps.size() ? real_value(call.inputs[i], maps[i], at) : 0;
    };
    Element element;
    element.attributes = attributes.data();
    element.integers = plain_integers(y);
    if (is_integer(y.type)) element.range = range_of(y.type);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        element.a = operand(0, i);
        element.b = operand(1, i);
        element.c = operand(2, i);
        store_real(y, y_map, i, bounded(row, element, row.function(element)));
    }
}

void cast(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const bool saturates = call.attrs.integer("saturate", 1) != 0;
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        const double value = load_real(x.type, x.data, i);
        if (is_small_float(y.type)) {
            put_cast_small_float(y, i, value, saturates);
        } else if (is_float(y.type)) {
            put_float(y, i, value);
        } else {
            put_steps(y, i, std::trunc(value), 0);
        }
    }
}

void quantize(const Call& call) {
    require_quant(call, call.y(), "output");
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap map(y);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) store_real(y, map, i, load_real(x.type, x.data, i));
}

void dequantize(const Call& call) {
    require_quant(call, call.x(), "input");
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap map(x);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) put_float(y, i, dequantised(x, map, i));
}

void requant(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        const size_t in = x_map.entry(i), out = y_map.entry(i);
        const double steps = load_real(x.type, x.data, i) - static_cast<double>(x_map.zero_point(in));
        const double scaled = steps * (x_map.scale(in) / y_map.scale(out));
        put_steps(y, i, scaled, y_map.zero_point(out));
    }
}

namespace {

/// Maximum or mean over the window of one output position and channel.
double window_value(const PoolProblem& p, const QuantMap& map, int64_t image, const PoolProblem::Spatial& out,
                    int64_t channel, bool largest) {
    double value = largest ? -HUGE_VAL : 0;
    const TapRange depth = p.taps(0, out[0]), rows = p.taps(1, out[1]), columns = p.taps(2, out[2]);
    for (int64_t z = depth.first; z < depth.last; ++z) {
        const int64_t iz = p.start(0, out[0]) + z * p.dilation[0];
        for (int64_t r = rows.first; r < rows.last; ++r) {
            const int64_t iy = p.start(1, out[1]) + r * p.dilation[1];
            for (int64_t c = columns.first; c < columns.last; ++c) {
                const int64_t ix = p.start(2, out[2]) + c * p.dilation[2];
                const int64_t pixel = ((image * p.size[0] + iz) * p.size[1] + iy) * p.size[2] + ix;
                const double element = real_value(*p.x, map, pixel * p.channels + channel);
                value = largest ? maximum(value, element) : value + element;
            }
        }
    }
    if (largest) return value;
    return value / static_cast<double>(p.counted(0, out[0]) * p.counted(1, out[1]) * p.counted(2, out[2]));
}

void pool(const PoolProblem& p, bool largest) {
    const QuantMap x_map(*p.x);
    const QuantMap y_map(*p.y);
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oz = 0; oz < p.out[0]; ++oz) {
            for (int64_t oy = 0; oy < p.out[1]; ++oy) {
                for (int64_t ox = 0; ox < p.out[2]; ++ox) {
                    for (int64_t c = 0; c < p.channels; ++c, ++index)
                        store_real(*p.y, y_map, index,
                                   window_value(p, x_map, image, {oz, oy, ox}, c, largest));
                }
            }
        }
    }
}

}  // namespace

void maxpool(const Call& call) { pool(pool_problem(call), true); }
void avgpool(const Call& call) { pool(pool_problem(call), false); }

}  // namespace kpu::values::reference

namespace kpu::values {

std::unique_ptr<ComputeBackend> make_reference_backend() {
    return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace kpu::values
