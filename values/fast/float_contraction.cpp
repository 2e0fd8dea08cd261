// Float gemm and conv2d: vectorised across output columns, so that each output keeps its order of k.
#include <algorithm>
#include <cstring>

#include "values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

constexpr int64_t k_block = 256;   // a panel's block stays in the first-level cache
constexpr int64_t row_block = 96;  // rows whose accumulators are kept at a time

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

/// acc += A[rows][k] x panels, k from first_k on.
void accumulate(const Kernels& kernels, int64_t rows, int64_t k, const float* a, int64_t lda,
                const Panels& panels, int64_t first_k, float* acc) {
    const int64_t ld = panels.columns();
    for (int64_t start = 0; start < k; start += k_block) {
        const int64_t depth = std::min(k_block, k - start);
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

/// A float operand as f32: in place, or widened into the buffer.
const float* as_f32(const Kernels& kernels, const Tensor& tensor, int64_t first, int64_t count,
                    Buffer<float>& buffer) {
    if (tensor.type == ElemType::f32) return reinterpret_cast<const float*>(tensor.data) + first;
    float* to = buffer.get(std::max<int64_t>(count, 1));
    widen(kernels, tensor, first, count, to);
    return to;
}

/// A run of output pixels of one row whose windows have the same valid taps, and one group of channels.
class ConvRun {
  public:
    ConvRun(const Kernels& kernels, const ConvProblem& p, const float* image, const Panels& panels,
            int64_t group)
        : kernels_(kernels), p_(p), image_(image), panels_(panels), group_(group) {}

    void accumulate_taps(int64_t count, int64_t top, int64_t left, TapRange rows, TapRange columns,
                         float* acc) const {
        for (int64_t kh = rows.first; kh < rows.last; ++kh) {
            const float* line =
                image_ + (top + kh * p_.dilation_h) * p_.width * p_.channels + group_ * p_.group_in;
            // neighbouring taps of all channels are contiguous
            const bool joined = p_.dilation_w == 1 && p_.groups == 1;
            const int64_t step = joined ? columns.last - columns.first : 1;
            for (int64_t kw = columns.first; kw < columns.last; kw += step) {
                const float* at = line + (left + kw * p_.dilation_w) * p_.channels;
                accumulate(kernels_, count, step * p_.group_in, at, p_.stride_w * p_.channels, panels_,
                           (kh * p_.kernel_w + kw) * p_.group_in, acc);
            }
        }
    }

  private:
    const Kernels& kernels_;
    const ConvProblem& p_;
    const float* image_;
    const Panels& panels_;
    int64_t group_;
};

void conv_line(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const ConvRun& run,
               int64_t padded, int64_t image, int64_t group, int64_t oy) {
    const int64_t top = oy * p.stride_h - p.pad_top;
    const TapRange rows = valid_taps(top, p.dilation_h, p.kernel_h, p.height);
    for (int64_t ox = 0; ox < p.out_w;) {
        const auto taps = [&](int64_t x) {
            return valid_taps(x * p.stride_w - p.pad_left, p.dilation_w, p.kernel_w, p.width);
        };
        const TapRange columns = taps(ox);
        int64_t count = 1;
        for (; ox + count < p.out_w && count < row_block; ++count) {
            const TapRange next = taps(ox + count);
            if (next.first != columns.first || next.last != columns.last) break;
        }
        float* acc = scratch.acc.get(count * padded);
        const int64_t channel = group * p.group_out;
        const auto c_offset = [&](int64_t i) { return p.c_offset(image, 0, oy, ox + i, channel); };
        for (int64_t i = 0; i < count; ++i) {
            start_row(kernels, scratch, p.b, c_offset(i), p.group_out, padded, acc + i * padded);
        }
        run.accumulate_taps(count, top, ox * p.stride_w - p.pad_left, rows, columns, acc);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t pixel = (image * p.out_h + oy) * p.out_w + ox + i;
            finish_row(kernels, scratch, p.b, c_offset(i), p.group_out, acc + i * padded, *p.y,
                       pixel * p.out_channels + channel);
        }
        ox += count;
    }
}

/// One channel per group: vectorised across channels.
void depthwise(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    const int64_t n = p.channels;
    const int64_t image_size = p.height * p.width * n;
    const float* w = as_f32(kernels, *p.w, 0, p.kernel_h * p.kernel_w * n, scratch.right);
    float* acc = scratch.acc.get(n);
    int64_t pixel = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        const float* x = as_f32(kernels, *p.x, image * image_size, image_size, scratch.left);
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange rows = valid_taps(top, p.dilation_h, p.kernel_h, p.height);
            for (int64_t ox = 0; ox < p.out_w; ++ox, ++pixel) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, p.dilation_w, p.kernel_w, p.width);
                const int64_t c_offset = p.c_offset(image, 0, oy, ox, 0);
                start_row(kernels, scratch, p.b, c_offset, n, n, acc);
                for (int64_t kh = rows.first; kh < rows.last; ++kh) {
                    for (int64_t kw = columns.first; kw < columns.last; ++kw) {
                        const int64_t at = (top + kh * p.dilation_h) * p.width + left + kw * p.dilation_w;
                        kernels.fma_each(acc, x + at * n, w + (kh * p.kernel_w + kw) * n, n);
                    }
                }
                finish_row(kernels, scratch, p.b, c_offset, n, acc, *p.y, pixel * n);
            }
        }
    }
}

}  // namespace

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

bool float_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    if (!p.flat()) return false;
    if (p.groups > 1 && p.group_in == 1 && p.group_out == 1) {
        depthwise(kernels, scratch, p);
        return true;
    }
    const int64_t width = kernels.f32_columns;
    const int64_t padded = round_up(p.group_out, width);
    const int64_t k = p.kernel_h * p.kernel_w * p.group_in;
    const float* w = as_f32(kernels, *p.w, 0, k * p.out_channels, scratch.right);
    float* packed = scratch.panels.get(p.groups * k * padded);
    std::vector<Panels> panels;
    for (int64_t group = 0; group < p.groups; ++group) {
        panels.push_back(pack(packed + group * k * padded, w + group * p.group_out, p.out_channels, k,
                              p.group_out, width));
    }
    const int64_t image_size = p.height * p.width * p.channels;
    for (int64_t image = 0; image < p.batch; ++image) {
        const float* x = as_f32(kernels, *p.x, image * image_size, image_size, scratch.left);
        for (int64_t group = 0; group < p.groups; ++group) {
            const ConvRun run(kernels, p, x, panels[static_cast<size_t>(group)], group);
            for (int64_t oy = 0; oy < p.out_h; ++oy) {
                conv_line(kernels, scratch, p, run, padded, image, group, oy);
            }
        }
    }
    return true;
}

}  // namespace kpu::values::fast
