// Normalisations, softmax and reductions: binary64, ascending index, one rounding at the end.
#include <cmath>

#include "values/elementary.hpp"
#include "values/reference.hpp"

namespace kpu::values::reference {
namespace {

/// A row of a normalisation: element i by row(i), replaced by set(i, value).
struct Row {
    const NormProblem& p;
    const Tensor& x;
    const Tensor& y;
    int64_t base;

    int64_t at(int64_t i) const { return base + i * p.inner; }
    double operator[](int64_t i) const { return load_real(x.type, x.data, at(i)); }
    void set(int64_t i, double value) const { put_float(y, at(i), value); }
    /// sum of f(element) in ascending order
    template <class F>
    double sum(F f) const {
        double total = 0;
        for (int64_t i = 0; i < p.count; ++i) total += f((*this)[i]);
        return total;
    }
};

void rms_or_layer(const Row& row, bool centred) {
    const NormProblem& p = row.p;
    const auto n = static_cast<double>(p.count);
    const double mean = centred ? row.sum([](double v) { return v; }) / n : 0;
    const double variance = row.sum([mean](double v) { return (v - mean) * (v - mean); }) / n;
    const double root = std::sqrt(variance + p.epsilon);
    for (int64_t i = 0; i < p.count; ++i) {
        double v = (row[i] - mean) / root;
        if (p.scale != nullptr) v *= load_real(p.scale->type, p.scale->data, i);
        if (p.bias != nullptr) v += load_real(p.bias->type, p.bias->data, i);
        row.set(i, v);
    }
}

void soft_row(const Row& row, bool logarithm) {
    double top = -HUGE_VAL;
    for (int64_t i = 0; i < row.p.count; ++i) top = maximum(top, row[i]);
    const double sum = row.sum([top](double v) { return elementary::exp(v - top); });
    const double log_sum = elementary::log(sum);
    for (int64_t i = 0; i < row.p.count; ++i) {
        const double v = row[i] - top;
        row.set(i, logarithm ? v - log_sum : elementary::exp(v) / sum);
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

/// visit(row) for every row of a normalisation.
template <class Visit>
void for_each_row(const Call& call, Visit visit) {
    const NormProblem p = norm_problem(call);
    for (int64_t outer = 0; outer < p.outer; ++outer) {
        for (int64_t inner = 0; inner < p.inner; ++inner)
            visit(Row{p, call.x(), call.y(), outer * p.count * p.inner + inner});
    }
}

}  // namespace

void norm(const Call& call, bool centred) {
    for_each_row(call, [centred](const Row& row) { rms_or_layer(row, centred); });
}

void softmax(const Call& call, bool logarithm) {
    for_each_row(call, [logarithm](const Row& row) { soft_row(row, logarithm); });
}

void reduce(const Reduction& row, const Call& call) {
    const ReduceProblem p = reduce_problem(call);
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    int64_t index = 0;
    for_each_offset(p.kept, [&](int64_t base) {
        double value = row.start;
        for_each_offset(
            p.reduced, [&](int64_t offset) { value = row.step(value, real_value(x, x_map, base + offset)); });
        if (row.finish != nullptr) value = row.finish(value, static_cast<double>(p.count));
        store_real(y, y_map, index++, value);
    });
}

void search(const Search& row, const Call& call) {
    const ReduceProblem p = reduce_problem(call);
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap map(x);
    const bool last = call.attrs.integer("select_last_index", 0) != 0;
    int64_t index = 0;
    for_each_offset(p.kept, [&](int64_t base) {
        double held = 0;
        int64_t best = -1, i = 0;
        for_each_offset(p.reduced, [&](int64_t offset) {
            const double v = real_value(x, map, base + offset);
            if (i == 0 || row.replaces(v, held, last)) {
                held = v;
                best = i;
            }
            ++i;
        });
        put_steps(y, index++, static_cast<double>(best), 0);
    });
}

void cumsum(const Call& call) {
    const NormProblem p = norm_problem(call);
    const Tensor &x = call.x(), &y = call.y();
    const QuantMap x_map(x);
    const QuantMap y_map(y);
    const bool exclusive = call.attrs.integer("exclusive", 0) != 0;
    const bool reverse = call.attrs.integer("reverse", 0) != 0;
    for (int64_t outer = 0; outer < p.outer; ++outer) {
        for (int64_t inner = 0; inner < p.inner; ++inner) {
            double sum = 0;
            for (int64_t i = 0; i < p.count; ++i) {
                const int64_t at = (outer * p.count + (reverse ? p.count - 1 - i : i)) * p.inner + inner;
                const double with = sum + real_value(x, x_map, at);
                store_real(y, y_map, at, exclusive ? sum : with);
                sum = with;
            }
        }
    }
}

void group_norm(const Call& call) {
    const GroupNormProblem p = group_norm_problem(call);
    const Tensor &x = call.x(), &y = call.y();
    const int64_t width = p.channels / p.groups;
    const auto count = static_cast<double>(p.pixels * width);
    for (int64_t block = 0; block < p.batch * p.groups; ++block) {
        const int64_t image = block / p.groups, first = block % p.groups * width;
        const auto each = [&](auto visit) {  // visit(element, channel), row-major
            for (int64_t pixel = 0; pixel < p.pixels; ++pixel) {
                for (int64_t c = first; c < first + width; ++c)
                    visit((image * p.pixels + pixel) * p.channels + c, c);
            }
        };
        const auto value = [&](int64_t at) { return load_real(x.type, x.data, at); };
        double sum = 0, squares = 0;
        each([&](int64_t at, int64_t) { sum += value(at); });
        const double mean = sum / count;
        each([&](int64_t at, int64_t) { squares += (value(at) - mean) * (value(at) - mean); });
        const double root = std::sqrt(squares / count + p.epsilon);
        each([&](int64_t at, int64_t c) {
            double v = (value(at) - mean) / root;
            if (p.scale != nullptr) v *= load_real(p.scale->type, p.scale->data, c);
            if (p.bias != nullptr) v += load_real(p.bias->type, p.bias->data, c);
            put_float(y, at, v);
        });
    }
}

}  // namespace kpu::values::reference
