// gemm.group and conv2d.group: an integer product for each group, whose sums are scaled and added to Y.
#include "values/fast/int_product.hpp"

namespace kpu::values::fast {
namespace {

/// Y = Y + (sum - zero point * sum of the left row) * scale, in binary64, rounded to f32.
class ScaledOutput {
  public:
    ScaledOutput(const GroupScaling& scaling, const Tensor& y)
        : scaling_(scaling), y_(reinterpret_cast<float*>(y.data)) {}

    int64_t a_zero() const { return scaling_.a_zero; }
    static int64_t b_zero(int64_t) { return 0; }
    void start(int64_t group, int64_t row_length, int64_t zero) {
        group_ = group;
        row_length_ = row_length;
        zero_ = zero;
        left_sums.clear();
    }
    /// Notes the sum of a row without its zero points.
    template <class Left>
    void note_row(const Left* row) {
        const uint32_t sum = row_sum(row, row_length_);
        left_sums.push_back(static_cast<int32_t>(sum - static_cast<uint32_t>(row_length_ * zero_)));
    }
    void finish(const uint32_t* line, int64_t, int64_t n, int64_t row, int64_t y_offset) const {
        const double* scale = scaling_.scale.data() + group_ * n;
        float* y = y_ + y_offset;
        if (scaling_.zero_point.empty()) {
            for (int64_t i = 0; i < n; ++i)
                y[i] = f32_of(static_cast<double>(y[i]) +
                              static_cast<double>(static_cast<int32_t>(line[i])) * scale[i]);
            return;
        }
        const double* zero_point = scaling_.zero_point.data() + group_ * n;
        const auto left = static_cast<double>(left_sums[static_cast<size_t>(row)]);
        for (int64_t i = 0; i < n; ++i) {
            const double sum = static_cast<double>(static_cast<int32_t>(line[i])) - left * zero_point[i];
            y[i] = f32_of(static_cast<double>(y[i]) + sum * scale[i]);
        }
    }

    std::vector<int32_t> left_sums;

  private:
    const GroupScaling& scaling_;
    float* y_;
    int64_t group_ = 0, row_length_ = 0, zero_ = 0;
};

/// Rows of `taps` times `depth` elements: what a product needs to know of a gemm (one tap) or a convolution.
struct Rows {
    int64_t count, taps, depth, columns;
};

/// `fill(row, first, size, to)`: elements [first, first + size) of each tap of a left row, packed.
template <class Form, class Fill>
void each_group(const Kernels& kernels, Scratch& scratch, const Rows& rows, const GroupScaling& scaling,
                const Tensor& a, const Tensor& b, const Tensor& y, Fill fill) {
    using Left = typename Form::Left;
    ScaledOutput output(scaling, y);
    std::vector<uint8_t> gathered;
    for (int64_t first = 0, g = 0; first < rows.depth; first += scaling.group_size, ++g) {
        const int64_t size = std::min(scaling.group_size, rows.depth - first), k = rows.taps * size;
        gathered.clear();
        for (int64_t tap = 0; tap < rows.taps; ++tap) {
            const int64_t element = static_cast<int64_t>(b.type == ElemType::i16 ? 2 : 1) * rows.columns;
            const uint8_t* from = b.data + (tap * rows.depth + first) * element;
            gathered.insert(gathered.end(), from, from + size * element);
        }
        Tensor weights = b;
        weights.data = gathered.data();
        Product<Form, ScaledOutput> product(kernels, scratch, output, a.type, k, rows.columns);
        output.start(g, k, product.padding());
        product.pack(weights, 0, rows.columns, 0);
        for (int64_t block = 0; block < rows.count; block += row_block) {
            const int64_t count = std::min(row_block, rows.count - block), length = product.row_size();
            Left* packed = Form::rows_buffer(scratch).get(count * length);
            output.left_sums.clear();
            for (int64_t r = 0; r < count; ++r) {
                Left* row = packed + r * length;
                fill(block + r, first, size, product.padding(), row);
                std::fill(row + k, row + length, Left{0});
                if (!scaling.zero_point.empty()) output.note_row(row);
            }
            product.run(
                packed, count, [](int64_t r) { return r; },
                [&](int64_t r) { return (block + r) * rows.columns; });
        }
    }
}

template <class Form>
void gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p, const GroupScaling& scaling) {
    using Left = typename Form::Left;
    const int64_t offset = Form::offset(p.a->type);
    each_group<Form>(kernels, scratch, {p.m, 1, p.k, p.n}, scaling, *p.a, *p.b, *p.y,
                     [&](int64_t row, int64_t first, int64_t size, Left, Left* to) {
                         read(*p.a, row * p.k + first, size, offset, to);
                     });
}

template <class Form>
void conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const GroupScaling& scaling) {
    using Left = typename Form::Left;
    const int64_t image_size = p.height * p.width * p.channels, pixels = p.out_h * p.out_w;
    Left* images = Form::left_buffer(scratch).get(std::max<int64_t>(p.batch * image_size, 1));
    read(*p.x, 0, p.batch * image_size, Form::offset(p.x->type), images);
    const Rows rows{p.batch * pixels, p.kernel_h * p.kernel_w, p.channels, p.out_channels};
    each_group<Form>(kernels, scratch, rows, scaling, *p.x, *p.w, *p.y,
                     [&](int64_t row, int64_t first, int64_t size, Left padding, Left* to) {
                         const int64_t at = row % pixels;
                         fill_window(p, images + row / pixels * image_size, first, size, at / p.out_w,
                                     at % p.out_w, padding, to);
                     });
}

bool of_bytes(const Kernels& kernels, const Tensor& a, const Tensor& b) {
    return kernels.u8i8_tile != nullptr && is_byte(a.type) && is_signed_byte(b.type);
}

}  // namespace

bool group_gemm(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const GemmProblem p = gemm_problem(call);
    const GroupScaling scaling = group_scaling(call);
    start_sums(p.c, *p.y);
    of_bytes(kernels, *p.a, *p.b) ? gemm<Bytes>(kernels, scratch, p, scaling)
                                  : gemm<Words>(kernels, scratch, p, scaling);
    return true;
}

bool group_conv(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const ConvProblem p = conv_problem(call);
    const GroupScaling scaling = group_scaling(call);
    start_sums(addend_of(call), *p.y);
    of_bytes(kernels, *p.x, *p.w) ? conv<Bytes>(kernels, scratch, p, scaling)
                                  : conv<Words>(kernels, scratch, p, scaling);
    return true;
}

}  // namespace kpu::values::fast
