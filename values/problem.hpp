#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "values/compute.hpp"
#include "values/scalar.hpp"

namespace kpu::values {

/// An execution of an opcode. Types, quantisation and shapes are checked (backend_base.cpp).
struct Call {
    const OpcodeSpec& spec;
    const std::vector<Tensor>& inputs;
    const std::vector<Tensor>& outputs;
    const BoundAttrs& attrs;
    const Tensor& x() const { return inputs[0]; }
    const Tensor& y() const { return outputs[0]; }
};

inline bool has_quant(const Tensor& tensor) {
    return tensor.quant != nullptr && static_cast<bool>(*tensor.quant);
}
/// Throws UserError when an operand that must be quantised is not; side: input or output.
void require_quant(const Call& call, const Tensor& tensor, std::string_view side);
std::string describe(const Tensor& tensor);  ///< "f16[2,3]"

/// Integers that stand for themselves.
inline bool plain_integers(const Tensor& tensor) { return is_integer(tensor.type) && !has_quant(tensor); }
/// The attributes of a call that are numbers, in the order of the opcode's row, defaults where they are left
/// out; 0 for others.
std::vector<double> numbers_of(const Call& call);

// Operands and attributes of a call resolved to plain sizes.

/// An operand that is broadcast over the elements of Y: NumPy rules, stride 0 where it repeats.
struct Addend {
    const Tensor* tensor = nullptr;  ///< null: absent
    Dims strides;                    ///< elements, one per dimension of Y
    bool first = false;  ///< accumulation starts from it (gemm.acc, conv2d.acc); else it is added last
};

/// Returns the addend of a product, if there is one.
Addend addend_of(const Call& call);
/// f32 sums before their first product: 0, or the addend.
void start_sums(const Addend& c, const Tensor& y);

/// Y[b] = A[b] x B[b] (+ C), b over all leading dimensions.
struct GemmProblem {
    const Tensor* a = nullptr;
    const Tensor* b = nullptr;
    const Tensor* y = nullptr;
    Addend c;
    int64_t batch = 1, m = 0, n = 0, k = 0;
    int64_t c_offset(int64_t batch_index, int64_t row, int64_t column) const;
};
GemmProblem gemm_problem(const Call& call);

/// Y = conv(X NDHWC, W DHWIO) (+ B). Padded positions add nothing. conv2d has depth 1, conv1d also height 1.
struct ConvProblem {
    const Tensor* x = nullptr;
    const Tensor* w = nullptr;
    const Tensor* y = nullptr;
    Addend b;  ///< strides: batch, depth, height, width, channel
    int64_t batch = 0, depth = 1, height = 1, width = 0, channels = 0;
    int64_t kernel_d = 1, kernel_h = 1, kernel_w = 0;
    int64_t groups = 1, group_in = 0, group_out = 0;            ///< channels of one group
    int64_t out_d = 1, out_h = 1, out_w = 0, out_channels = 0;  ///< as declared, at most the derived ones
    int64_t pad_front = 0, pad_top = 0, pad_left = 0;
    int64_t stride_d = 1, stride_h = 1, stride_w = 1, dilation_d = 1, dilation_h = 1, dilation_w = 1;
    bool transposed = false;  ///< strides and pads are those of Y
    bool flat() const { return depth == 1 && kernel_d == 1 && out_d == 1 && pad_front == 0; }
    int64_t c_offset(int64_t image, int64_t z, int64_t row, int64_t column, int64_t channel) const {
        return image * b.strides[0] + z * b.strides[1] + row * b.strides[2] + column * b.strides[3] +
               channel * b.strides[4];
    }
};
ConvProblem conv_problem(const Call& call);

/// The taps i, 0 <= i < count, of a window whose position start + i * dilation lies within [0, size).
struct TapRange {
    int64_t first, last;  ///< half open, first <= last
};
TapRange valid_taps(int64_t start, int64_t dilation, int64_t count, int64_t size);

/// Spatial numbers are depth, height, width; NHWC has depth 1, NWC also height 1.
struct PoolProblem {
    using Spatial = std::array<int64_t, 3>;
    const Tensor* x = nullptr;
    const Tensor* y = nullptr;
    int64_t batch = 0, channels = 0;
    Spatial size{}, out{}, kernel{}, before{}, behind{}, stride{}, dilation{};
    bool count_padding = false;  ///< for a mean: padding counts, what ceil_mode adds after it does not

