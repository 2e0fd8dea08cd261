#include "isa/footprint.hpp"

#include <algorithm>
#include <cstdlib>

namespace kpu {
namespace {

struct Axis {
    int64_t stride = 0;
    int64_t count = 0;
};
using Axes = std::vector<Axis>;

/// Returns the dimensions that have more than one element, smallest stride first; strides in elements times
/// `unit`.
Axes axes_of(const BoundRegion& region, int64_t unit) {
    Axes axes;
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (region.shape[d] > 1) axes.push_back({region.strides[d] * unit, region.shape[d]});
    }
    std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
    return axes;
}

/// Folds axes of odd stride, and all below them, into the run: an i4 run then starts at a whole byte
/// everywhere. Strides and run in nibbles on entry, in bytes on return.
int64_t nibbles_to_bytes(Axes& axes) {
    size_t folded = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i].stride % 2 != 0) folded = i + 1;
    }
    int64_t run = 1;
    for (size_t i = 0; i < folded; ++i) run += axes[i].stride * (axes[i].count - 1);
    axes.erase(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(folded));
    for (Axis& axis : axes) axis.stride /= 2;
    return (run + 1) / 2;
}

/// A difference of two positions as a sum of axes with positive strides, largest first.
class Difference {
  public:
    Difference(const Footprint& a, const Footprint& b) {
        target_ = static_cast<int64_t>(a.address) - static_cast<int64_t>(b.address);
        // a counts upwards, b downwards; equal strides join, which makes tiles of one matrix a single axis
        // each
        for (int i = 0; i < a.dims; ++i) add(a.stride_bytes[i], a.count[i]);
        for (int i = 0; i < b.dims; ++i) {
            target_ -= b.stride_bytes[i] * (b.count[i] - 1);
            add(b.stride_bytes[i], b.count[i]);
        }
        std::sort(axes_.begin(), axes_.end(),
                  [](const Axis& x, const Axis& y) { return x.stride > y.stride; });
        span_.resize(axes_.size() + 1, 0);
        for (size_t i = axes_.size(); i-- > 0;) {
            span_[i] = span_[i + 1] + axes_[i].stride * (axes_[i].count - 1);
        }
    }
    /// True if some difference d satisfies low <= d <= high.
    bool reaches(int64_t low, int64_t high) {
        steps_ = 0;
        return search(0, low - target_, high - target_);
    }

  private:
    static constexpr int max_steps = 1 << 20;

    void add(int64_t stride, int64_t count) {
        for (Axis& axis : axes_) {
            if (axis.stride == stride) {
                axis.count += count - 1;
                return;
            }
        }
        axes_.push_back({stride, count});
    }

    /// True if axes from `depth` on can sum to a value in [low, high].
    bool search(size_t depth, int64_t low, int64_t high) {
        if (high < 0 || low > span_[depth]) return false;
        if (low <= 0 || high >= span_[depth]) return true;  // all at their first, or all at their last index
        if (++steps_ > max_steps) return true;
        const Axis& axis = axes_[depth];
        const int64_t rest = span_[depth + 1];
        // i * stride must leave a remainder that the smaller axes can make up
        const int64_t from = low - rest <= 0 ? 0 : (low - rest + axis.stride - 1) / axis.stride;
        const int64_t to = std::min(axis.count - 1, high / axis.stride);
        for (int64_t i = from; i <= to; ++i) {
            if (search(depth + 1, low - i * axis.stride, high - i * axis.stride)) return true;
        }
        return false;
    }

    int64_t target_ = 0;
    Axes axes_;
    std::vector<int64_t> span_;
    int steps_ = 0;
};

}  // namespace

uint64_t Footprint::total_bytes() const {
    uint64_t total = run_bytes;
    for (int i = 0; i < dims; ++i) total *= static_cast<uint64_t>(count[i]);
    return total;
}

uint64_t Footprint::end() const {
    if (run_bytes == 0) return address;
    uint64_t end = address + run_bytes;
    for (int i = 0; i < dims; ++i) end += static_cast<uint64_t>(stride_bytes[i] * (count[i] - 1));
    return end;
}

Footprint footprint_of(const BoundRegion& region, uint64_t address) {
    Footprint result;
    result.address = address;
    if (!region.typed()) {
        result.run_bytes = region.extent;
        return result;
    }
    const int64_t elements = region.shape.product();
    if (elements == 0) return result;
    if (region.dense) {
        result.run_bytes = packed_bytes(region.elem, static_cast<uint64_t>(elements));
        return result;
    }
    const int bits = bit_width(region.elem);
    const int64_t unit = bits >= 8 ? bits / 8 : 1;
    Axes axes = axes_of(region, unit);
    int64_t run = bits >= 8 ? unit : nibbles_to_bytes(axes);
    for (const Axis& axis : axes) {
        const int last = result.dims - 1;
        if (result.dims == 0 && axis.stride <= run) {
            run += axis.stride * (axis.count - 1);
        } else if (result.dims > 0 && axis.stride == result.stride_bytes[last] * result.count[last]) {
            result.count[last] *= axis.count;
        } else {
            result.stride_bytes[result.dims] = axis.stride;
            result.count[result.dims++] = axis.count;
        }
    }
    result.run_bytes = static_cast<uint64_t>(run);
    return result;
}

bool overlap(const Footprint& a, const Footprint& b) {
    if (a.run_bytes == 0 || b.run_bytes == 0) return false;
    if (a.address >= b.end() || b.address >= a.end()) return false;
    if (a.dims == 0 && b.dims == 0) return true;
    // runs starting at x and y share a byte when -run(a) < x - y < run(b)
    const auto low = -static_cast<int64_t>(a.run_bytes) + 1;
    const auto high = static_cast<int64_t>(b.run_bytes) - 1;
    return Difference(a, b).reaches(low, high);
}

bool windows_overlap(const BoundRegion& a, int64_t address_a, const BoundRegion& b, int64_t address_b) {
    const auto outside = [](int64_t address) {
        return address < 0 || address > static_cast<int64_t>(max_level_bytes);
    };
    if (outside(address_a) || outside(address_b)) return false;  // no such byte; bounds are checked elsewhere
    return overlap(footprint_of(a, static_cast<uint64_t>(address_a)),
                   footprint_of(b, static_cast<uint64_t>(address_b)));
}

bool overlaps_itself(const BoundRegion& region) {
    if (!region.typed() || region.dense) return false;
    int64_t span = 1;  // elements that the smaller strides reach
    for (const Axis& axis : axes_of(region, 1)) {
        if (axis.stride < span) return true;
        span += (axis.count - 1) * axis.stride;
    }
    return false;
}

}  // namespace kpu
