// Integer gemm and convolutions.
#include "values/fast/int_product.hpp"

namespace kpu::values::fast {
namespace {

/// Finishes the accumulators of a row of Y: C, scaling, narrowing.
class Output {
  public:
    Output(const Kernels& kernels, Scratch& scratch, const IntScaling& scaling, const Addend& c,
           const Tensor& y)
        : kernels_(kernels),
          scratch_(scratch),
          scaling_(scaling),
          c_(c),
          y_(y),
          zeros_(scaling.y_zero.begin(), scaling.y_zero.end()) {}

    /// n accumulators of the output channels from first_column on; c_offset, y_offset: first elements in C
    /// and Y.
    void finish(uint32_t* line, int64_t first_column, int64_t n, int64_t c_offset, int64_t y_offset) const {
        if (c_.tensor != nullptr) {
            const auto* c = reinterpret_cast<const uint32_t*>(c_.tensor->data) + c_offset;
            const int64_t stride = c_.strides[c_.strides.rank - 1U];
            for (int64_t i = 0; i < n; ++i) line[i] += c[i * stride];
        }
        if (scaling_.raw) {
            std::memcpy(y_.data + y_offset * 4, line, static_cast<size_t>(n) * 4);
            return;
        }
        int32_t* to = scratch_.narrow.get(std::max<int64_t>(n, 1));
        Outside outside;
        kernels_.requantize(reinterpret_cast<const int32_t*>(line), scaling_.multiplier.data() + first_column,
                            zeros_.data() + first_column, static_cast<double>(scaling_.range.low),
                            static_cast<double>(scaling_.range.high), to, n, outside);
        note_outside(y_, outside);
        narrow_integers(to, y_, y_offset, n);
    }
    int64_t b_zero(int64_t column) const { return scaling_.b_zero[static_cast<size_t>(column)]; }
    int64_t a_zero() const { return scaling_.a_zero; }

  private:
    const Kernels& kernels_;
    Scratch& scratch_;
    const IntScaling& scaling_;
    const Addend& c_;
    const Tensor& y_;
    std::vector<double> zeros_;
};

template <class Form>
void gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p, const Output& output) {
    using Left = typename Form::Left;
    Product<Form, Output> product(kernels, scratch, output, p.a->type, p.k, p.n);
    const int64_t offset = Form::offset(p.a->type);
    const int64_t size = product.row_size();
    for (int64_t batch = 0; batch < p.batch; ++batch) {
        product.pack(*p.b, batch * p.k * p.n, p.n, 0);
        for (int64_t first = 0; first < p.m; first += row_block) {
            const int64_t count = std::min(row_block, p.m - first);
            Left* rows = Form::rows_buffer(scratch).get(count * size);
            for (int64_t r = 0; r < count; ++r) {
                read(*p.a, (batch * p.m + first + r) * p.k, p.k, offset, rows + r * size);
                std::fill(rows + r * size + p.k, rows + (r + 1) * size, Left{0});
            }
            product.run(
                rows, count,
                [&](int64_t r) { return p.c.tensor == nullptr ? 0 : p.c_offset(batch, first + r, 0); },
                [&](int64_t r) { return (batch * p.m + first + r) * p.n; });
        }
    }
}

/// The window of an output pixel: what fill_window gives of each plane.
template <class Left>
void fill_planes(const ConvProblem& p, const Left* image, int64_t first, int64_t pixel, Left padding,
                 Left* row) {
    const int64_t plane_size = p.height * p.width * p.channels;
    const int64_t taps = p.kernel_h * p.kernel_w * p.group_in;
    const int64_t oz = pixel / (p.out_h * p.out_w), oy = pixel / p.out_w % p.out_h, ox = pixel % p.out_w;
    for (int64_t kd = 0; kd < p.kernel_d; ++kd, row += taps) {
        const int64_t z = oz * p.stride_d - p.pad_front + kd * p.dilation_d;
        if (z < 0 || z >= p.depth) {
            std::fill(row, row + taps, padding);
        } else {
            fill_window(p, image + z * plane_size, first, p.group_in, oy, ox, padding, row);
        }
    }
}

template <class Form>
void conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const Output& output) {
    using Left = typename Form::Left;
    const int64_t k = p.kernel_d * p.kernel_h * p.kernel_w * p.group_in;
    const int64_t image_size = p.depth * p.height * p.width * p.channels;
    const int64_t plane = p.out_h * p.out_w, pixels = p.out_d * plane;
    Product<Form, Output> product(kernels, scratch, output, p.x->type, k, p.group_out);
    const int64_t size = product.row_size();
    Left* images = Form::left_buffer(scratch).get(std::max<int64_t>(p.batch * image_size, 1));
    read(*p.x, 0, p.batch * image_size, Form::offset(p.x->type), images);
    for (int64_t group = 0; group < p.groups; ++group) {
        const int64_t channel = group * p.group_out;
        product.pack(*p.w, channel, p.out_channels, channel);
        for (int64_t first = 0; first < p.batch * pixels; first += row_block) {
            const int64_t count = std::min(row_block, p.batch * pixels - first);
            Left* rows = Form::rows_buffer(scratch).get(count * size);
            const auto image_of = [&](int64_t r) { return (first + r) / pixels; };
            const auto pixel_of = [&](int64_t r) { return (first + r) % pixels; };
            for (int64_t r = 0; r < count; ++r) {
                fill_planes(p, images + image_of(r) * image_size, group * p.group_in, pixel_of(r),
                            product.padding(), rows + r * size);
                std::fill(rows + r * size + k, rows + (r + 1) * size, Left{0});
            }
            product.run(
                rows, count,
                [&](int64_t r) {
                    const int64_t at = pixel_of(r);
                    return p.c_offset(image_of(r), at / plane, at % plane / p.out_w, at % p.out_w, channel);
                },
                [&](int64_t r) { return (first + r) * p.out_channels + channel; });
        }
    }
}

