#pragma once

// Blocks of integer products, which integer gemm and conv2d, with and without scales of groups, have in common. With
// p = a + offset as packed (offset 128 makes signed bytes unsigned for the dot-product instruction) and
// z = a_zero + offset:
//   sum (a - a_zero)(b - b_zero) = sum p*b - z * sum b - b_zero * sum p + k * z * b_zero      modulo 2^32
// Padded positions of a convolution hold z, so they add nothing.
#include <algorithm>
#include <cstring>
#include <vector>

#include "values/fast/fast.hpp"

namespace kpu::values::fast {

constexpr int64_t row_block = 96;
constexpr int64_t k_block = 1024;

inline bool is_signed_byte(ElemType type) { return type == ElemType::i4 || type == ElemType::i8; }
inline bool is_byte(ElemType type) { return is_signed_byte(type) || type == ElemType::u8; }

/// Packing of operands: Left, Right element types, k's per step.
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

/// Returns the sum of a packed left row, modulo 2^32.
template <class Left>
uint32_t row_sum(const Left* row, int64_t count) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += static_cast<uint32_t>(static_cast<int32_t>(row[i]));
    return sum;
}

/// Columns of `steps` rows side by side: to[column][row].
template <class T>
void interleave(const T* rows, int64_t ld, int64_t columns, T* to) {
    for (int64_t c = 0; c < columns; ++c) {
        if constexpr (sizeof(T) == 1) {
            to[4 * c] = rows[c];
            to[4 * c + 1] = rows[ld + c];
            to[4 * c + 2] = rows[2 * ld + c];
            to[4 * c + 3] = rows[3 * ld + c];
        } else {
            to[2 * c] = rows[c];
            to[2 * c + 1] = rows[ld + c];
        }
    }
}

/// A product A[m][k] x B[k][n]: columns first_column.. of a wider B and Y. Output: zero points, and what
/// becomes of sums.
template <class Form, class Output>
class Product {
  public:
    using Left = typename Form::Left;
    using Right = typename Form::Right;

    Product(const Kernels& kernels, Scratch& scratch, const Output& output, ElemType left, int64_t k,
            int64_t n)
        : kernels_(kernels),
          scratch_(scratch),
          output_(output),
          k_(k),
          n_(n),
          padded_k_(round_up(k, Form::steps)),
          width_(Form::columns(kernels)),
          padded_n_(round_up(n, width_)),
          zero_(output.a_zero() + Form::offset(left)) {}

    int64_t row_size() const { return padded_k_; }
    Left padding() const { return static_cast<Left>(zero_); }

    /// B starts at element `first`, its rows are ld_b apart; its columns are Y's from first_column on.
    void pack(const Tensor& b, int64_t first, int64_t ld_b, int64_t first_column) {
        first_column_ = first_column;
        panels_ = Form::panels_buffer(scratch_).get(padded_k_ * padded_n_);
        column_terms_ = scratch_.column_terms.get(padded_n_);
        std::fill(column_terms_, column_terms_ + padded_n_, 0U);
        std::vector<Right> rows(static_cast<size_t>(Form::steps * padded_n_), Right{0});
        for (int64_t i = 0; i < padded_k_; i += Form::steps) {
            for (int64_t step = 0; step < Form::steps; ++step) {
                Right* row = rows.data() + step * padded_n_;
                if (i + step >= k_) {
                    std::fill(row, row + n_, Right{0});
                    continue;
                }
                read(b, first + (i + step) * ld_b, n_, 0, row);
                for (int64_t c = 0; c < n_; ++c) column_terms_[c] += static_cast<uint32_t>(row[c]);
            }
            for (int64_t c = 0; c < padded_n_; c += width_) {
                interleave(rows.data() + c, padded_n_, width_, panels_ + c * padded_k_ + i * width_);
            }
        }
        any_b_zero_ = false;
        const auto zero = static_cast<uint32_t>(zero_);
        for (int64_t c = 0; c < n_; ++c) {
            const auto b_zero = static_cast<uint32_t>(output_.b_zero(first_column + c));
            any_b_zero_ = any_b_zero_ || b_zero != 0;
            column_terms_[c] = static_cast<uint32_t>(k_) * zero * b_zero - zero * column_terms_[c];
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
            output_.finish(line, first_column_, n_, c_offset(r), y_offset(r));
        }
    }

  private:
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
        const uint32_t sum = row_sum(row, padded_k_);
        for (int64_t c = 0; c < n_; ++c)
            line[c] -= static_cast<uint32_t>(output_.b_zero(first_column_ + c)) * sum;
    }

    const Kernels& kernels_;
    Scratch& scratch_;
    const Output& output_;
    int64_t k_, n_, padded_k_, width_, padded_n_, zero_;
    int64_t first_column_ = 0;
    Right* panels_ = nullptr;
    uint32_t* column_terms_ = nullptr;
    bool any_b_zero_ = false;
};

/// `size` channels from `first` on of the window of one output pixel, as a packed row.
template <class Left>
void fill_window(const ConvProblem& p, const Left* image, int64_t first, int64_t size, int64_t oy, int64_t ox,
                 Left padding, Left* row) {
    const int64_t top = oy * p.stride_h - p.pad_top;
    const int64_t left = ox * p.stride_w - p.pad_left;
    for (int64_t kh = 0; kh < p.kernel_h; ++kh) {
        const int64_t iy = top + kh * p.dilation_h;
        for (int64_t kw = 0; kw < p.kernel_w; ++kw, row += size) {
            const int64_t ix = left + kw * p.dilation_w;
            if (iy < 0 || iy >= p.height || ix < 0 || ix >= p.width) {
                std::fill(row, row + size, padding);
            } else {
                const Left* from = image + (iy * p.width + ix) * p.channels + first;
                std::copy(from, from + size, row);
            }
        }
    }
}

}  // namespace kpu::values::fast
