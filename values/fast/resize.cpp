// resize: the trailing dimensions that stay as they are side by side, channels most of the time.
#include <algorithm>

#include "isa/shapes.hpp"
#include "values/fast/real.hpp"

namespace kpu::values::fast {
namespace {

using Neighbours = ResizeProblem::Neighbours;

bool stays(const std::vector<Neighbours>& along, int64_t size) {
    if (static_cast<int64_t>(along.size()) != size) return false;
    for (size_t i = 0; i < along.size(); ++i) {
        if (along[i].first != static_cast<int64_t>(i) || along[i].weight != 0) return false;
    }
    return true;
}

/// Rows of `inner` elements, in the order of additions of the reference.
class Blend {
  public:
    Blend(const ResizeProblem& p, const double* x, const Dims& strides, size_t outer, int64_t inner)
        : p_(p), x_(x), strides_(strides), outer_(outer), inner_(inner) {
        for (size_t d = 0; d < outer; ++d) others_.emplace_back(static_cast<size_t>(inner));
    }

    /// The row of Y at these indices of the outer dimensions.
    void row(const std::vector<int64_t>& index, double* to) { add(0, index, 0, 1, to); }

  private:
    void add(size_t d, const std::vector<int64_t>& index, int64_t offset, double weight, double* to) {
        if (d == outer_) {
            for (int64_t i = 0; i < inner_; ++i) to[i] = weight * x_[offset + i];
            return;
        }
        const Neighbours& n = p_.along[d][static_cast<size_t>(index[d])];
        const int64_t first = offset + n.first * strides_[d];
        if (n.weight == 0) return add(d + 1, index, first, weight, to);
        add(d + 1, index, first, weight * (1 - n.weight), to);
        double* other = others_[d].data();
        add(d + 1, index, first + strides_[d], weight * n.weight, other);
        for (int64_t i = 0; i < inner_; ++i) to[i] = to[i] + other[i];
    }

    const ResizeProblem& p_;
    const double* x_;
    const Dims strides_;
    size_t outer_;
    int64_t inner_;
    std::vector<std::vector<double>> others_;  ///< positions in each other dimension
};

}  // namespace

bool resize(const Kernels& kernels, Scratch& scratch, const Call& call) {
    const Tensor &x = call.x(), &y = call.y();
    const Real in(kernels, x), out(kernels, y);
    const auto elements = static_cast<int64_t>(x.elements());
    if (!in.usable() || !out.usable() || elements == 0) return false;
    const ResizeProblem p = resize_problem(call);
    size_t outer = x.shape.rank;
    int64_t inner = 1;
    for (; outer > 0 && stays(p.along[outer - 1], x.shape[outer - 1]); --outer) inner *= x.shape[outer - 1];
    double* values = scratch.real.get(elements);
    in.read(0, elements, values);
    Blend blend(p, values, row_major(x.shape), outer, inner);
    // a line of Y at once: the last of the outer dimensions, and those within
    const int64_t rows = outer == 0 ? 1 : y.shape[outer - 1];
    double* line = scratch.other.get(rows * inner);
    std::vector<int64_t> index(outer, 0);
    const auto count = static_cast<int64_t>(y.elements());
    for (int64_t first = 0; first < count; first += rows * inner) {
        for (int64_t r = 0; r < rows; ++r) {
            if (outer > 0) index[outer - 1] = r;
            blend.row(index, line + r * inner);
        }
        out.write(line, first, rows * inner);
        for (size_t d = outer; d-- > 1;) {
            if (++index[d - 1] < y.shape[d - 1]) break;
            index[d - 1] = 0;
        }
    }
    return true;
}

}  // namespace kpu::values::fast
