// Transposed convolutions: outputs that lie `stride` apart meet the same taps of the window, so those of each
// such phase are an ordinary convolution with a part of the weights.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "values/fast/fast.hpp"

namespace kpu::values::fast {
namespace {

int64_t element_bytes(const Tensor& tensor) { return std::max(1, bit_width(tensor.type) / 8); }

/// Outputs phase, phase + stride, ... along one dimension: they meet taps `first`, first - step, ... of the
/// window, in ascending order of the elements of X.
struct Phase {
    int64_t outputs = 0, taps = 0, first = 0, step = 1;
    int64_t pad = 0, dilation = 1;  ///< padding and dilation as an ordinary convolution
};

Phase phase_of(int64_t phase, int64_t outputs, int64_t stride, int64_t pad, int64_t kernel,
               int64_t dilation) {
    Phase result;
    if (phase >= outputs) return result;
    result.outputs = (outputs - phase + stride - 1) / stride;
    const int64_t common = std::gcd(stride, dilation);
    result.step = stride / common;
    result.dilation = dilation / common;
    for (int64_t tap = 0; tap < kernel; ++tap) {
        if ((phase + pad - tap * dilation) % stride != 0) continue;
        result.first = tap;  // of the last of them, the lowest element of X
        result.pad = -((phase + pad - tap * dilation) / stride);
        ++result.taps;
    }
    return result;
}

class Phases {
  public:
    Phases(const Kernels& kernels, Scratch& scratch, const ConvProblem& p)
        : kernels_(kernels), scratch_(scratch), p_(p) {
        for (int64_t i = 0; i < p.stride_h; ++i)
            rows_.push_back(phase_of(i, p.out_h, p.stride_h, p.pad_top, p.kernel_h, p.dilation_h));
        for (int64_t i = 0; i < p.stride_w; ++i)
            columns_.push_back(phase_of(i, p.out_w, p.stride_w, p.pad_left, p.kernel_w, p.dilation_w));
    }

    /// True if every output meets some tap.
    bool complete() const {
        const auto met = [](const Phase& phase) { return phase.taps > 0 || phase.outputs == 0; };
        return std::all_of(rows_.begin(), rows_.end(), met) &&
               std::all_of(columns_.begin(), columns_.end(), met);
    }

    bool run() {
        for (size_t row = 0; row < rows_.size(); ++row) {
            for (size_t column = 0; column < columns_.size(); ++column) {
                if (rows_[row].outputs == 0 || columns_[column].outputs == 0) continue;
                if (!run_phase(static_cast<int64_t>(row), static_cast<int64_t>(column))) return false;
            }
        }
        return true;
    }

  private:
    bool run_phase(int64_t row, int64_t column) {
        const Phase &down = rows_[static_cast<size_t>(row)], &across = columns_[static_cast<size_t>(column)];
        Tensor weights = *p_.w, part = *p_.y;
        weights.shape[0] = down.taps;
        weights.shape[1] = across.taps;
        weights.data = scratch_.phase_weights.get(weights.shape.product() * element_bytes(weights));
        part.shape[1] = down.outputs;
        part.shape[2] = across.outputs;
        part.data = scratch_.phase_results.get(part.shape.product() * element_bytes(part));
        take_weights(down, across, weights.data);
        ConvProblem q = p_;
        q.w = &weights;
        q.y = &part;
        q.transposed = false;
        q.stride_h = q.stride_w = 1;
        std::tie(q.kernel_h, q.out_h, q.pad_top, q.dilation_h) =
            std::tie(down.taps, down.outputs, down.pad, down.dilation);
        std::tie(q.kernel_w, q.out_w, q.pad_left, q.dilation_w) =
            std::tie(across.taps, across.outputs, across.pad, across.dilation);
        const bool done =
            is_integer(p_.x->type) ? int_conv(kernels_, scratch_, q) : float_conv(kernels_, scratch_, q);
        if (done) spread(part, row, column);
        return done;
    }

    void take_weights(const Phase& down, const Phase& across, uint8_t* to) const {
        const int64_t tap = p_.group_in * p_.out_channels * element_bytes(*p_.w);
        for (int64_t r = 0; r < down.taps; ++r) {
            for (int64_t c = 0; c < across.taps; ++c, to += tap) {
                const int64_t at =
                    (down.first - r * down.step) * p_.kernel_w + across.first - c * across.step;
                std::memcpy(to, p_.w->data + at * tap, static_cast<size_t>(tap));
            }
        }
    }

    void spread(const Tensor& part, int64_t row, int64_t column) const {
        const int64_t pixel = p_.out_channels * element_bytes(part);
        const uint8_t* from = part.data;
        for (int64_t image = 0; image < p_.batch; ++image) {
            for (int64_t oy = row; oy < p_.out_h; oy += p_.stride_h) {
                for (int64_t ox = column; ox < p_.out_w; ox += p_.stride_w, from += pixel) {
                    const int64_t at = (image * p_.out_h + oy) * p_.out_w + ox;
                    std::memcpy(p_.y->data + at * pixel, from, static_cast<size_t>(pixel));
                }
            }
        }
    }

    const Kernels& kernels_;
    Scratch& scratch_;
    const ConvProblem& p_;
    std::vector<Phase> rows_, columns_;
};

}  // namespace

bool transposed_conv(const Kernels& kernels, Scratch& scratch, const ConvProblem& p) {
    Phases phases(kernels, scratch, p);
    return phases.complete() && phases.run();
}

}  // namespace kpu::values::fast