    /// Returns where the window of output position `at` begins along a dimension; negative in the padding.
    int64_t start(size_t d, int64_t at) const { return at * stride[d] - before[d]; }
    /// Returns the taps of that window inside X.
    TapRange taps(size_t d, int64_t at) const {
        return valid_taps(start(d, at), dilation[d], kernel[d], size[d]);
    }
    /// Returns how many of its taps count in a mean.
    int64_t counted(size_t d, int64_t at) const;
};
PoolProblem pool_problem(const Call& call);

/// Sources of each index along each dimension of Y.
struct ResizeProblem {
    /// Element `first` of X with weight 1 - `weight`, the next one with `weight`.
    struct Neighbours {
        int64_t first = 0;
        double weight = 0;
    };
    std::vector<std::vector<Neighbours>> along;
};
ResizeProblem resize_problem(const Call& call);

/// X [batch][pixels][channels], normalised over the pixels and channels of a group.
struct GroupNormProblem {
    int64_t batch = 1, pixels = 1, channels = 1, groups = 1;
    double epsilon = 0;
    const Tensor* scale = nullptr;  ///< null: absent
    const Tensor* bias = nullptr;   ///< null: absent
};
GroupNormProblem group_norm_problem(const Call& call);

/// x[outer][count][inner], normalised along the middle: rmsnorm, layernorm, softmax, log_softmax.
struct NormProblem {
    int64_t outer = 1, count = 1, inner = 1;
    double epsilon = 0;
    const Tensor* scale = nullptr;  ///< null: absent
    const Tensor* bias = nullptr;   ///< null: absent
};
NormProblem norm_problem(const Call& call);

/// A reduction: each output is a function of the elements at its base + every combination of the reduced
/// dimensions.
struct ReduceProblem {
    struct Span {
        int64_t count, stride;
    };
    std::vector<Span> kept, reduced;  ///< outermost first, adjacent dimensions joined
    int64_t outputs = 1, count = 1;   ///< products of both
};
ReduceProblem reduce_problem(const Call& call);

/// Scale and zero point of each element of a tensor; 1 and 0 without quantisation. Throws UserError on scales
/// that are not positive and finite, array lengths or an axis that do not fit the shape.
class QuantMap {
  public:
    explicit QuantMap(const Tensor& tensor);
    bool uniform() const { return period_ == 1; }
    size_t entry(int64_t element) const {
        return uniform() ? 0 : static_cast<size_t>(element / inner_ % period_ / group_);
    }
    /// Returns the elements side by side that share an entry, before as many take the next one; after
    /// period() entries they come again.
    int64_t inner() const { return inner_; }
    int64_t period() const { return period_; }
    double scale(size_t entry) const { return (*scales_)[entry]; }
    int64_t zero_point(size_t entry) const { return (*zero_points_)[entry]; }

  private:
    const std::vector<double>* scales_;
    const std::vector<int64_t>* zero_points_;
    int64_t inner_ = 1, period_ = 1, group_ = 1;
};

/// Arithmetic of an integer gemm or conv around its 32-bit accumulators. Column n is the output channel;
/// operands without quantisation have scale 1 and zero point 0; multiplier = a_scale * b_scale / y_scale,
/// computed once in binary64.
///   acc = sum over k of (a - a_zero) * (b - b_zero[n]) + C               modulo 2^32
///   y   = saturate(round_half_even(acc * multiplier[n]) + y_zero[n])     in binary64; raw: acc itself
/// Weights quantised per group along K have one accumulator per group of `group_size` k's, without C:
///   sum = sum over g ascending of acc_g * multiplier[g] + C * c_multiplier
///   y   = saturate(round_half_even(sum) + y_zero[n])
struct IntScaling {
    bool raw = false;  ///< the output is i32: accumulators as they are
    int64_t a_zero = 0;
    std::vector<int64_t> b_zero;     ///< per n, or per group
    std::vector<double> multiplier;  ///< per n, or per group
    std::vector<int64_t> y_zero;     ///< per n
    int64_t group_size = 0;          ///< 0: not grouped along K
    double c_multiplier = 0;         ///< grouped only
    IntegerRange range{0, 0};        ///< limits of the output type
};
/// b_columns: the axis of B that is the output channel, b_depth: the one that is summed over.
IntScaling int_scaling(const Tensor& a, const Tensor& b, const Tensor& y, const Addend& c, size_t b_depth,
                       size_t b_columns);

/// Arithmetic of gemm.group and conv2d.group on the i32 sums of a group, for each group in ascending order:
///   acc = sum over k of (a - a_zero) * b, left = sum over k of (a - a_zero)                 modulo 2^32
///   y   = f32(y + (acc - left * zero_point[g,n]) * scale[g,n])                               in binary64
/// y starts from C, or from +0. So sums that are cut between groups have the bits of whole ones.
struct GroupScaling {
    int64_t group_size = 1;
    int64_t a_zero = 0;
    std::vector<double> scale;       ///< that of A times that of the group, by group and output channel
    std::vector<double> zero_point;  ///< the same order; empty: none
};
/// Throws UserError on a quantisation of A that is not per tensor.
GroupScaling group_scaling(const Call& call);

}  // namespace kpu::values
