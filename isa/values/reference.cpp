#include "isa/values/reference.hpp"

#include <fmt/format.h>

#include <cmath>

#include "isa/diagnostics.hpp"
#include "isa/values/backend_base.hpp"

namespace kpu::values::reference {
namespace {

/// Quantised: dequantise, operate in binary64, requantise. Otherwise the formula in binary64 on the elements.
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

double maximum(double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::nan("");
    if (a == b) return std::signbit(a) ? b : a;  // -0 < +0
    return a > b ? a : b;
}

void pointwise(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    const Tensor& y = outputs[0];
    const QuantMap y_map(y);
    const std::vector<QuantMap> maps(inputs.begin(), inputs.end());
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        const double a = real_value(inputs[0], maps[0], i);
        const double value = op == Op::relu ? maximum(a, 0.0) : a + real_value(inputs[1], maps[1], i);
        store_real(y, y_map, i, value);
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

void maxpool(const PoolProblem& p) {
    const QuantMap x_map(*p.x);
    const QuantMap y_map(*p.y);
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            for (int64_t ox = 0; ox < p.out_w; ++ox) {
                for (int64_t c = 0; c < p.channels; ++c, ++index) {
                    double best = -HUGE_VAL;  // saturates to the least integer
                    const int64_t top = oy * p.stride_h - p.pad_top;
                    const int64_t left = ox * p.stride_w - p.pad_left;
                    const TapRange rows = valid_taps(top, 1, p.kernel_h, p.height);
                    const TapRange columns = valid_taps(left, 1, p.kernel_w, p.width);
                    for (int64_t iy = top + rows.first; iy < top + rows.last; ++iy) {
                        for (int64_t ix = left + columns.first; ix < left + columns.last; ++ix) {
                            const int64_t at = ((image * p.height + iy) * p.width + ix) * p.channels + c;
                            best = maximum(best, real_value(*p.x, x_map, at));
                        }
                    }
                    store_real(*p.y, y_map, index, best);
                }
            }
        }
    }
}

void rmsnorm(const NormProblem& p, const Tensor& x, const Tensor& y) {
    for (int64_t outer = 0; outer < p.outer; ++outer) {
        for (int64_t inner = 0; inner < p.inner; ++inner) {
            const auto at = [&](int64_t i) { return (outer * p.count + i) * p.inner + inner; };
            double sum = 0;
            for (int64_t i = 0; i < p.count; ++i) {
                const double v = load_real(x.type, x.data, at(i));
                sum += v * v;
            }
            const double root = std::sqrt(sum / static_cast<double>(p.count) + p.epsilon);
            for (int64_t i = 0; i < p.count; ++i) {
                double v = load_real(x.type, x.data, at(i)) / root;
                if (p.scale != nullptr) v *= load_real(p.scale->type, p.scale->data, i);
                store_float(y.type, y.data, at(i), v);
            }
        }
    }
}

void execute(Op op, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs,
             const BoundAttrs& attrs) {
    switch (op) {
        case Op::relu:
        case Op::add:
            return pointwise(op, inputs, outputs);
        case Op::maxpool:
            return maxpool(pool_problem(inputs, outputs, attrs));
        case Op::rmsnorm:
            return rmsnorm(norm_problem(inputs, outputs, attrs), inputs[0], outputs[0]);
        case Op::quantize:
        case Op::dequantize:
        case Op::cast:
        case Op::requant:
            return convert(op, inputs[0], outputs[0]);
        default:
            return contraction(op, inputs, outputs, attrs);
    }
}

}  // namespace kpu::values::reference

namespace kpu::values {

std::unique_ptr<ComputeBackend> make_reference_backend() {
    return std::make_unique<reference::ReferenceBackend>();
}

}  // namespace kpu::values
