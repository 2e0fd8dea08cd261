// The block formats: MXFP8, MXFP6, MXFP4 and MXINT8 of OCP (Microscaling 1.0), whose neighbours share an exponent, and NVFP4,
// whose neighbours share a scale in f8e4m3.
#include <algorithm>
#include <cmath>
#include <vector>

#include "values/reference.hpp"
#include "values/scalar.hpp"
#include "values/small_float.hpp"

namespace kpu::values::reference {
namespace {

constexpr uint8_t not_a_number = 255;

constexpr float int8_step =
    0x1p-6F;  ///< MXINT8: i8 from -127/64 to 127/64; -128 is read as -2, and never made

/// E8M0: 2^(code - 127); f8e4m3: itself.
double scale_of(const Tensor& scales, int64_t index) {
    const uint8_t code = scales.data[index];
    if (scales.type == ElemType::f8e4m3) return static_cast<double>(small_float_numbers(scales.type)[code]);
    return code == not_a_number ? static_cast<double>(float_of(f32_nan)) : std::ldexp(1.0, code - 127);
}

float element(const Tensor& tensor, int64_t index) {
    if (tensor.type == ElemType::i8) return static_cast<float>(load<int8_t>(tensor.data, index)) * int8_step;
    return load_float(tensor.type, tensor.data, index);
}

void put_element(const Tensor& tensor, int64_t index, double value) {
    if (tensor.type != ElemType::i8) return store_float(tensor.type, tensor.data, index, value);
    store(tensor.data, index,
          static_cast<int8_t>(quantized(value / static_cast<double>(int8_step), 0, {-127, 127})));
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

double greatest_element(ElemType type) {
    if (type == ElemType::i8) return 127 * static_cast<double>(int8_step);
    return static_cast<double>(small_float_numbers(type)[small_float_format(type).greatest]);
}

/// E8M0 of numbers up to this size: the exponent of the size less that of the format's greatest number.
uint8_t exponent_of(double largest, ElemType type) {
    if (!std::isfinite(largest)) return not_a_number;
    if (largest == 0) return 0;
    return static_cast<uint8_t>(
        std::clamp(std::ilogb(largest) - std::ilogb(greatest_element(type)), -127, 127) + 127);
}

/// f8e4m3 by which the size becomes the format's greatest number; never 0.
uint8_t ratio_of(double largest, ElemType type) {
    if (!std::isfinite(largest)) return e4m3fn.nan;
    return std::max<uint8_t>(1, saturated_small_float(largest / greatest_element(type), e4m3fn));
}

}  // namespace

void block_gemm(const Call& call) {
    const GemmProblem p = gemm_problem(call);
    const int64_t size = call.attrs.integer("block_size", 32), blocks = (p.k + size - 1) / size;
    const Tensor &of_a = call.inputs[2], &of_b = call.inputs[3];
    start_sums(p.c, *p.y);
    std::vector<float> right(static_cast<size_t>(p.k * p.n)), part(static_cast<size_t>(p.n));
    for (int64_t i = 0; i < p.k * p.n; ++i) right[static_cast<size_t>(i)] = element(*p.b, i);
    std::vector<double> scales(static_cast<size_t>(blocks * p.n));
    for (int64_t i = 0; i < blocks * p.n; ++i) scales[static_cast<size_t>(i)] = scale_of(of_b, i);
    for (int64_t row = 0; row < p.m; ++row) {
        float* sums = reinterpret_cast<float*>(p.y->data) + row * p.n;
        for (int64_t b = 0; b < blocks; ++b) {
            std::fill(part.begin(), part.end(), 0.0F);
            for (int64_t k = b * size; k < std::min(p.k, (b + 1) * size); ++k) {
                const float left = element(*p.a, row * p.k + k);
                const float* columns = right.data() + k * p.n;
                // a product of two elements is exact, so its sum is rounded once
                for (int64_t n = 0; n < p.n; ++n) part[static_cast<size_t>(n)] += left * columns[n];
            }
            const double of_row = scale_of(of_a, row * blocks + b);
            for (int64_t n = 0; n < p.n; ++n) {
                const double scale = of_row * scales[static_cast<size_t>(b * p.n + n)];
                sums[n] = f32_of(static_cast<double>(sums[n]) +
                                 static_cast<double>(part[static_cast<size_t>(n)]) * scale);
            }
        }
        for (int64_t n = 0; n < p.n; ++n) put_float(*p.y, row * p.n + n, static_cast<double>(sums[n]));
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
        s.data[block] = s.type == ElemType::f8e4m3 ? ratio_of(largest, y.type) : exponent_of(largest, y.type);
        const double scale = scale_of(s, block);
        for (int64_t i = 0; i < count; ++i)
            put_element(y, first + i * step, load_real(x.type, x.data, first + i * step) / scale);
    });
}

void dequantize_blocks(const Call& call) {
    const Tensor &x = call.x(), &s = call.inputs[1], &y = call.y();
    for_each_block(call, x, [&](int64_t first, int64_t count, int64_t step, int64_t block) {
        const double scale = scale_of(s, block);
        for (int64_t i = 0; i < count; ++i)
            put_float(y, first + i * step, static_cast<double>(element(x, first + i * step)) * scale);
    });
}

}  // namespace kpu::values::reference
