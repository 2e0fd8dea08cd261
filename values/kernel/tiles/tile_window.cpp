#include "values/kernel/tiles/tile_window.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace kpu::values::kernel {

uint64_t ByteWindow::end() const {
    uint64_t last = first;
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0) return first;
        last += static_cast<uint64_t>((sizes[i] - 1) * strides[i]) * element_bytes;
    }
    return last + element_bytes;
}

ByteWindow ByteWindow::merged() const {
    ByteWindow result = *this;
    result.sizes.clear();
    result.strides.clear();
    for (size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 1) continue;
        if (!result.sizes.empty() && result.strides.back() == sizes[i] * strides[i]) {
            result.sizes.back() *= sizes[i];
            result.strides.back() = strides[i];
        } else {
            result.sizes.push_back(sizes[i]);
            result.strides.push_back(strides[i]);
        }
    }
    return result;
}

namespace {

bool is_dense(const ByteWindow& window) {
    return window.sizes.empty() || (window.sizes.size() == 1 && window.strides[0] == 1);
}

std::vector<uint64_t> bytes_of(const ByteWindow& window) {
    std::vector<uint64_t> places;
    Shape index(window.sizes.size(), 0);
    for (uint64_t i = 0; i < window.count(); ++i) {
        uint64_t byte = window.first;
        for (size_t d = 0; d < index.size(); ++d)
            byte += static_cast<uint64_t>(index[d] * window.strides[d]) * window.element_bytes;
        places.push_back(byte);
        for (size_t d = index.size(); d-- > 0;) {
            if (++index[d] < window.sizes[d]) break;
            index[d] = 0;
        }
    }
    return places;
}

/// Finds where a window begins along each of its dimensions, if these are digits of one number: every stride
/// a multiple of the next one, and no dimension so long that it reaches into the one before. False: they are
/// not.
bool digits_of(const ByteWindow& window, Shape& starts) {
    starts.assign(window.sizes.size() + 1, 0);
    auto rest = static_cast<int64_t>(window.first / window.element_bytes);
    for (size_t i = 0; i < window.sizes.size(); ++i) {
        const int64_t stride = window.strides[i];
        if (stride <= 0) return false;
        starts[i] = rest / stride;
        rest %= stride;
        if (i == 0) continue;
        if (window.strides[i - 1] % stride != 0 ||
            starts[i] + window.sizes[i] > window.strides[i - 1] / stride)
            return false;
    }
    starts.back() = rest;
    return true;
}

/// Windows with the same strides are boxes; nothing when they are not.
std::optional<bool> boxes_overlap(const ByteWindow& a, const ByteWindow& b) {
    if (a.strides != b.strides || a.element_bytes != b.element_bytes) return std::nullopt;
    Shape first, second;
    if (!digits_of(a, first) || !digits_of(b, second)) return std::nullopt;
    if (first.back() != second.back()) return false;
    for (size_t i = 0; i < a.sizes.size(); ++i)
        if (first[i] + a.sizes[i] <= second[i] || second[i] + b.sizes[i] <= first[i]) return false;
    return true;
}

}  // namespace

bool ByteWindow::overlaps(const ByteWindow& other) const {
    if (buffer != other.buffer || count() == 0 || other.count() == 0) return false;
    if (end() <= other.first || other.end() <= first) return false;
    if (const std::optional<bool> answer = boxes_overlap(*this, other)) return *answer;
    const ByteWindow a = merged(), b = other.merged();
    if (is_dense(a) && is_dense(b)) return true;
    // elements of a buffer have one size, so that they are the same or apart
    const std::vector<uint64_t> mine = bytes_of(a), others = bytes_of(b);
    return std::any_of(mine.begin(), mine.end(),
                       [&](uint64_t byte) { return std::binary_search(others.begin(), others.end(), byte); });
}

WindowPart inside_part(const TileExpr& window, const Shape& starts) {
    const size_t rank = window.dims.size() / 3;
    WindowPart part;
    for (size_t i = 0; i < rank; ++i) {
        const int64_t whole = window.dims[i], size = window.dims[rank + i],
                      stride = window.dims[2 * rank + i];
        const int64_t start = starts[i];
        const int64_t low = start < 0 ? (-start + stride - 1) / stride : 0;
        const int64_t high = start >= whole ? 0 : std::min(size, (whole - 1 - start) / stride + 1);
        const bool all = low == 0 && high == size;
        if (size > 0 && !all && (window.op != Op::clipped || low >= high))
            throw TileFault(fmt::format(
                "index {} of dimension {}, {} elements{}, is outside of the buffer's shape [{}]. Fix: keep "
                "starts inside{}.",
                start, i, size, stride == 1 ? "" : fmt::format(" {} apart", stride),
                fmt::join(window.dims.begin(), window.dims.begin() + static_cast<ptrdiff_t>(rank), ", "),
                start < 0 ? fmt::format("; to count from the end add {}", whole) : ""));
        part.low.push_back(low);
        part.size.push_back(high - low);
    }
    return part;
}

void check_inside(const TileExpr& window, const Shape& place) {
    for (size_t i = 0; i < place.size(); ++i)
        if (place[i] < 0 || place[i] >= window.dims[i])
            throw TileFault(
                fmt::format("index {} of dimension {} is outside of the buffer's shape [{}], and its mask "
                            "is true. Fix: mask what is outside.",
                            place[i], i,
                            fmt::join(window.dims.begin(),
                                      window.dims.begin() + static_cast<ptrdiff_t>(place.size()), ", ")));
}

ByteWindow part_of(const TileExpr& window, const Shape& starts, const WindowPart& part, uint32_t buffer,
                   unsigned element_bytes) {
    const size_t rank = window.dims.size() / 3;
    ByteWindow result;
    result.buffer = buffer;
    result.element_bytes = element_bytes;
    result.sizes = part.size;
    result.strides = row_major({window.dims.begin(), window.dims.begin() + static_cast<ptrdiff_t>(rank)});
    for (size_t i = 0; i < rank; ++i) {
        const int64_t stride = window.dims[2 * rank + i];
        result.first +=
            static_cast<uint64_t>((starts[i] + part.low[i] * stride) * result.strides[i]) * element_bytes;
        result.strides[i] *= stride;
    }
    return result;
}

}  // namespace kpu::values::kernel
