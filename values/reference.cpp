#include "values/reference.hpp"

#include <cmath>

#include "base/diagnostics.hpp"
#include "values/backend_base.hpp"
#include "values/elementary.hpp"
#include "values/views.hpp"

namespace kpu::values::reference {
namespace {

int64_t truncated(double value) {
    if (std::isnan(value)) return 0;
    return static_cast<int64_t>(std::clamp(value, -0x1p40, 0x1p40));
}

class ReferenceBackend final : public BackendBase {
  public:
    const char* name() const override { return "reference"; }

  private:
    void run(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs) override {
        reference::execute(op, inputs, outputs, attrs);
    }
};

}  // namespace

double real_value(const Tensor& tensor, const QuantMap& map, int64_t index) {
    const double raw = load_real(tensor.type, tensor.data, index);
    if (!has_quant(tensor)) return raw;
    const size_t entry = map.entry(index);
    return (raw - static_cast<double>(map.zero_point(entry))) * map.scale(entry);
}

void store_real(const Tensor& tensor, const QuantMap& map, int64_t index, double value) {
    if (is_float(tensor.type)) return store_float(tensor.type, tensor.data, index, value);
    const size_t entry = map.entry(index);
    const double steps = has_quant(tensor) ? value / map.scale(entry) : value;
    store_saturated(tensor.type, tensor.data, index,
                    quantized(steps, map.zero_point(entry), range_of(tensor.type)));
}

void pointwise(const PointwiseProblem& p, const std::vector<Tensor>& inputs, const Tensor& y) {
    const QuantMap y_map(y);
    const std::vector<QuantMap> maps(inputs.begin(), inputs.end());
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        const double a = real_value(inputs[0], maps[0], i);
        const double b = inputs.size() > 1 ? real_value(inputs[1], maps[1], i) : 0;
        store_real(y, y_map, i, pointwise_value(p, a, b));
    }
}

void convert(Op op, const Tensor& x, const Tensor& y) {
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        const double raw = load_real(x.type, x.data, i);
        const size_t in = x_map.entry(i);
        const size_t out = y_map.entry(i);
        if (op == Op::cast) {
            if (is_float(y.type)) {
                store_float(y.type, y.data, i, raw);
            } else {
                store_saturated(y.type, y.data, i, truncated(raw));
            }
        } else if (op == Op::quantize) {
            store_real(y, y_map, i, raw);
        } else if (op == Op::dequantize) {
            store_float(y.type, y.data, i, real_value(x, x_map, i));
        } else {  // requant
            const double steps = raw - static_cast<double>(x_map.zero_point(in));
            const double scaled = steps * (x_map.scale(in) / y_map.scale(out));
            store_saturated(y.type, y.data, i, quantized(scaled, y_map.zero_point(out), range_of(y.type)));
        }
    }
}

void pool(Op op, const PoolProblem& p) {
    const QuantMap x_map(*p.x);
    const QuantMap y_map(*p.y);
    const bool largest = op == Op::maxpool;
    const auto window = [&](int64_t image, int64_t oy, int64_t ox, int64_t c) {
        // of a window in the padding alone: the least integer or -infinity; no mean
        double value = largest ? -HUGE_VAL : 0;
        int64_t count = 0;
        const int64_t top = oy * p.stride_h - p.pad_top, left = ox * p.stride_w - p.pad_left;
        const TapRange rows = valid_taps(top, 1, p.kernel_h, p.height);
        const TapRange columns = valid_taps(left, 1, p.kernel_w, p.width);
        for (int64_t iy = top + rows.first; iy < top + rows.last; ++iy) {
            for (int64_t ix = left + columns.first; ix < left + columns.last; ++ix, ++count) {
                const int64_t at = ((image * p.height + iy) * p.width + ix) * p.channels + c;
                const double element = real_value(*p.x, x_map, at);
                value = largest ? maximum(value, element) : value + element;
            }
        }
        return largest ? value : value / static_cast<double>(count);
    };
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            for (int64_t ox = 0; ox < p.out_w; ++ox) {
                for (int64_t c = 0; c < p.channels; ++c, ++index)
                    store_real(*p.y, y_map, index, window(image, oy, ox, c));
            }
        }
    }
}

void execute(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs) {
    const Tensor &x = inputs[0], &y = outputs[0];
    if (is_contraction(op)) return contraction(op, inputs, outputs, attrs);
    if (is_pointwise(op)) return pointwise(pointwise_problem(op, inputs, attrs), inputs, y);
    if (op == Op::maxpool || op == Op::avgpool) return pool(op, pool_problem(op, inputs, outputs, attrs));
    if (is_norm(op)) return norm(norm_problem(op, inputs, attrs), x, y);
    if (is_view(op)) return move_elements(op, inputs, outputs, attrs);
    if (is_reduction(op)) return reduce(reduce_problem(op, inputs, attrs), x, y);
    convert(op, x, y);
}

}  // namespace kpu::values::reference

namespace kpu::values {

std::unique_ptr<ComputeBackend> make_reference_backend() {
    return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace kpu::values
