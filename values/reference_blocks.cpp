// The block formats of OCP (Microscaling 1.0): float8 with an exponent that neighbours share.
#include <algorithm>
#include <cmath>

#include "values/float8.hpp"
#include "values/reference.hpp"
#include "values/scalar.hpp"

namespace kpu::values::reference {
namespace {

constexpr uint8_t not_a_number = 255;

/// E8M0: 2^(code - 127).
double scale_of(uint8_t code) {
    return code == not_a_number ? static_cast<double>(float_of(f32_nan)) : std::ldexp(1.0, code - 127);
}

/// Elements of a tensor in blocks along a dimension: visit(first, count, step, block), `first` the first element's index.
template <class Visit>
void for_each_block(const Call& call, const Tensor& whole, Visit visit) {
    const int64_t rank = whole.shape.rank, given = call.attrs.integer("axis", -1);
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    const int64_t size = call.attrs.integer("block_size", 32), extent = whole.shape[axis];
    int64_t step = 1;
    for (size_t d = axis + 1; d < whole.shape.rank; ++d) step *= whole.shape[d];
    const int64_t blocks = (extent + size - 1) / size,
                  outer = extent == 0 ? 0 : whole.shape.product() / extent / std::max<int64_t>(step, 1);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t b = 0; b < blocks; ++b) {
            for (int64_t i = 0; i < step; ++i)
                visit((o * extent + b * size) * step + i, std::min(size, extent - b * size), step,
                      (o * blocks + b) * step + i);
        }
    }
}

/// The code of numbers up to this size: the exponent of the size less that of the format's greatest number.
uint8_t code_of(double largest, ElemType type) {
    if (!std::isfinite(largest)) return not_a_number;
    if (largest == 0) return 0;
    const int greatest = std::ilogb(f8_numbers(type)[format_of_f8(type).greatest]);
    return static_cast<uint8_t>(std::clamp(std::ilogb(largest) - greatest, -127, 127) + 127);
}

}  // namespace

void block_gemm(const Call& call) {
    const GemmProblem p = gemm_problem(call);
    const int64_t size = call.attrs.integer("block_size", 32), blocks = (p.k + size - 1) / size;
    const uint8_t *of_a = call.inputs[2].data, *of_b = call.inputs[3].data;
    start_sums(p.c, *p.y);
    for (int64_t row = 0; row < p.m; ++row) {
        for (int64_t column = 0; column < p.n; ++column) {
            auto sum = load<float>(p.y->data, row * p.n + column);
            for (int64_t b = 0; b < blocks; ++b) {
                float part = 0;
                for (int64_t k = b * size; k < std::min(p.k, (b + 1) * size); ++k) {
                    part = std::fma(load_float(p.a->type, p.a->data, row * p.k + k),
                                    load_float(p.b->type, p.b->data, k * p.n + column), part);
                }
                const double scale = scale_of(of_a[row * blocks + b]) * scale_of(of_b[b * p.n + column]);
                sum = f32_of(static_cast<double>(sum) + static_cast<double>(part) * scale);
            }
            put_float(*p.y, row * p.n + column, static_cast<double>(sum));
        }
    }
}

void quantize_blocks(const Call& call) {
    const Tensor &x = call.x(), &y = call.outputs[0], &s = call.outputs[1];
    for_each_block(call, x, [&](int64_t first, int64_t count, int64_t step, int64_t block) {
        double largest = 0;
        for (int64_t i = 0; i < count; ++i) {
            const double size = std::fabs(load_real(x.type, x.data, first + i * step));
            largest = size <= largest ? largest : size;  // a NaN stays
            if (std::isnan(largest)) break;
        }
        const uint8_t code = code_of(largest, y.type);
        const double scale = scale_of(code);
        for (int64_t i = 0; i < count; ++i)
            store_float(y.type, y.data, first + i * step,
                        load_real(x.type, x.data, first + i * step) / scale);
        s.data[block] = code;
    });
}

void dequantize_blocks(const Call& call) {
    const Tensor &x = call.x(), &s = call.inputs[1], &y = call.y();
    for_each_block(call, x, [&](int64_t first, int64_t count, int64_t step, int64_t block) {
        const double scale = scale_of(s.data[block]);
        for (int64_t i = 0; i < count; ++i)
            put_float(y, first + i * step, load_real(x.type, x.data, first + i * step) * scale);
    });
}

}  // namespace kpu::values::reference
