#include "isa/footprint.hpp"

#include <algorithm>
#include <utility>

namespace kpu {
namespace {

constexpr int64_t max_runs = 1 << 16;

using Run = std::pair<int64_t, int64_t>;  ///< [first, last) in bits, so that i4 is exact

/// Dimensions that have more than one element, largest stride first.
std::vector<std::pair<int64_t, int64_t>> steps_of(const BoundRegion& region) {
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, count
    for (size_t d = 0; d < region.shape.rank; ++d) {
        if (region.shape[d] > 1) steps.emplace_back(region.strides[d], region.shape[d]);
    }
    std::sort(steps.rbegin(), steps.rend());
    return steps;
}

/// Contiguous runs of a region in ascending order; empty when there are more than max_runs.
std::vector<Run> runs_of(const BoundRegion& region, int64_t address) {
    const int64_t start = address * 8;
    if (!region.typed()) return {{start, start + static_cast<int64_t>(region.extent) * 8}};
    const int64_t bits = bit_width(region.elem);
    auto steps = steps_of(region);
    int64_t run = 1;  // elements
    while (!steps.empty() && steps.back().first == run) {
        run *= steps.back().second;
        steps.pop_back();
    }
    std::vector<Run> runs{{start, start + run * bits}};
    for (const auto& [stride, count] : steps) {
        if (static_cast<int64_t>(runs.size()) * count > max_runs) return {};
        std::vector<Run> next;
        for (const Run& base : runs) {
            for (int64_t i = 0; i < count; ++i) {
                next.emplace_back(base.first + i * stride * bits, base.second + i * stride * bits);
            }
        }
        runs = std::move(next);
    }
    std::sort(runs.begin(), runs.end());
    return runs;
}

}  // namespace

bool windows_overlap(const BoundRegion& a, int64_t address_a, const BoundRegion& b, int64_t address_b) {
    const auto outside = [](int64_t address) {
        return address < 0 || address > static_cast<int64_t>(max_level_bytes);
    };
    if (outside(address_a) || outside(address_b)) return false;  // no such byte; bounds are checked elsewhere
    const auto end = [](const BoundRegion& region, int64_t address) {
        return address + static_cast<int64_t>(region.extent);
    };
    if (address_a >= end(b, address_b) || address_b >= end(a, address_a)) return false;
    const std::vector<Run> runs_a = runs_of(a, address_a), runs_b = runs_of(b, address_b);
    if (runs_a.empty() || runs_b.empty()) return true;
    for (size_t i = 0, j = 0; i < runs_a.size() && j < runs_b.size();) {
        if (runs_a[i].first < runs_b[j].second && runs_b[j].first < runs_a[i].second) return true;
        if (runs_a[i].second < runs_b[j].second) {
            ++i;
        } else {
            ++j;
        }
    }
    return false;
}

bool overlaps_itself(const BoundRegion& region) {
    if (!region.typed() || region.dense) return false;
    const auto steps = steps_of(region);
    int64_t span = 1;  // elements that the smaller strides reach
    for (size_t i = steps.size(); i-- > 0;) {
        if (steps[i].first < span) return true;
        span += (steps[i].second - 1) * steps[i].first;
    }
    return false;
}

}  // namespace kpu
