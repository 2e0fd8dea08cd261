// Normalisations, softmax and reductions: binary64, ascending index, one rounding at the end.
#include <cmath>

#include "values/elementary.hpp"
#include "values/reference.hpp"

namespace kpu::values::reference {
namespace {

/// One row of a normalisation: element i by row(i), replaced by set(i, value).
struct Row {
    const NormProblem& p;
    const Tensor& x;
    const Tensor& y;
    int64_t base;

    int64_t at(int64_t i) const { return base + i * p.inner; }
    double operator[](int64_t i) const { return load_real(x.type, x.data, at(i)); }
    void set(int64_t i, double value) const { store_float(y.type, y.data, at(i), value); }
    /// sum of f(element) in ascending order
    template <class F>
    double sum(F f) const {
        double total = 0;
        for (int64_t i = 0; i < p.count; ++i) total += f((*this)[i]);
        return total;
    }
};

void rms_or_layer(const Row& row) {
    const NormProblem& p = row.p;
    const auto n = static_cast<double>(p.count);
    const double mean = p.op == Op::layernorm ? row.sum([](double v) { return v; }) / n : 0;
    const double variance = row.sum([mean](double v) { return (v - mean) * (v - mean); }) / n;
    const double root = std::sqrt(variance + p.epsilon);
    for (int64_t i = 0; i < p.count; ++i) {
        double v = (row[i] - mean) / root;
        if (p.scale != nullptr) v *= load_real(p.scale->type, p.scale->data, i);
        if (p.bias != nullptr) v += load_real(p.bias->type, p.bias->data, i);
        row.set(i, v);
    }
}

void softmax(const Row& row) {
    double top = -HUGE_VAL;
    for (int64_t i = 0; i < row.p.count; ++i) top = maximum(top, row[i]);
    const double sum = row.sum([top](double v) { return elementary::exp(v - top); });
    const double log_sum = elementary::log(sum);
    for (int64_t i = 0; i < row.p.count; ++i) {
        const double v = row[i] - top;
        row.set(i, row.p.op == Op::softmax ? elementary::exp(v) / sum : v - log_sum);
    }
}

/// visit(offset) for every combination of the spans, row-major.
template <class Visit>
void for_each_offset(const std::vector<ReduceProblem::Span>& spans, Visit visit) {
    std::vector<int64_t> index(spans.size(), 0);
    int64_t count = 1, offset = 0;
    for (const ReduceProblem::Span& span : spans) count *= span.count;
    for (int64_t i = 0; i < count; ++i) {
        visit(offset);
        for (size_t d = spans.size(); d-- > 0;) {
            offset += spans[d].stride;
            if (++index[d] < spans[d].count) break;
            offset -= spans[d].stride * spans[d].count;
            index[d] = 0;
        }
    }
}

}  // namespace

void norm(const NormProblem& p, const Tensor& x, const Tensor& y) {
    for (int64_t outer = 0; outer < p.outer; ++outer) {
        for (int64_t inner = 0; inner < p.inner; ++inner) {
            const Row row{p, x, y, outer * p.count * p.inner + inner};
            if (p.op == Op::softmax || p.op == Op::log_softmax) {
                softmax(row);
            } else {
                rms_or_layer(row);
            }
        }
    }
}

void reduce(const ReduceProblem& p, const Tensor& x, const Tensor& y) {
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    int64_t index = 0;
    for_each_offset(p.kept, [&](int64_t base) {
        double value = p.op == Op::reduce_sum ? 0 : p.op == Op::reduce_max ? -HUGE_VAL : HUGE_VAL;
        int64_t best = -1, i = 0;
        for_each_offset(p.reduced, [&](int64_t offset) {
            const double v = real_value(x, x_map, base + offset);
            if (is_search(p.op)) {
                const bool better = p.op == Op::argmax ? v > value : v < value;
                if (i == 0 || (!std::isnan(value) && (std::isnan(v) || better))) {
                    value = v;
                    best = i;
                }
                ++i;
            } else if (p.op == Op::reduce_sum) {
                value += v;
            } else {
                value = p.op == Op::reduce_max ? maximum(value, v) : minimum(value, v);
            }
        });
        if (is_search(p.op)) {
            store_saturated(y.type, y.data, index++, best);
        } else {
            store_real(y, y_map, index++, value);
        }
    });
}

}  // namespace kpu::values::reference
