// resize: elements of X at positions between its elements.
#include <algorithm>
#include <array>
#include <cmath>

#include "isa/shapes.hpp"
#include "values/reference.hpp"

namespace kpu::values {
namespace {

int64_t nearest(double position, std::string_view mode) {
    const double whole = mode == "floor"               ? std::floor(position)
                         : mode == "ceil"              ? std::ceil(position)
                         : mode == "round_prefer_ceil" ? std::floor(position + 0.5)
                                                       : std::ceil(position - 0.5);
    return static_cast<int64_t>(whole);
}

/// Clamped; a NaN, which extreme scales give, is the least.
double within(double position, double least, double most) {
    return position >= least ? std::min(position, most) : least;
}

/// Finds the neighbours for each index along a dimension of Y. Beyond X its border goes on.
std::vector<ResizeProblem::Neighbours> neighbours_along(const Call& call, const ResizeRule& rule, size_t d) {
    const int64_t from = call.x().shape[d], to = call.y().shape[d];
    const bool linear = call.attrs.word("mode", "nearest") == "linear";
    const std::string_view mode = call.attrs.word("nearest_mode", "round_prefer_floor");
    std::vector<ResizeProblem::Neighbours> result;
    for (int64_t i = 0; i < to; ++i) {
        const auto last = static_cast<double>(from - 1);
        const double position = rule.position(d, i, from, to);
        if (linear) {
            const double inside = within(position, 0, last);
            const double first = std::floor(inside);
            result.push_back({static_cast<int64_t>(first), inside - first});
        } else {
            // clamped first by one element more, which keeps the conversion in range and changes nothing
            const int64_t at = nearest(within(position, -1, last + 1), mode);
            result.push_back({std::clamp<int64_t>(at, 0, from - 1), 0});
        }
    }
    return result;
}

}  // namespace

ResizeProblem resize_problem(const Call& call) {
    const ResizeRule rule = resize_rule(call.x().shape, call.y().shape, call.attrs);
    ResizeProblem p;
    for (size_t d = 0; d < call.x().shape.rank; ++d) p.along.push_back(neighbours_along(call, rule, d));
    return p;
}

namespace reference {
namespace {

/// Weights multiply from the first dimension on; two neighbours are added along the last dimension first. A
/// neighbour of weight 0 adds nothing.
struct Interpolation {
    const Tensor& x;
    const QuantMap& map;
    const Dims strides;
    std::array<ResizeProblem::Neighbours, max_rank> at{};

    double value(size_t d, int64_t offset, double weight) const {
        if (d == x.shape.rank) return weight * real_value(x, map, offset);
        const ResizeProblem::Neighbours& n = at[d];
        const int64_t base = offset + n.first * strides[d];
        if (n.weight == 0) return value(d + 1, base, weight);
        return value(d + 1, base, weight * (1 - n.weight)) +
               value(d + 1, base + strides[d], weight * n.weight);
    }
};

}  // namespace

void resize(const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const ResizeProblem p = resize_problem(call);
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    Interpolation at{x, x_map, row_major(x.shape), {}};
    std::array<int64_t, max_rank> index{};
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t i = 0; i < count; ++i) {
        for (size_t d = 0; d < x.shape.rank; ++d) at.at[d] = p.along[d][static_cast<size_t>(index[d])];
        store_real(y, y_map, i, at.value(0, 0, 1));
        for (size_t d = x.shape.rank; d-- > 0;) {
            if (++index[d] < y.shape[d]) break;
            index[d] = 0;
        }
    }
}

}  // namespace reference
}  // namespace kpu::values
