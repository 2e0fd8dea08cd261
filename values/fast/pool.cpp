// Pooling: channels side by side.
#include <algorithm>
#include <cmath>

#include "values/fast/real.hpp"

namespace kpu::values::fast {
namespace {

/// visit(image, oz, oy) for every line of the output.
template <class Visit>
void for_each_line(const PoolProblem& p, Visit visit) {
    for (int64_t image = 0; image < p.batch; ++image) {
        for (int64_t oz = 0; oz < p.out[0]; ++oz) {
            for (int64_t oy = 0; oy < p.out[1]; ++oy) visit(image, oz, oy);
        }
    }
}

/// visit(first element) for every line of X that the windows of an output line meet, in ascending order.
template <class Visit>
void for_each_met_line(const PoolProblem& p, int64_t image, int64_t oz, int64_t oy, Visit visit) {
    const TapRange depth = p.taps(0, oz), rows = p.taps(1, oy);
    for (int64_t z = depth.first; z < depth.last; ++z) {
        const int64_t iz = p.start(0, oz) + z * p.dilation[0];
        for (int64_t r = rows.first; r < rows.last; ++r) {
            const int64_t iy = p.start(1, oy) + r * p.dilation[1];
            visit(((image * p.size[0] + iz) * p.size[1] + iy) * p.size[2] * p.channels);
        }
    }
}

}  // namespace

bool maxpool(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const PoolProblem p = pool_problem(call);
    const Real in(kernels, *p.x);
    const Real out(kernels, *p.y);
    if (!in.usable() || !out.usable()) return false;
    const int64_t line = p.size[2] * p.channels;
    double* best = scratch.other.get(std::max<int64_t>(p.channels, 1));
    double* rows = scratch.real.get(std::max<int64_t>(line, 1));
    double* tops = scratch.factor.get(std::max<int64_t>(line, 1));
    int64_t index = 0;
    for_each_line(p, [&](int64_t image, int64_t oz, int64_t oy) {
        // the maximum is associative: first over the window's lines for the whole line, then across
        std::fill(tops, tops + line, -HUGE_VAL);
        for_each_met_line(p, image, oz, oy, [&](int64_t first) {
            in.read(first, line, rows);
            kernels.maximum(tops, rows, line);
        });
        for (int64_t ox = 0; ox < p.out[2]; ++ox, index += p.channels) {
            const TapRange columns = p.taps(2, ox);
            std::fill(best, best + p.channels, -HUGE_VAL);
            for (int64_t c = columns.first; c < columns.last; ++c) {
                const int64_t ix = p.start(2, ox) + c * p.dilation[2];
                kernels.maximum(best, tops + ix * p.channels, p.channels);
            }
            out.write(best, index, p.channels);
        }
    });
    return true;
}

bool avgpool(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const PoolProblem p = pool_problem(call);
    const Real in(kernels, *p.x);
    const Real out(kernels, *p.y);
    if (!in.usable() || !out.usable()) return false;
    const int64_t line = p.size[2] * p.channels;
    const int64_t most = std::min(p.kernel[0], p.size[0]) * std::min(p.kernel[1], p.size[1]);
    double* sum = scratch.other.get(std::max<int64_t>(p.channels, 1));
    double* rows = scratch.real.get(std::max<int64_t>(most * line, 1));
    int64_t index = 0;
    for_each_line(p, [&](int64_t image, int64_t oz, int64_t oy) {
        int64_t lines = 0;
        for_each_met_line(p, image, oz, oy,
                          [&](int64_t first) { in.read(first, line, rows + lines++ * line); });
        const int64_t height = p.counted(0, oz) * p.counted(1, oy);
        for (int64_t ox = 0; ox < p.out[2]; ++ox, index += p.channels) {
            const TapRange columns = p.taps(2, ox);
            std::fill(sum, sum + p.channels, 0.0);
            for (int64_t r = 0; r < lines; ++r) {
                for (int64_t c = columns.first; c < columns.last; ++c) {
                    const int64_t ix = p.start(2, ox) + c * p.dilation[2];
                    kernels.add(sum, rows + r * line + ix * p.channels, p.channels);
                }
            }
            kernels.divide(sum, static_cast<double>(height * p.counted(2, ox)), p.channels);
            out.write(sum, index, p.channels);
        }
    });
    return true;
}

}  // namespace kpu::values::fast
