// Integer gemm and conv2d. With p = a + offset as packed (offset 128 makes signed bytes unsigned for the
// dot-product instruction) and z = a_zero + offset:
//   sum (a - a_zero)(b - b_zero) = sum p*b - z * sum b - b_zero * sum p + k * z * b_zero      modulo 2^32
// Padded positions of a convolution hold z, so they add nothing.
#include <algorithm>
#include <cstring>

#include "isa/values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

constexpr int64_t row_block = 96;
constexpr int64_t k_block = 1024;

bool is_signed_byte(ElemType type) { return type == ElemType::i4 || type == ElemType::i8; }
bool is_byte(ElemType type) { return is_signed_byte(type) || type == ElemType::u8; }

/// How operands are packed: Left, Right element types, k's per step.
struct Bytes {
    using Left = uint8_t;
    using Right = int8_t;
    static constexpr int64_t steps = 4;
    static int64_t rows(const Kernels& kernels) { return kernels.i8_rows; }
    static int64_t columns(const Kernels& kernels) { return kernels.i8_columns; }
    static auto tile(const Kernels& kernels) { return kernels.u8i8_tile; }
    static Buffer<Left>& rows_buffer(Scratch& s) { return s.rows8; }
    static Buffer<Left>& left_buffer(Scratch& s) { return s.left8; }
    static Buffer<Right>& panels_buffer(Scratch& s) { return s.panels8; }
    static int64_t offset(ElemType left) { return left == ElemType::u8 ? 0 : 128; }
};
struct Words {
    using Left = int16_t;
    using Right = int16_t;
    static constexpr int64_t steps = 2;
    static int64_t rows(const Kernels& kernels) { return kernels.i16_rows; }
    static int64_t columns(const Kernels& kernels) { return kernels.i16_columns; }
    static auto tile(const Kernels& kernels) { return kernels.i16_tile; }
    static Buffer<Left>& rows_buffer(Scratch& s) { return s.rows16; }
    static Buffer<Left>& left_buffer(Scratch& s) { return s.left16; }
    static Buffer<Right>& panels_buffer(Scratch& s) { return s.panels16; }
    static int64_t offset(ElemType) { return 0; }
};

template <class From, class To>
void copy_shifted(const uint8_t* from, int64_t first, To* to, int64_t count, int offset) {
    const From* source = reinterpret_cast<const From*>(from) + first;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<To>(source[i] + offset);
}

/// Elements of a narrow integer tensor plus offset.
template <class To>
void read(const Tensor& tensor, int64_t first, int64_t count, int64_t offset, To* to) {
    const int shift = static_cast<int>(offset);
    if (tensor.type == ElemType::i16) {
        copy_shifted<int16_t>(tensor.data, first, to, count, shift);
    } else if (tensor.type == ElemType::u8) {
        copy_shifted<uint8_t>(tensor.data, first, to, count, shift);
    } else {
        copy_shifted<int8_t>(tensor.data, first, to, count, shift);
    }
}

/// One product A[m][k] x B[k][n]: columns first_column.. of a wider B and Y.
template <class Form>
class Product {
  public:
    using Left = typename Form::Left;
    using Right = typename Form::Right;

    Product(const Kernels& kernels, Scratch& scratch, const IntScaling& scaling, const Addend& c,
            const Tensor& y, ElemType left, int64_t k, int64_t n)
        : kernels_(kernels),
          scratch_(scratch),
          scaling_(scaling),
          c_(c),
          y_(y),
          k_(k),
          n_(n),
          padded_k_(round_up(k, Form::steps)),
          width_(Form::columns(kernels)),
          padded_n_(round_up(n, width_)),
          zero_(scaling.a_zero + Form::offset(left)) {}

    int64_t row_size() const { return padded_k_; }
    Left padding() const { return static_cast<Left>(zero_); }

