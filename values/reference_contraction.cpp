// gemm, matmul, conv2d and their accumulating forms, one output element at a time.
#include <cmath>

#include "values/reference.hpp"

namespace kpu::values::reference {
namespace {

/// A product of an output element's sum: element indices into A (X) and B (W), and its k along the axis of B
/// that weight groups divide.
struct Term {
    int64_t a, b, depth;
};

template <class Visit>
void for_each_term(const GemmProblem& p, int64_t batch, int64_t row, int64_t column, Visit visit) {
    const int64_t b_base = batch * p.k * p.n;
    for (int64_t k = 0; k < p.k; ++k) {
        visit(Term{(batch * p.m + row) * p.k + k, b_base + k * p.n + column, k});
    }
}

/// Output position of a convolution.
struct Pixel {
    int64_t image, z, y, x;
};

/// Index along X of the element that a tap of the window meets at an output index; -1: none.
int64_t met(bool transposed, int64_t out, int64_t stride, int64_t pad, int64_t tap, int64_t dilation,
            int64_t size) {
    int64_t in = out * stride - pad + tap * dilation;
    if (transposed) {
        in = out + pad - tap * dilation;
        if (in < 0 || in % stride != 0) return -1;
        in /= stride;
    }
    return in < size ? in : -1;
}

template <class Visit>
void for_each_term(const ConvProblem& p, const Pixel& at, int64_t channel, Visit visit) {
    const int64_t group = channel / p.group_out;
    const bool t = p.transposed;  // its last tap meets the first element of X
    for (int64_t d = 0; d < p.kernel_d; ++d) {
        const int64_t kd = t ? p.kernel_d - 1 - d : d;
        for (int64_t h = 0; h < p.kernel_h; ++h) {
            const int64_t kh = t ? p.kernel_h - 1 - h : h;
            for (int64_t w = 0; w < p.kernel_w; ++w) {
                const int64_t kw = t ? p.kernel_w - 1 - w : w;
                const int64_t iz = met(t, at.z, p.stride_d, p.pad_front, kd, p.dilation_d, p.depth);
                const int64_t iy = met(t, at.y, p.stride_h, p.pad_top, kh, p.dilation_h, p.height);
                const int64_t ix = met(t, at.x, p.stride_w, p.pad_left, kw, p.dilation_w, p.width);
                if (iz < 0 || iy < 0 || ix < 0) continue;  // padding adds nothing
                const int64_t pixel = ((at.image * p.depth + iz) * p.height + iy) * p.width + ix;
                const int64_t tap = (kd * p.kernel_h + kh) * p.kernel_w + kw;
                for (int64_t c = 0; c < p.group_in; ++c) {
                    visit(Term{pixel * p.channels + group * p.group_in + c,
                               (tap * p.group_in + c) * p.out_channels + channel, c});
                }
            }
        }
    }
}

/// `terms(visit)` yields the products of one element in order; c: its addend's index, -1 when absent.
template <class Terms>
float float_sum(const Tensor& a, const Tensor& b, const Addend& c, int64_t c_index, Terms terms) {
    const float addend = c.tensor == nullptr ? 0.0F : load_float(c.tensor->type, c.tensor->data, c_index);
    float acc = c.first ? addend : 0.0F;
    terms([&](const Term& t) {
        acc = std::fma(load_float(a.type, a.data, t.a), load_float(b.type, b.data, t.b), acc);
    });
    return c.tensor != nullptr && !c.first ? acc + addend : acc;
}

template <class Terms>
void float_element(const Tensor& a, const Tensor& b, const Tensor& y, const Addend& c, int64_t c_index,
                   int64_t index, Terms terms) {
    put_float(y, index, static_cast<double>(float_sum(a, b, c, c_index, terms)));
}

/// Returns the same sum in binary64, which the products of floats do not leave.
template <class Terms>
double exact_element(const Tensor& a, const Tensor& b, const Addend& c, int64_t c_index, Terms terms) {
    double sum = c.tensor == nullptr ? 0 : load_real(c.tensor->type, c.tensor->data, c_index);
    terms([&](const Term& t) { sum += load_real(a.type, a.data, t.a) * load_real(b.type, b.data, t.b); });
    return sum;
}

template <class Terms>
void int_element(const IntScaling& s, const Tensor& a, const Tensor& b, const Tensor& y, const Addend& c,
                 int64_t c_index, int64_t index, int64_t column, Terms terms) {
    const auto n = static_cast<size_t>(column);
    const auto addend = static_cast<uint32_t>(
        c.tensor == nullptr ? 0 : load_integer(c.tensor->type, c.tensor->data, c_index));
    const auto groups = s.group_size == 0 ? size_t{1} : s.multiplier.size();
    std::vector<uint32_t> acc(groups, 0);
    terms([&](const Term& t) {
        const auto g = s.group_size == 0 ? size_t{0} : static_cast<size_t>(t.depth / s.group_size);
        const int64_t b_zero = s.b_zero[s.group_size == 0 ? n : g];
        const auto left = static_cast<uint32_t>(load_integer(a.type, a.data, t.a) - s.a_zero);
        acc[g] += left * static_cast<uint32_t>(load_integer(b.type, b.data, t.b) - b_zero);
    });
    if (s.raw) {
        store(y.data, index, acc[0] + addend);
        return;
    }
    double scaled = 0;
    if (s.group_size == 0) {
        scaled = static_cast<double>(static_cast<int32_t>(acc[0] + addend)) * s.multiplier[n];
    } else {
        for (size_t g = 0; g < groups; ++g) {
            scaled += static_cast<double>(static_cast<int32_t>(acc[g])) * s.multiplier[g];
        }
        scaled += static_cast<double>(static_cast<int32_t>(addend)) * s.c_multiplier;
    }
    put_steps(y, index, scaled, s.y_zero[n]);
}

/// Accumulators of each group, scaled and added one after the other.
template <class Terms>
void group_element(const GroupScaling& s, const Tensor& a, const Tensor& b, const Tensor& y, int64_t index,
                   size_t column, Terms terms) {
    const auto columns = static_cast<size_t>(b.shape[b.shape.rank - 1U]), groups = s.scale.size() / columns;
    std::vector<uint32_t> acc(groups, 0), left(groups, 0);
    terms([&](const Term& t) {
        const auto g = static_cast<size_t>(t.depth / s.group_size);
        const auto from_zero = static_cast<uint32_t>(load_integer(a.type, a.data, t.a) - s.a_zero);
        acc[g] += from_zero * static_cast<uint32_t>(load_integer(b.type, b.data, t.b));
        left[g] += from_zero;
    });
    auto sum = load<float>(y.data, index);
    for (size_t g = 0; g < groups; ++g) {
        auto scaled = static_cast<double>(static_cast<int32_t>(acc[g]));
        if (!s.zero_point.empty())
            scaled -= static_cast<double>(static_cast<int32_t>(left[g])) * s.zero_point[g * columns + column];
        sum = f32_of(static_cast<double>(sum) + scaled * s.scale[g * columns + column]);
    }
    store(y.data, index, sum);
}

/// visit(element of Y, output channel, element of the addend, products) for every element of Y.
template <class Visit>
void for_each_element(const GemmProblem& p, Visit visit) {
    for (int64_t batch = 0; batch < p.batch; ++batch) {
        for (int64_t row = 0; row < p.m; ++row) {
            for (int64_t column = 0; column < p.n; ++column) {
                const int64_t c = p.c.tensor == nullptr ? -1 : p.c_offset(batch, row, column);
                visit((batch * p.m + row) * p.n + column, column, c,
                      [&](auto term) { for_each_term(p, batch, row, column, term); });
            }
        }
    }
}

template <class Visit>
void for_each_element(const ConvProblem& p, Visit visit) {
    const int64_t plane = p.out_h * p.out_w, pixels = p.out_d * plane;
    for (int64_t pixel = 0; pixel < p.batch * pixels; ++pixel) {
        const Pixel at{pixel / pixels, pixel % pixels / plane, pixel % plane / p.out_w, pixel % p.out_w};
        for (int64_t channel = 0; channel < p.out_channels; ++channel) {
            const int64_t c = p.b.tensor == nullptr ? -1 : p.c_offset(at.image, at.z, at.y, at.x, channel);
            visit(pixel * p.out_channels + channel, channel, c,
                  [&](auto term) { for_each_term(p, at, channel, term); });
        }
    }
}

/// Operands of a product, whichever kind.
struct Operands {
    const Tensor &a, &b, &y;
    const Addend& c;
};
Operands operands_of(const GemmProblem& p) { return {*p.a, *p.b, *p.y, p.c}; }
Operands operands_of(const ConvProblem& p) { return {*p.x, *p.w, *p.y, p.b}; }

template <class Problem>
void compute(const Problem& p) {
    const Operands of = operands_of(p);
    const size_t columns = of.b.shape.rank - 1U;
    const bool integer = is_integer(of.a.type);
    const IntScaling scaling =
        integer ? int_scaling(of.a, of.b, of.y, of.c, columns - 1, columns) : IntScaling{};
    for_each_element(p, [&](int64_t index, int64_t column, int64_t c, auto terms) {
        if (integer) {
            int_element(scaling, of.a, of.b, of.y, of.c, c, index, column, terms);
        } else {
            float_element(of.a, of.b, of.y, of.c, c, index, terms);
        }
    });
}

template <class Problem>
void count_infinite(const Problem& p) {
    const Operands of = operands_of(p);
    for_each_element(p, [&](int64_t index, int64_t, int64_t c, auto terms) {
        const float result = load_float(of.y.type, of.y.data, index);
        if (std::isinf(result) && std::isinf(float_sum(of.a, of.b, of.c, c, terms)) &&
            std::isfinite(exact_element(of.a, of.b, of.c, c, terms)))
            of.y.beyond->note(std::signbit(result), !std::signbit(result));
    });
}

}  // namespace

void group_gemm(const Call& call) {
    const GemmProblem p = gemm_problem(call);
    const GroupScaling scaling = group_scaling(call);
    start_sums(p.c, *p.y);
    for (int64_t row = 0; row < p.m; ++row) {
        for (int64_t column = 0; column < p.n; ++column) {
            group_element(scaling, *p.a, *p.b, *p.y, row * p.n + column, static_cast<size_t>(column),
                          [&](auto visit) { for_each_term(p, 0, row, column, visit); });
        }
    }
}

void group_conv(const Call& call) {
    const ConvProblem p = conv_problem(call);
    const GroupScaling scaling = group_scaling(call);
    start_sums(addend_of(call), *p.y);
    int64_t index = 0;
    for (int64_t pixel = 0; pixel < p.batch * p.out_h * p.out_w; ++pixel) {
        const Pixel at{pixel / (p.out_h * p.out_w), 0, pixel / p.out_w % p.out_h, pixel % p.out_w};
        for (int64_t channel = 0; channel < p.out_channels; ++channel) {
            group_element(scaling, *p.x, *p.w, *p.y, index++, static_cast<size_t>(channel),
                          [&](auto visit) { for_each_term(p, at, channel, visit); });
        }
    }
}

void gemm(const Call& call) { compute(gemm_problem(call)); }
void conv(const Call& call) { compute(conv_problem(call)); }

void count_infinite_products(const Call& call) {
    if (call.spec.op_class == OpcodeClass::gemm) return count_infinite(gemm_problem(call));
    count_infinite(conv_problem(call));
}

}  // namespace kpu::values::reference
