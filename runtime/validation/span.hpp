#pragma once
// Ranges of indices and their arithmetic, for schedules that cut axes.
#include <algorithm>
#include <cstdint>
#include <vector>

namespace kpu::validation {

constexpr int64_t sum_bytes = 4;  ///< bytes of an accumulator

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Indices [first, first + size) of an axis.
struct Span {
    int64_t first = 0, size = 0;
    int64_t end() const { return first + size; }
};

inline std::vector<Span> cut(int64_t extent, int64_t size) {
    std::vector<Span> spans;
    for (int64_t first = 0; first < extent; first += size)
        spans.push_back({first, std::min(size, extent - first)});
    return spans;
}

/// Returns the input pixels under a span of output pixels, without the padding.
inline Span reached(Span out, int64_t kernel, int64_t stride, int64_t pad, int64_t extent) {
    const int64_t first = std::max<int64_t>(0, out.first * stride - pad);
    const int64_t end = std::min(extent, (out.end() - 1) * stride - pad + kernel);
    return {first, std::max<int64_t>(0, end - first)};
}

/// Returns those of a span of output pixels whose input at this position of the window is no padding.
inline Span touched(Span out, int64_t at, int64_t stride, int64_t pad, int64_t extent) {
    int64_t first = out.first, end = out.end();
    while (first < end && first * stride + at - pad < 0) ++first;
    while (end > first && (end - 1) * stride + at - pad >= extent) --end;
    return {first, end - first};
}

}  // namespace kpu::validation