/// Computes a convolution with one channel per group, vectorised across channels.
void depthwise(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const Output& output) {
    const int64_t n = p.channels;
    const int64_t taps = p.kernel_h * p.kernel_w;
    int32_t* w = scratch.weights32.get(taps * n);
    int32_t* x = scratch.image32.get(p.batch * p.height * p.width * n);
    read(*p.w, 0, taps * n, 0, w);
    for (int64_t i = 0; i < taps * n; ++i) w[i] -= static_cast<int32_t>(output.b_zero(i % n));
    read(*p.x, 0, p.batch * p.height * p.width * n, -output.a_zero(), x);
    uint32_t* acc = scratch.acc32.get(n);
    int64_t pixel = 0;
    for (int64_t image = 0; image < p.batch; ++image, x += p.height * p.width * n) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange rows = valid_taps(top, p.dilation_h, p.kernel_h, p.height);
            for (int64_t ox = 0; ox < p.out_w; ++ox, ++pixel) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, p.dilation_w, p.kernel_w, p.width);
                std::fill(acc, acc + n, 0U);
                for (int64_t kh = rows.first; kh < rows.last; ++kh) {
                    for (int64_t kw = columns.first; kw < columns.last; ++kw) {
                        const int64_t at = (top + kh * p.dilation_h) * p.width + left + kw * p.dilation_w;
                        kernels.mac_each(acc, x + at * n, w + (kh * p.kernel_w + kw) * n, n);
                    }
                }
                const int64_t c_offset = p.c_offset(image, 0, oy, ox, 0);
                output.finish(acc, 0, n, c_offset, pixel * n);
            }
        }
    }
}

}  // namespace

bool int_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p) {
    const size_t depth_axis = p.b->shape.rank - 2U;
    const IntScaling scaling = int_scaling(*p.a, *p.b, *p.y, p.c, depth_axis, depth_axis + 1);
    if (scaling.group_size != 0) return false;
    const Output output(kernels, scratch, scaling, p.c, *p.y);
    if (kernels.u8i8_tile != nullptr && is_byte(p.a->type) && is_signed_byte(p.b->type)) {
        gemm<Bytes>(kernels, scratch, p, output);
    } else {
        gemm<Words>(kernels, scratch, p, output);
    }
    return true;
}

bool int_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    const size_t columns = p.w->shape.rank - 1U;
    const IntScaling scaling = int_scaling(*p.x, *p.w, *p.y, p.b, columns - 1, columns);
    if (scaling.group_size != 0) return false;
    const Output output(kernels, scratch, scaling, p.b, *p.y);
    if (p.flat() && p.groups > 1 && p.group_in == 1 && p.group_out == 1) {
        depthwise(kernels, scratch, p, output);
    } else if (kernels.u8i8_tile != nullptr && is_byte(p.x->type) && is_signed_byte(p.w->type)) {
        conv<Bytes>(kernels, scratch, p, output);
    } else {
        conv<Words>(kernels, scratch, p, output);
    }
    return true;
}

}  // namespace kpu::values::fast
