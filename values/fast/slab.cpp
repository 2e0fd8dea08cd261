// Normalisations, softmax and reductions: many rows side by side, each in its own ascending order.
#include <algorithm>
#include <cmath>
#include <vector>

#include "values/fast/real.hpp"

namespace kpu::values::fast {
namespace {

constexpr int64_t most_lanes = 64;    ///< rows side by side
constexpr int64_t rows_at_once = 16;  ///< limit for rows that are contiguous and must be transposed

/// x[outer][count][inner] visited as blocks [count][width] of binary64: element i of every row of the block,
/// then element i + 1. `width` rows are neighbours along inner, or whole rows where inner is 1.
struct Shape {
    int64_t outer, count, inner;
};

/// visit(block, width, first row): `first row` counts outer * inner + position along inner. With `y` the
/// block is written back to it.
template <class Visit>
void for_each_block(Scratch& scratch, const Shape& s, const Real& x, const Real* y, Visit visit) {
    if (s.count == 0 || s.outer == 0 || s.inner == 0) return;
    if (s.inner > 1) {
        double* block = scratch.real.get(s.count * std::min(s.inner, most_lanes));
        for (int64_t o = 0; o < s.outer; ++o) {
            for (int64_t at = 0; at < s.inner; at += most_lanes) {
                const int64_t width = std::min(most_lanes, s.inner - at);
                const auto first = [&](int64_t i) { return (o * s.count + i) * s.inner + at; };
                for (int64_t i = 0; i < s.count; ++i) x.read(first(i), width, block + i * width);
                visit(block, width, o * s.inner + at);
                for (int64_t i = 0; y != nullptr && i < s.count; ++i)
                    y->write(block + i * width, first(i), width);
            }
        }
        return;
    }
    double* rows = scratch.other.get(rows_at_once * s.count);
    double* block = scratch.real.get(rows_at_once * s.count);
    for (int64_t first = 0; first < s.outer; first += rows_at_once) {
        const int64_t width = std::min(rows_at_once, s.outer - first);
        x.read(first * s.count, width * s.count, rows);
        for (int64_t i = 0; i < s.count; ++i) {
            for (int64_t r = 0; r < width; ++r) block[i * width + r] = rows[r * s.count + i];
        }
        visit(block, width, first);
        if (y == nullptr) continue;
        for (int64_t i = 0; i < s.count; ++i) {
            for (int64_t r = 0; r < width; ++r) rows[r * s.count + i] = block[i * width + r];
        }
        y->write(rows, first * s.count, width * s.count);
    }
}

/// `to` = sum over i of block[i], ascending.
void sum_rows(const Kernels& k, const double* block, int64_t count, int64_t width, double* to) {
    std::fill(to, to + width, 0.0);
    for (int64_t i = 0; i < count; ++i) k.add(to, block + i * width, width);
}

struct Vectors {
    const double* scale = nullptr;  ///< null: absent
    const double* bias = nullptr;
};

void rms_or_layer(const Kernels& k, Scratch& scratch, const NormProblem& p, bool centred,
                  const Vectors& vectors, double* block, int64_t width) {
    const auto n = static_cast<double>(p.count);
    double root[most_lanes];
    if (centred) {
        double mean[most_lanes];
        sum_rows(k, block, p.count, width, mean);
        k.divide(mean, n, width);
        for (int64_t i = 0; i < p.count; ++i) k.subtract(block + i * width, mean, width);
    }
    double* squares = scratch.squares.get(p.count * width);
    std::copy(block, block + p.count * width, squares);
    k.multiply_each(squares, block, p.count * width);
    sum_rows(k, squares, p.count, width, root);
    for (int64_t r = 0; r < width; ++r) root[r] = root[r] / n + p.epsilon;
    k.square_root(root, width);
    for (int64_t i = 0; i < p.count; ++i) {
        double* line = block + i * width;
        k.divide_each(line, root, width);
        if (vectors.scale != nullptr) k.multiply(line, vectors.scale[i], width);
        for (int64_t r = 0; vectors.bias != nullptr && r < width; ++r) line[r] += vectors.bias[i];
    }
}

void soft_rows(const Kernels& k, Scratch& scratch, const NormProblem& p, bool logarithm, double* block,
               int64_t width) {
    double top[most_lanes], sum[most_lanes];
    std::fill(top, top + width, -HUGE_VAL);
    for (int64_t i = 0; i < p.count; ++i) k.maximum(top, block + i * width, width);
    for (int64_t i = 0; i < p.count; ++i) k.subtract(block + i * width, top, width);
    double* powers = block;
    if (logarithm) {
        powers = scratch.squares.get(p.count * width);
        std::copy(block, block + p.count * width, powers);
    }
    k.exp(powers, p.count * width);
    sum_rows(k, powers, p.count, width, sum);
    if (logarithm) k.log(sum, width);
    for (int64_t i = 0; i < p.count; ++i)
        (logarithm ? k.subtract : k.divide_each)(block + i * width, sum, width);
}

/// Index of the element of each row that no other is better than; a NaN beats all.
void search_rows(const Search& row, bool last, const ReduceProblem& p, const double* block, int64_t width,
                 double* best) {
    for (int64_t r = 0; r < width; ++r) {
        int64_t found = 0;
        for (int64_t i = 1; i < p.count; ++i) {
            if (row.replaces(block[i * width + r], block[found * width + r], last)) found = i;
        }
        best[r] = static_cast<double>(found);
    }
}

void reduce_rows(const Kernels& k, const Reduction& row, const ReduceProblem& p, const double* block,
                 int64_t width, double* result) {
    std::fill(result, result + width, row.start);
    for (int64_t i = 0; i < p.count; ++i) {
        const double* line = block + i * width;
        if (row.vector != nullptr) {
            (k.*row.vector)(result, line, width);
        } else {
            for (int64_t r = 0; r < width; ++r) result[r] = row.step(result[r], line[r]);
        }
    }
    for (int64_t r = 0; row.finish != nullptr && r < width; ++r)
        result[r] = row.finish(result[r], static_cast<double>(p.count));
}

/// visit(block, width, first result) along reduced dimensions that are neighbours; false: they are not, so
/// that their ascending order is no block.
template <class Visit>
bool for_each_reduced_block(Scratch& scratch, const ReduceProblem& p, const Real& in, Visit visit) {
    if (p.reduced.size() != 1 || !in.usable() || p.count == 0) return false;
    const int64_t inner = p.reduced[0].stride;
    const Shape shape{p.outputs / std::max<int64_t>(inner, 1), p.count, inner};
    for_each_block(scratch, shape, in, nullptr, visit);
    return true;
}

}  // namespace

bool norm(const Kernels& kernels, Scratch& scratch, const Call& call, bool centred) {
    const NormProblem p = norm_problem(call);
    const Real in(kernels, call.x()), out(kernels, call.y());
    const auto vector = [&](const Tensor* tensor, Buffer<double>& buffer) -> const double* {
        if (tensor == nullptr) return nullptr;
        double* values = buffer.get(std::max<int64_t>(p.count, 1));
        to_real(kernels, *tensor, 0, p.count, values);
        return values;
    };
    const Vectors vectors{vector(p.scale, scratch.factor), vector(p.bias, scratch.offset)};
    for_each_block(scratch, {p.outer, p.count, p.inner}, in, &out,
                   [&](double* block, int64_t width, int64_t) {
                       rms_or_layer(kernels, scratch, p, centred, vectors, block, width);
                   });
    return true;
}

bool group_norm(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const GroupNormProblem p = group_norm_problem(call);
    const Real in(kernels, call.x()), out(kernels, call.y());
    const int64_t image = p.pixels * p.channels, width = p.channels / p.groups;
    const auto count = static_cast<double>(p.pixels * width);
    double* values = scratch.real.get(std::max<int64_t>(image, 1));
    double* scale = scratch.factor.get(p.channels);
    double* bias = scratch.offset.get(p.channels);
    if (p.scale != nullptr) to_real(kernels, *p.scale, 0, p.channels, scale);
    if (p.bias != nullptr) to_real(kernels, *p.bias, 0, p.channels, bias);
    std::vector<double> mean(static_cast<size_t>(p.groups)), root(mean.size());
    const auto each = [&](auto visit) {  // all groups side by side, each in its own order
        double* at = values;
        for (int64_t pixel = 0; pixel < p.pixels; ++pixel) {
            for (int64_t c = 0; c < p.channels; ++c, ++at) visit(*at, c, static_cast<size_t>(c / width));
        }
    };
    for (int64_t i = 0; i < p.batch; ++i) {
        in.read(i * image, image, values);
        std::fill(mean.begin(), mean.end(), 0.0);
        std::fill(root.begin(), root.end(), 0.0);
        each([&](double v, int64_t, size_t group) { mean[group] += v; });
        for (double& value : mean) value /= count;
        each([&](double& v, int64_t, size_t group) {
            v -= mean[group];
            root[group] += v * v;
        });
        for (double& value : root) value = std::sqrt(value / count + p.epsilon);
        each([&](double& v, int64_t c, size_t group) {
            v /= root[group];
            if (p.scale != nullptr) v *= scale[c];
            if (p.bias != nullptr) v += bias[c];
        });
        out.write(values, i * image, image);
    }
    return true;
}

bool softmax(const Kernels& kernels, Scratch& scratch, const Call& call, bool logarithm) {
    const NormProblem p = norm_problem(call);
    const Real in(kernels, call.x()), out(kernels, call.y());
    for_each_block(scratch, {p.outer, p.count, p.inner}, in, &out,
                   [&](double* block, int64_t width, int64_t) {
                       soft_rows(kernels, scratch, p, logarithm, block, width);
                   });
    return true;
}

bool reduce(const Kernels& kernels, Scratch& scratch, const Reduction& row, const Call& call) {
    const ReduceProblem p = reduce_problem(call);
    const Real in(kernels, call.x()), out(kernels, call.y());
    if (!out.usable()) return false;
    return for_each_reduced_block(scratch, p, in, [&](const double* block, int64_t width, int64_t first) {
        double result[most_lanes];
        reduce_rows(kernels, row, p, block, width, result);
        out.write(result, first, width);
    });
}

bool search(const Kernels& kernels, Scratch& scratch, const Search& row, const Call& call) {
    const ReduceProblem p = reduce_problem(call);
    const Real in(kernels, call.x());
    const bool last = call.attrs.integer("select_last_index", 0) != 0;
    return for_each_reduced_block(scratch, p, in, [&](const double* block, int64_t width, int64_t first) {
        double result[most_lanes];
        search_rows(row, last, p, block, width, result);
        from_steps(kernels, result, 0, call.y(), first, width);
    });
}

}  // namespace kpu::values::fast