    void pack(const Tensor& b, int64_t first, int64_t ld_b, int64_t first_column) {
        first_column_ = first_column;
        panels_ = Form::panels_buffer(scratch_).get(padded_k_ * padded_n_);
        column_terms_ = scratch_.column_terms.get(padded_n_);
        std::fill(panels_, panels_ + padded_k_ * padded_n_, Right{0});
        std::vector<int32_t> sums(static_cast<size_t>(padded_n_), 0);
        std::vector<Right> row(static_cast<size_t>(n_));
        for (int64_t i = 0; i < k_; ++i) {
            read(b, first + i * ld_b, n_, 0, row.data());
            for (int64_t c = 0; c < n_; ++c) {
                const Right value = row[static_cast<size_t>(c)];
                const int64_t panel = c / width_ * padded_k_ * width_;
                panels_[panel + (i / Form::steps * width_ + c % width_) * Form::steps + i % Form::steps] =
                    value;
                auto& sum = reinterpret_cast<uint32_t&>(sums[static_cast<size_t>(c)]);
                sum += static_cast<uint32_t>(static_cast<int32_t>(value));
            }
        }
        any_b_zero_ = false;
        const auto zero = static_cast<uint32_t>(zero_);
        for (int64_t c = 0; c < n_; ++c) {
            const auto b_zero = static_cast<uint32_t>(b_zero_of(c));
            any_b_zero_ = any_b_zero_ || b_zero != 0;
            const auto sum = static_cast<uint32_t>(sums[static_cast<size_t>(c)]);
            column_terms_[c] = static_cast<uint32_t>(k_) * zero * b_zero - zero * sum;
        }
    }

    /// rows: packed left rows; c_offset(r), y_offset(r): first elements of row r of C and Y.
    template <class COffset, class YOffset>
    void run(const Left* rows, int64_t count, COffset c_offset, YOffset y_offset) {
        uint32_t* acc = scratch_.acc32.get(count * padded_n_);
        std::fill(acc, acc + count * padded_n_, 0U);
        multiply(rows, count, acc);
        for (int64_t r = 0; r < count; ++r) {
            uint32_t* line = acc + r * padded_n_;
            correct(rows + r * padded_k_, line);
            if (c_.tensor != nullptr) add_row(c_offset(r), line);
            finish(line, y_offset(r));
        }
    }

  private:
    int64_t b_zero_of(int64_t column) const {
        return scaling_.b_zero[static_cast<size_t>(first_column_ + column)];
    }

    void multiply(const Left* rows, int64_t count, uint32_t* acc) const {
        const auto tile = Form::tile(kernels_);
        for (int64_t start = 0; start < padded_k_; start += k_block) {
            const int64_t steps = (std::min(k_block, padded_k_ - start)) / Form::steps;
            for (int64_t c = 0; c < padded_n_; c += width_) {
                const Right* b = panels_ + c * padded_k_ + start * width_;
                for (int64_t r = 0; r < count; r += Form::rows(kernels_)) {
                    const auto tile_rows = static_cast<int>(std::min(Form::rows(kernels_), count - r));
                    tile(tile_rows, steps, rows + r * padded_k_ + start, padded_k_, b,
                         acc + r * padded_n_ + c, padded_n_);
                }
            }
        }
    }

    void correct(const Left* row, uint32_t* line) const {
        for (int64_t c = 0; c < n_; ++c) line[c] += column_terms_[c];
        if (!any_b_zero_) return;
        uint32_t sum = 0;
        for (int64_t i = 0; i < padded_k_; ++i) sum += static_cast<uint32_t>(static_cast<int32_t>(row[i]));
        for (int64_t c = 0; c < n_; ++c) line[c] -= static_cast<uint32_t>(b_zero_of(c)) * sum;
    }

    void add_row(int64_t offset, uint32_t* line) const {
        const auto* c = reinterpret_cast<const uint32_t*>(c_.tensor->data) + offset;
        const int64_t stride = c_.strides[c_.strides.rank - 1U];
        for (int64_t i = 0; i < n_; ++i) line[i] += c[i * stride];
    }

    void finish(const uint32_t* line, int64_t y_offset) {
        if (scaling_.raw) {
            std::memcpy(y_.data + y_offset * 4, line, static_cast<size_t>(n_) * 4);
            return;
        }
        if (zeros_.empty()) zeros_.assign(scaling_.y_zero.begin(), scaling_.y_zero.end());
        int32_t* to = scratch_.narrow.get(std::max<int64_t>(n_, 1));
        kernels_.requantize(reinterpret_cast<const int32_t*>(line),
                            scaling_.multiplier.data() + first_column_, zeros_.data() + first_column_,
                            static_cast<double>(scaling_.range.low), static_cast<double>(scaling_.range.high),
                            to, n_);
        narrow_integers(to, y_, y_offset, n_);
    }

    const Kernels& kernels_;
    Scratch& scratch_;
    const IntScaling& scaling_;
    const Addend& c_;
    const Tensor& y_;
    int64_t k_, n_, padded_k_, width_, padded_n_, zero_;
    int64_t first_column_ = 0;
    Right* panels_ = nullptr;
    uint32_t* column_terms_ = nullptr;
    bool any_b_zero_ = false;
    std::vector<double> zeros_;
};

