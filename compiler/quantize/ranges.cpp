#include "compiler/quantize/ranges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/observe.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::ValueId;

/// Returns the least and greatest by comparisons that NaN never wins, in lanes of their own so that they
/// become vector instructions.
Range range_of_f32(const float* numbers, uint64_t count) {
    constexpr size_t lanes = 16;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    float low[lanes], high[lanes];
    uint32_t finite[lanes];
    std::fill_n(low, lanes, infinity);
    std::fill_n(high, lanes, -infinity);
    std::fill_n(finite, lanes, 1U);
    const auto take = [&](size_t lane, float number) {
        const bool is_finite = std::fabs(number) < infinity;
        const float below = is_finite ? number : infinity, above = is_finite ? number : -infinity;
        low[lane] = below < low[lane] ? below : low[lane];
        high[lane] = above > high[lane] ? above : high[lane];
        finite[lane] &= is_finite ? 1U : 0U;
    };
    uint64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        for (size_t lane = 0; lane < lanes; ++lane) take(lane, numbers[i + lane]);
    }
    for (; i < count; ++i) take(0, numbers[i]);
    Range range;
    range.all_finite = std::all_of(finite, finite + lanes, [](uint32_t all) { return all != 0; });
    range.low = *std::min_element(low, low + lanes);
    range.high = *std::max_element(high, high + lanes);
    range.known = range.low <= range.high;
    if (!range.known) range.low = range.high = 0;
    return range;
}

Range chosen(const Histogram& histogram, const RangeOptions& options) {
    if (options.method == RangeMethod::mse) return histogram.least_error();
    if (options.method == RangeMethod::entropy) return histogram.most_information();
    return histogram.middle(options.percentile);
}

std::vector<Range> parts(const Graph& graph, const Samples& samples, const RangeOptions& options,
                         std::vector<Range> ranges) {
    std::vector<Histogram> histograms;
    histograms.reserve(ranges.size());
    for (const Range& range : ranges) histograms.emplace_back(range);
    const auto counted =
        observe(graph, samples, histograms,
                [](std::vector<Histogram>& counts, size_t, ValueId id, const values::Tensor& tensor) {
                    counts[id].add(tensor.type, tensor.data, tensor.elements());
                });
    for (size_t id = 0; id < ranges.size(); ++id) {
        if (graph.values[id].constant() || ranges[id].empty()) continue;
        for (const std::vector<Histogram>& counts : counted) histograms[id].add(counts[id]);
        const bool all_finite = ranges[id].all_finite;
        ranges[id] = chosen(histograms[id], options);
        ranges[id].all_finite = all_finite;
    }
    return ranges;
}

}  // namespace

void Range::include(double number) {
    low = known ? std::min(low, number) : number;
    high = known ? std::max(high, number) : number;
    known = true;
}

void Range::include(const Range& other) {
    all_finite = all_finite && other.all_finite;
    if (other.empty()) return;
    include(other.low);
    include(other.high);
}

Range range_of(ElemType elem, const uint8_t* bytes, uint64_t elements) {
    if (elem == ElemType::f32) return range_of_f32(reinterpret_cast<const float*>(bytes), elements);
    Range range;
    for (uint64_t i = 0; i < elements; ++i) {
        const float number = values::load_float(elem, bytes, static_cast<int64_t>(i));
        if (std::isfinite(number)) {
            range.include(number);
        } else {
            range.all_finite = false;
        }
    }
    return range;
}

Histogram::Histogram(const Range& range) : range_(range) {
    const double width = range.high - range.low;
    if (range.empty() || !(width > 0)) return;
    bins_per_unit_ = static_cast<double>(bins) / width;
}

void Histogram::add(ElemType elem, const uint8_t* bytes, uint64_t elements) {
    if (bins_per_unit_ == 0) return;
    counts_.resize(bins, 0);
    for (uint64_t i = 0; i < elements; ++i) {
        const double number = values::load_float(elem, bytes, static_cast<int64_t>(i));
        const double at = (number - range_.low) * bins_per_unit_;
        if (!(at >= 0 && at <= static_cast<double>(bins))) continue;  // an infinity, a NaN
        ++counts_[std::min(static_cast<size_t>(at), bins - 1)];
    }
}

void Histogram::add(const Histogram& other) {
    if (other.counts_.empty()) return;
    counts_.resize(bins, 0);
    for (size_t i = 0; i < bins; ++i) counts_[i] += other.counts_[i];
}

Range Histogram::middle(double percentile) const {
    const uint64_t total = std::accumulate(counts_.begin(), counts_.end(), uint64_t{0});
    if (total == 0) return range_;
    const double outside = static_cast<double>(total) * (100 - percentile) / 200;
    size_t first = 0, last = bins;
    for (double cut = 0; first + 1 < last; ++first) {
        cut += static_cast<double>(counts_[first]);
        if (cut > outside) break;
    }
    for (double cut = 0; last > first + 1; --last) {
        cut += static_cast<double>(counts_[last - 1]);
        if (cut > outside) break;
    }
    Range result;
    result.include(first == 0 ? range_.low : range_.low + static_cast<double>(first) / bins_per_unit_);
    result.include(last == bins ? range_.high : range_.low + static_cast<double>(last) / bins_per_unit_);
    return result;
}

