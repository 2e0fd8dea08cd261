// Pointwise operations, conversions, pooling and norms, in chunks of binary64.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "isa/values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

constexpr int64_t chunk = 512;

template <class T>
void integers_to_real(const uint8_t* data, int64_t first, double* to, int64_t count) {
    const T* from = reinterpret_cast<const T*>(data) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

void to_real(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, double* to) {
    switch (tensor.type) {
        case ElemType::i4:
        case ElemType::i8:
            return integers_to_real<int8_t>(tensor.data, first, to, count);
        case ElemType::u8:
            return integers_to_real<uint8_t>(tensor.data, first, to, count);
        case ElemType::i16:
            return integers_to_real<int16_t>(tensor.data, first, to, count);
        case ElemType::u16:
            return integers_to_real<uint16_t>(tensor.data, first, to, count);
        case ElemType::i32:
            return integers_to_real<int32_t>(tensor.data, first, to, count);
        case ElemType::u32:
            return integers_to_real<uint32_t>(tensor.data, first, to, count);
        default:
            break;
    }
    float part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        widen(kernels, tensor, first + done, size, part);
        for (int64_t i = 0; i < size; ++i) to[done + i] = static_cast<double>(part[i]);
    }
}

/// Rounds once to the float type of the tensor.
void from_real(const Kernels& kernels, const double* from, const Tensor& tensor, int64_t first,
               int64_t count) {
    float part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        if (tensor.type == ElemType::f32) {
            float* to = reinterpret_cast<float*>(tensor.data) + first + done;
            kernels.f32_of_f64(from + done, to, size);
        } else {
            kernels.odd_f32_of_f64(from + done, part, size);
            narrow(kernels, part, tensor, first + done, size);
        }
    }
}

/// saturate(round_half_even(steps) + zero) in the integer type of the tensor.
void from_steps(const Kernels& kernels, const double* steps, int64_t zero, const Tensor& tensor,
                int64_t first, int64_t count) {
    const IntegerRange range = range_of(tensor.type);
    if (tensor.type == ElemType::u32) {  // beyond the kernel's i32
        for (int64_t i = 0; i < count; ++i) {
            store_saturated(tensor.type, tensor.data, first + i, quantized(steps[i], zero, range));
        }
        return;
    }
    int32_t part[chunk];
    for (int64_t done = 0; done < count; done += chunk) {
        const int64_t size = std::min(chunk, count - done);
        kernels.quantize(steps + done, static_cast<double>(zero), static_cast<double>(range.low),
                         static_cast<double>(range.high), part, size);
        narrow_integers(part, tensor, first + done, size);
    }
}

/// A tensor read and written as real numbers; per-tensor quantisation only.
struct Real {
    const Kernels& kernels;
    const Tensor& tensor;
    const QuantMap map;

    Real(const Kernels& k, const Tensor& t) : kernels(k), tensor(t), map(t) {}
    bool usable() const { return map.uniform(); }
    void read(int64_t first, int64_t count, double* to) const {
        to_real(kernels, tensor, first, count, to);
        if (has_quant(tensor))
            kernels.dequantize(to, static_cast<double>(map.zero_point(0)), map.scale(0), count);
    }
    /// Uses the values as scratch.
    void write(double* from, int64_t first, int64_t count) const {
        if (is_float(tensor.type)) return from_real(kernels, from, tensor, first, count);
        if (has_quant(tensor)) kernels.divide(from, map.scale(0), count);
        from_steps(kernels, from, map.zero_point(0), tensor, first, count);
    }
};

void truncate(double* value, int64_t count) {
    for (int64_t i = 0; i < count; ++i) value[i] = std::trunc(value[i]);
}

}  // namespace

void widen(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count, float* to) {
    if (tensor.type == ElemType::f32) {
        std::memcpy(to, tensor.data + first * 4, static_cast<size_t>(count) * 4);
    } else {
        const uint16_t* from = reinterpret_cast<const uint16_t*>(tensor.data) + first;
        (tensor.type == ElemType::f16 ? kernels.f32_of_f16 : kernels.f32_of_bf16)(from, to, count);
    }
}

void narrow(const Kernels& kernels, const float* from, const Tensor& tensor, int64_t first, int64_t count) {
    if (tensor.type == ElemType::f32) {
        kernels.canonical_f32(from, reinterpret_cast<float*>(tensor.data) + first, count);
    } else {
        uint16_t* to = reinterpret_cast<uint16_t*>(tensor.data) + first;
        (tensor.type == ElemType::f16 ? kernels.f16_of_f32 : kernels.bf16_of_f32)(from, to, count);
    }
}

