// Pooling: channels side by side.
#include <algorithm>
#include <cmath>

#include "values/fast/real.hpp"

namespace kpu::values::fast {

bool maxpool(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const PoolProblem p = pool_problem(call);
    const Real in(kernels, *p.x);
    const Real out(kernels, *p.y);
    if (!in.usable() || !out.usable()) return false;
    const int64_t line = p.width * p.channels;
    double* best = scratch.other.get(std::max<int64_t>(p.channels, 1));
    double* rows = scratch.real.get(std::max<int64_t>(line, 1));
    double* tops = scratch.factor.get(std::max<int64_t>(line, 1));
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            // the maximum is associative: first down the window's rows for the whole line, then across
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange taps = valid_taps(top, 1, p.kernel_h, p.height);
            std::fill(tops, tops + line, -HUGE_VAL);
            for (int64_t iy = top + taps.first; iy < top + taps.last; ++iy) {
                in.read((image * p.height + iy) * line, line, rows);
                kernels.maximum(tops, rows, line);
            }
            for (int64_t ox = 0; ox < p.out_w; ++ox, index += p.channels) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, 1, p.kernel_w, p.width);
                std::fill(best, best + p.channels, -HUGE_VAL);
                for (int64_t ix = left + columns.first; ix < left + columns.last; ++ix) {
                    kernels.maximum(best, tops + ix * p.channels, p.channels);
                }
                out.write(best, index, p.channels);
            }
        }
    }
    return true;
}

bool avgpool(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const PoolProblem p = pool_problem(call);
    const Real in(kernels, *p.x);
    const Real out(kernels, *p.y);
    if (!in.usable() || !out.usable()) return false;
    const int64_t line = p.width * p.channels;
    double* sum = scratch.other.get(std::max<int64_t>(p.channels, 1));
    double* rows = scratch.real.get(std::max<int64_t>(p.kernel_h * line, 1));
    int64_t index = 0;
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oy = 0; oy < p.out_h; ++oy) {
            const int64_t top = oy * p.stride_h - p.pad_top;
            const TapRange taps = valid_taps(top, 1, p.kernel_h, p.height);
            const int64_t height = taps.last - taps.first;
            in.read((image * p.height + top + taps.first) * line, height * line, rows);
            for (int64_t ox = 0; ox < p.out_w; ++ox, index += p.channels) {
                const int64_t left = ox * p.stride_w - p.pad_left;
                const TapRange columns = valid_taps(left, 1, p.kernel_w, p.width);
                std::fill(sum, sum + p.channels, 0.0);
                for (int64_t r = 0; r < height; ++r) {
                    for (int64_t ix = left + columns.first; ix < left + columns.last; ++ix)
                        kernels.add(sum, rows + r * line + ix * p.channels, p.channels);
                }
                const int64_t count = height * (columns.last - columns.first);
                kernels.divide(sum, static_cast<double>(count), p.channels);
                out.write(sum, index, p.channels);
            }
        }
    }
    return true;
}

}  // namespace kpu::values::fast