Range Histogram::least_error() const {
    constexpr int candidates = 128, steps = 255;
    if (counts_.empty()) return range_;
    Range best = range_;
    double least = HUGE_VAL;
    for (int k = candidates; k > 0; --k) {
        const double factor = static_cast<double>(k) / candidates;
        const double low = std::min(range_.low, 0.0) * factor, high = std::max(range_.high, 0.0) * factor;
        const double step = (high - low) / steps, zero = std::round(-low / step);
        double error = 0;
        for (size_t i = 0; i < bins; ++i) {
            if (counts_[i] == 0) continue;
            const double number = middle_of(i);
            const double held = std::clamp(std::round(number / step), -zero, steps - zero) * step;
            error += static_cast<double>(counts_[i]) * (number - held) * (number - held);
        }
        if (error >= least) continue;
        least = error;
        best.low = low;
        best.high = high;
    }
    return best;
}

/// Counts how many numbers have each of 2048 equal parts of the greatest size.
std::vector<double> Histogram::sizes() const {
    const double greatest = std::max(std::fabs(range_.low), std::fabs(range_.high));
    std::vector<double> counts(bins, 0);
    for (size_t i = 0; i < bins; ++i) {
        const double at = std::fabs(middle_of(i)) / greatest * static_cast<double>(bins);
        counts[std::min(static_cast<size_t>(at), bins - 1)] += static_cast<double>(counts_[i]);
    }
    return counts;
}

namespace {

/// Returns the divergence of numbers up to part `end` from the same in 128 levels.
double divergence(const std::vector<double>& counts, size_t end, size_t levels) {
    std::vector<double> kept(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(end));
    kept.back() += std::accumulate(counts.begin() + static_cast<std::ptrdiff_t>(end), counts.end(), 0.0);
    std::vector<double> levelled(end, 0);
    for (size_t level = 0; level < levels; ++level) {
        const size_t first = level * end / levels, last = (level + 1) * end / levels;
        double sum = 0, filled = 0;
        for (size_t i = first; i < last; ++i) {
            sum += counts[i];
            filled += kept[i] > 0 ? 1 : 0;
        }
        for (size_t i = first; i < last; ++i) levelled[i] = kept[i] > 0 ? sum / filled : 0;
    }
    const double total = std::accumulate(kept.begin(), kept.end(), 0.0);
    const double levelled_total = std::accumulate(levelled.begin(), levelled.end(), 0.0);
    if (!(levelled_total > 0)) return HUGE_VAL;
    double sum = 0;
    for (size_t i = 0; i < end; ++i) {
        if (kept[i] == 0) continue;
        if (levelled[i] == 0) return HUGE_VAL;
        sum += kept[i] / total * std::log((kept[i] / total) / (levelled[i] / levelled_total));
    }
    return sum;
}

}  // namespace

Range Histogram::most_information() const {
    constexpr size_t levels = 128, stride = 4;
    if (counts_.empty()) return range_;
    const std::vector<double> counts = sizes();
    size_t best = bins;
    double least = HUGE_VAL;
    for (size_t end = levels; end <= bins; end += stride) {
        const double found = divergence(counts, end, levels);
        if (found >= least) continue;
        least = found;
        best = end;
    }
    const double most =
        std::max(std::fabs(range_.low), std::fabs(range_.high)) * static_cast<double>(best) / bins;
    Range result = range_;
    result.low = std::max(range_.low, -most);
    result.high = std::min(range_.high, most);
    return result;
}

std::vector<Range> calibrate(const Graph& graph, const Samples& samples, const RangeOptions& options) {
    std::vector<Range> ranges(graph.values.size());
    for (size_t id = 0; id < ranges.size(); ++id) {
        const graph::Value& value = graph.values[id];
        if (value.constant() && is_float(value.elem))
            ranges[id] =
                range_of(value.elem, graph::aligned(value.data, sizeof(float)).bytes, value.elements());
    }
    const auto seen =
        observe(graph, samples, std::vector<Range>(ranges.size()),
                [](std::vector<Range>& seen_here, size_t, ValueId id, const values::Tensor& tensor) {
                    seen_here[id].include(range_of(tensor.type, tensor.data, tensor.elements()));
                });
    for (const std::vector<Range>& some : seen) {
        for (size_t id = 0; id < ranges.size(); ++id) ranges[id].include(some[id]);
    }
    if (options.method == RangeMethod::minmax) return ranges;
    return parts(graph, samples, options, std::move(ranges));
}

}  // namespace kpu::quantize