void narrow_integers(const int32_t* from, const Tensor& tensor, int64_t first, int64_t count) {
    switch (bit_width(tensor.type)) {
        case 4:
        case 8: {
            uint8_t* to = tensor.data + first;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint8_t>(from[i]);
            return;
        }
        case 16: {
            uint16_t* to = reinterpret_cast<uint16_t*>(tensor.data) + first;
            for (int64_t i = 0; i < count; ++i) to[i] = static_cast<uint16_t>(from[i]);
            return;
        }
        default:
            std::memcpy(tensor.data + first * 4, from, static_cast<size_t>(count) * 4);
    }
}

bool pointwise(const Kernels& kernels, Scratch&, Op op, const std::vector<Tensor>& inputs, const Tensor& y) {
    const Real out(kernels, y);
    const Real a(kernels, inputs[0]);
    const Real b(kernels, inputs.back());
    if (!out.usable() || !a.usable() || !b.usable()) return false;
    const auto total = static_cast<int64_t>(y.elements());
    double left[chunk];
    double right[chunk] = {};  // relu: maximum with +0
    for (int64_t first = 0; first < total; first += chunk) {
        const int64_t count = std::min(chunk, total - first);
        a.read(first, count, left);
        if (op == Op::add) b.read(first, count, right);
        (op == Op::add ? kernels.add : kernels.maximum)(left, right, count);
        out.write(left, first, count);
    }
    return true;
}

bool convert(const Kernels& kernels, Scratch&, Op op, const Tensor& x, const Tensor& y) {
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
            truncate(value, count);
            from_steps(kernels, value, 0, y, first, count);
        }
    }
    return true;
}

bool maxpool(const Kernels& kernels, Scratch& scratch, const PoolProblem& p) {
    const Real in(kernels, *p.x);
    const Real out(kernels, *p.y);
    if (!in.usable() || !out.usable()) return false;
    const int64_t line = p.width * p.channels;
    double* best = scratch.other.get(std::max<int64_t>(p.channels, 1));
    double* rows = scratch.real.get(std::max<int64_t>(line, 1));
    double* tops = scratch.factor.get(std::max<int64_t>(line, 1));
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            // the maximum is associative: first down the window's rows for the whole line, then across
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange taps = valid_taps(top, 1, p.kernel_h, p.height);
            std::fill(tops, tops + line, -HUGE_VAL);
            for (int64_t iy = top + taps.first; iy < top + taps.last; ++iy) {
                in.read((image * p.height + iy) * line, line, rows);
                kernels.maximum(tops, rows, line);
            }
            for (int64_t ox = 0; ox < p.out_w; ++ox, index += p.channels) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, 1, p.kernel_w, p.width);
                std::fill(best, best + p.channels, -HUGE_VAL);
                for (int64_t ix = left + columns.first; ix < left + columns.last; ++ix) {
                    kernels.maximum(best, tops + ix * p.channels, p.channels);
                }
                out.write(best, index, p.channels);
            }
        }
    }
    return true;
}

bool rmsnorm(const Kernels& kernels, Scratch& scratch, const NormProblem& p, const Tensor& x,
             const Tensor& y) {
    if (p.inner != 1) return false;
    constexpr int64_t lanes = 8;  // rows summed side by side: each keeps its order
    double* rows = scratch.real.get(std::max<int64_t>(lanes * p.count, 1));
    double* scale = scratch.factor.get(std::max<int64_t>(p.count, 1));
    if (p.scale != nullptr) to_real(kernels, *p.scale, 0, p.count, scale);
    for (int64_t first = 0; first < p.outer; first += lanes) {
        const int64_t used = std::min(lanes, p.outer - first);
        to_real(kernels, x, first * p.count, used * p.count, rows);
        double sums[lanes] = {};
        for (int64_t i = 0; i < p.count; ++i) {
            for (int64_t r = 0; r < used; ++r) sums[r] += rows[r * p.count + i] * rows[r * p.count + i];
        }
        for (int64_t r = 0; r < used; ++r) {
            const double root = std::sqrt(sums[r] / static_cast<double>(p.count) + p.epsilon);
            kernels.divide(rows + r * p.count, root, p.count);
            if (p.scale != nullptr) kernels.multiply_each(rows + r * p.count, scale, p.count);
        }
        from_real(kernels, rows, y, first * p.count, used * p.count);
    }
    return true;
}

}  // namespace kpu::values::fast