template <class Form>
void gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p, const IntScaling& scaling) {
    using Left = typename Form::Left;
    Product<Form> product(kernels, scratch, scaling, p.c, *p.y, p.a->type, p.k, p.n);
    const int64_t offset = Form::offset(p.a->type);
    const int64_t size = product.row_size();
    for (int64_t batch = 0; batch < p.batch; ++batch) {
        if (batch == 0 || !p.b_shared) product.pack(*p.b, batch * p.k * p.n, p.n, 0);
        for (int64_t first = 0; first < p.m; first += row_block) {
            const int64_t count = std::min(row_block, p.m - first);
            Left* rows = Form::rows_buffer(scratch).get(count * size);
            for (int64_t r = 0; r < count; ++r) {
                read(*p.a, (batch * p.m + first + r) * p.k, p.k, offset, rows + r * size);
                std::fill(rows + r * size + p.k, rows + (r + 1) * size, Left{0});
            }
            product.run(
                rows, count, [&](int64_t r) { return p.c_offset(batch, first + r, 0); },
                [&](int64_t r) { return (batch * p.m + first + r) * p.n; });
        }
    }
}

/// The window of one output pixel and group as a packed row.
template <class Left>
void fill_window(const ConvProblem& p, const Left* image, int64_t group, int64_t oy, int64_t ox, Left padding,
                 Left* row) {
    const int64_t top = oy * p.stride_h - p.pad_top;
    const int64_t left = ox * p.stride_w - p.pad_left;
    for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
        const int64_t iy = top + kh * p.dilation_h;
        for (int64_t kw = 0; kw < p.kernel_w; ++kw, row += p.group_in) {
            const int64_t ix = left + kw * p.dilation_w;
            if (iy < 0 || iy >= p.height || ix < 0 || ix >= p.width) {
                std::fill(row, row + p.group_in, padding);
            } else {
                const Left* from = image + (iy * p.width + ix) * p.channels + group * p.group_in;
                std::copy(from, from + p.group_in, row);
            }
        }
    }
}

template <class Form>
void conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p, const IntScaling& scaling) {
    using Left = typename Form::Left;
    const int64_t k = p.kernel_h * p.kernel_w * p.group_in;
    const int64_t image_size = p.height * p.width * p.channels;
    const int64_t pixels = p.out_h * p.out_w;
    Product<Form> product(kernels, scratch, scaling, p.b, *p.y, p.x->type, k, p.group_out);
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
            const auto oy_of = [&](int64_t r) { return (first + r) % pixels / p.out_w; };
            const auto ox_of = [&](int64_t r) { return (first + r) % p.out_w; };
            for (int64_t r = 0; r < count; ++r) {
                fill_window(p, images + image_of(r) * image_size, group, oy_of(r), ox_of(r),
                            product.padding(), rows + r * size);
                std::fill(rows + r * size + k, rows + (r + 1) * size, Left{0});
            }
            product.run(
                rows, count,
                [&](int64_t r) {
                    return image_of(r) * p.b.strides[0] + oy_of(r) * p.b.strides[1] +
                           ox_of(r) * p.b.strides[2] + channel * p.b.strides[3];
                },
                [&](int64_t r) { return (first + r) * p.out_channels + channel; });
        }
    }
}

}  // namespace

bool int_gemm(const Kernels& kernels, Scratch& scratch, const GemmProblem& p) {
    const size_t depth_axis = p.b->shape.rank - 2U;
    const IntScaling scaling = int_scaling(*p.a, *p.b, *p.y, p.c, depth_axis, depth_axis + 1);
    if (scaling.group_size != 0) return false;
    if (kernels.u8i8_tile != nullptr && is_byte(p.a->type) && is_signed_byte(p.b->type)) {
        gemm<Bytes>(kernels, scratch, p, scaling);
    } else {
        gemm<Words>(kernels, scratch, p, scaling);
    }
    return true;
}

bool int_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    const IntScaling scaling = int_scaling(*p.x, *p.w, *p.y, p.b, 2, 3);
    if (scaling.group_size != 0) return false;
    if (kernels.u8i8_tile != nullptr && is_byte(p.x->type) && is_signed_byte(p.w->type)) {
        conv<Bytes>(kernels, scratch, p, scaling);
    } else {
        conv<Words>(kernels, scratch, p, scaling);
    }
    return true;
}

}  // namespace kpu::values::fast
