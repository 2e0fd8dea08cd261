// Elementwise operations and conversions, in chunks of binary64.
#include <algorithm>
#include <cmath>

#include "base/diagnostics.hpp"
#include "values/fast/real.hpp"

namespace kpu::values::fast {
namespace {

/// Constant second operands of relu and clamp.
struct Bounds {
    double low[chunk], high[chunk];
    explicit Bounds(const PointwiseProblem& p) {
        std::fill(low, low + chunk, p.op == Op::relu ? 0.0 : p.low);
        std::fill(high, high + chunk, p.high);
    }
};

void apply_unary(const Kernels& k, const PointwiseProblem& p, const Bounds& bounds, double* v, int64_t n) {
    switch (p.op) {
        case Op::relu:
            return k.maximum(v, bounds.low, n);
        case Op::clamp:
            k.maximum(v, bounds.low, n);
            return k.minimum(v, bounds.high, n);
        case Op::sigmoid:
            return k.sigmoid(v, n);
        case Op::tanh:
            return k.tanh(v, n);
        case Op::exp:
            return k.exp(v, n);
        case Op::log:
            return k.log(v, n);
        case Op::sqrt:
            return k.square_root(v, n);
        case Op::abs:
            return k.absolute(v, n);
        case Op::neg:
            return k.negate(v, n);
        case Op::gelu:
            return k.gelu(v, n);
        case Op::silu:
            return k.silu(v, n);
        case Op::leaky_relu:
            return k.leaky(v, p.alpha, n);
        default:
            throw InternalError("not an operation of one operand");
    }
}

void apply_binary(const Kernels& k, const PointwiseProblem& p, double* v, const double* other, int64_t n) {
    switch (p.op) {
        case Op::add:
            return k.add(v, other, n);
        case Op::sub:
            return k.subtract(v, other, n);
        case Op::mul:
            return k.multiply_each(v, other, n);
        case Op::div:
            k.divide_each(v, other, n);
            if (p.truncate) k.truncate(v, n);
            return;
        case Op::min:
            return k.minimum(v, other, n);
        case Op::max:
            return k.maximum(v, other, n);
        case Op::pow:
            return k.pow(v, other, n);
        default:
            throw InternalError("not an operation of two operands");
    }
}

}  // namespace

bool pointwise(const Kernels& kernels, const PointwiseProblem& p, const std::vector<Tensor>& inputs,
               const Tensor& y) {
    const Real out(kernels, y);
    const Real a(kernels, inputs[0]);
    const Real b(kernels, inputs.back());
    if (!out.usable() || !a.usable() || !b.usable()) return false;
    const auto total = static_cast<int64_t>(y.elements());
    const Bounds bounds(p);
    double left[chunk];
    double right[chunk];
    for (int64_t first = 0; first < total; first += chunk) {
        const int64_t count = std::min(chunk, total - first);
        a.read(first, count, left);
        if (inputs.size() > 1) {
            b.read(first, count, right);
            apply_binary(kernels, p, left, right, count);
        } else {
            apply_unary(kernels, p, bounds, left, count);
        }
        out.write(left, first, count);
    }
    return true;
}

bool convert(const Kernels& kernels, Op op, const Tensor& x, const Tensor& y) {
    const Real in(kernels, x);
    const Real out(kernels, y);
    if (!in.usable() || !out.usable()) return false;
    const auto total = static_cast<int64_t>(y.elements());
    double value[chunk];
    for (int64_t first = 0; first < total; first += chunk) {
        const int64_t count = std::min(chunk, total - first);
        if (op == Op::dequantize) {
            in.read(first, count, value);
            from_real(kernels, value, y, first, count);
            continue;
        }
        to_real(kernels, x, first, count, value);
        if (op == Op::quantize) {
            out.write(value, first, count);
        } else if (op == Op::requant) {
            kernels.dequantize(value, static_cast<double>(in.map.zero_point(0)),
                               in.map.scale(0) / out.map.scale(0), count);
            from_steps(kernels, value, out.map.zero_point(0), y, first, count);
        } else if (is_float(y.type)) {
            from_real(kernels, value, y, first, count);
        } else {
            kernels.truncate(value, count);
            from_steps(kernels, value, 0, y, first, count);
        }
    }
    return true;
}

}  // namespace kpu::values::fast
