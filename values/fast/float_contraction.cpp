// Float gemm: vectorised across output columns, so that each output keeps its order of k.
#include <algorithm>
#include <cstring>

#include "values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

constexpr int64_t depth_block = 256;  // a panel's block stays in the first-level cache
constexpr int64_t row_block = 96;     // rows whose accumulators are kept at a time

/// Right operand in panels of `width` columns: [panel][k][width], zero-filled.
struct Panels {
    const float* data;
    int64_t k, width, count;
    int64_t columns() const { return width * count; }
};

Panels pack(float* to, const float* b, int64_t ld_b, int64_t k, int64_t n, int64_t width) {
    const Panels panels{to, k, width, (n + width - 1) / width};
    for (int64_t p = 0; p < panels.count; ++p) {
        const int64_t first = p * width;
        const int64_t used = std::min(width, n - first);
        for (int64_t i = 0; i < k; ++i, to += width) {
            std::memcpy(to, b + i * ld_b + first, static_cast<size_t>(used) * sizeof(float));
            std::fill(to + used, to + width, 0.0F);
        }
    }
    return panels;
}

/// n values of the addend from element `offset` on, as f32.
const float* addend_row(const Kernels& kernels, Scratch& scratch, const Addend& c, int64_t offset,
                        int64_t n) {
    float* row = scratch.addend.get(std::max<int64_t>(n, 1));
    if (n == 0) return row;
    const bool repeated = c.strides[c.strides.rank - 1U] == 0;
    widen(kernels, *c.tensor, offset, repeated ? 1 : n, row);
    if (repeated) std::fill(row, row + n, row[0]);
    return row;
}

/// acc += A[rows][k] x panels, k from first_k on.
void accumulate(const Kernels& kernels, int64_t rows, int64_t k, const float* a, int64_t lda,
                const Panels& panels, int64_t first_k, float* acc) {
    const int64_t ld = panels.columns();
    for (int64_t start = 0; start < k; start += depth_block) {
        const int64_t depth = std::min(depth_block, k - start);
        for (int64_t p = 0; p < panels.count; ++p) {
            const float* b = panels.data + (p * panels.k + first_k + start) * panels.width;
            for (int64_t r = 0; r < rows; r += kernels.f32_rows) {
                const auto count = static_cast<int>(std::min<int64_t>(kernels.f32_rows, rows - r));
                kernels.f32_tile(count, depth, a + r * lda + start, lda, b, acc + r * ld + p * panels.width,
                                 ld);
            }
        }
    }
}

}  // namespace

void start_row(const Kernels& kernels, Scratch& scratch, const Addend& c, int64_t c_offset, int64_t n,
               int64_t padded, float* acc) {
    std::fill(acc, acc + padded, 0.0F);
    if (c.tensor == nullptr || !c.first) return;
    const float* row = addend_row(kernels, scratch, c, c_offset, n);
    std::copy(row, row + n, acc);
}

void finish_row(const Kernels& kernels, Scratch& scratch, const Addend& c, int64_t c_offset, int64_t n,
                float* acc, const Tensor& y, int64_t y_offset) {
    if (c.tensor != nullptr && !c.first) {
        const float* row = addend_row(kernels, scratch, c, c_offset, n);
        for (int64_t i = 0; i < n; ++i) acc[i] = acc[i] + row[i];
    }
    narrow(kernels, acc, y, y_offset, n);
}

const float* as_f32(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count,
                    Buffer<float>& buffer) {
    if (tensor.type == ElemType::f32) return reinterpret_cast<const float*>(tensor.data) + first;
    float* to = buffer.get(std::max<int64_t>(count, 1));
    widen(kernels, tensor, first, count, to);
    return to;
}

void float_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p) {
    const int64_t width = kernels.f32_columns;
    const int64_t padded = round_up(p.n, width);
    for (int64_t batch = 0; batch < p.batch; ++batch) {
        const float* b = as_f32(kernels, *p.b, batch * p.k * p.n, p.k * p.n, scratch.right);
        const Panels panels = pack(scratch.panels.get(p.k * padded), b, p.n, p.k, p.n, width);
        for (int64_t first = 0; first < p.m; first += row_block) {
            const int64_t rows = std::min(row_block, p.m - first);
            const int64_t row0 = batch * p.m + first;
            const float* a = as_f32(kernels, *p.a, row0 * p.k, rows * p.k, scratch.left);
            float* acc = scratch.acc.get(rows * padded);
            const auto c_offset = [&](int64_t r) {
                return p.c.tensor == nullptr ? 0 : p.c_offset(batch, first + r, 0);
            };
            for (int64_t r = 0; r < rows; ++r) {
                start_row(kernels, scratch, p.c, c_offset(r), p.n, padded, acc + r * padded);
            }
            accumulate(kernels, rows, p.k, a, p.k, panels, 0, acc);
            for (int64_t r = 0; r < rows; ++r) {
                finish_row(kernels, scratch, p.c, c_offset(r), p.n, acc + r * padded, *p.y, (row0 + r) * p.n);
            }
        }
    }
}

}  // namespace kpu::values::fast
