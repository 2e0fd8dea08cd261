#include "compiler/onnx/fold/shape_rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/checked.hpp"

namespace kpu::onnx {

Sizes reshape_target(const Sizes& from, const Sizes& target, bool zero_is_zero) {
    Sizes result = target;
    int64_t known = 1;
    int64_t free = -1;
    for (size_t d = 0; d < result.size(); ++d) {
        if (result[d] == 0 && !zero_is_zero) {
            if (d >= from.size())
                Call::refuse(
                    fmt::format("target {} keeps a dimension that {} lacks", text_of(target), text_of(from)));
            result[d] = from[d];
        }
        if (result[d] == -1 && free < 0) {
            free = static_cast<int64_t>(d);
        } else if (const auto product = checked_mul(known, result[d]); result[d] >= 0 && product) {
            known = *product;
        } else {
            Call::refuse(fmt::format("the target {} is not a shape", text_of(target)));
        }
    }
    if (free >= 0) {
        if (known == 0 || elements_of(from) % known != 0)
            Call::refuse(fmt::format("{} cannot be reshaped to {}", text_of(from), text_of(target)));
        result[static_cast<size_t>(free)] = elements_of(from) / known;
    }
    return result;
}

Sizes squeezed(const Call& call, const Sizes& from, const Sizes& axes) {
    std::vector<bool> gone(from.size(), false);
    for (const int64_t axis : axes) gone[call.axis(axis, static_cast<int64_t>(from.size()))] = true;
    Sizes result;
    for (size_t d = 0; d < from.size(); ++d) {
        const bool drop = axes.empty() ? from[d] == 1 : gone[d];
        if (drop && from[d] != 1) Call::refuse(fmt::format("dimension {} of {} is not 1", d, text_of(from)));
        if (!drop) result.push_back(from[d]);
    }
    return result;
}

Sizes unsqueezed(const Call& call, const Sizes& from, const Sizes& axes) {
    const auto rank = static_cast<int64_t>(from.size() + axes.size());
    Sizes result(from.size() + axes.size(), 0);
    for (const int64_t axis : axes) {
        int64_t& size = result[call.axis(axis, rank)];
        if (size != 0) Call::refuse(fmt::format("axes {} name one twice", text_of(axes)));
        size = 1;
    }
    auto next = from.begin();
    for (size_t d = 0; d < result.size(); ++d) {
        if (result[d] == 0) result[d] = *next++;
    }
    return result;
}

Sizes transpose_perm(const Call& call) {
    const size_t rank = call.shape(0).size();
    Sizes perm = identity_perm(rank);
    std::reverse(perm.begin(), perm.end());
    perm = call.ints("perm", perm);
    Sizes sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != identity_perm(rank))
        Call::refuse(fmt::format("perm {} is not a permutation of {} dimensions", text_of(perm), rank));
    return perm;
}

/// Sizes are given, or equal parts: as many as outputs, or as num_outputs says, the last one smaller.
Sizes split_sizes(Call& call, int64_t whole) {
    Sizes sizes = call.ints("split", 1, 13);
    if (sizes.empty()) {
        const int64_t count = call.opset >= 18
                                  ? call.integer("num_outputs", static_cast<int64_t>(call.outputs()))
                                  : static_cast<int64_t>(call.outputs());
        if (count < 1 || count > whole)
            Call::refuse(fmt::format("{} elements cannot be split into {}", whole, count));
        const int64_t each = (whole + count - 1) / count;
        for (int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
    }
    int64_t sum = 0;
    for (const int64_t size : sizes) {
        if (size < 0 || size > whole)
            Call::refuse(fmt::format("the parts {} do not fit into {}", text_of(sizes), whole));
        sum += size;
    }
    if (sum != whole || sizes.size() != call.outputs())
        Call::refuse(fmt::format("the parts {} are not {} elements in {} outputs", text_of(sizes), whole,
                                 call.outputs()));
    return sizes;
}

SliceSpec slice_spec(Call& call) {
    SliceSpec spec;
    spec.starts = call.ints("starts", 1, 10);
    spec.ends = call.ints("ends", 2, 10);
    spec.axes = call.ints("axes", 3, 10, identity_perm(spec.starts.size()));
    spec.steps = call.opset >= 10 && call.has(4) ? call.ints_of(4, "steps") : Sizes(spec.starts.size(), 1);
    if (spec.ends.size() != spec.starts.size() || spec.axes.size() != spec.starts.size() ||
        spec.steps.size() != spec.starts.size())
        Call::refuse("starts, ends, axes and steps have different lengths");
    for (int64_t& axis : spec.axes) axis = static_cast<int64_t>(call.axis(axis, call.rank(0)));
    for (int64_t& step : spec.steps) {
        if (step == 0) Call::refuse("a step is 0");
        // a dimension has fewer elements than 2^31: larger steps take one
        step = std::clamp<int64_t>(step, -INT32_MAX, INT32_MAX);
    }
    return spec;
}

Sizes pad_amounts(Call& call) {
    const size_t rank = call.shape(0).size();
    const Sizes given = call.ints("pads", 1, 11);
    Sizes axes = identity_perm(rank);
    if (call.opset >= 18 && call.has(3)) axes = call.ints_of(3, "axes");
    if (given.size() != 2 * axes.size())
        Call::refuse(fmt::format("{} pads are not two for each of {} dimensions", given.size(), axes.size()));
    Sizes pads(2 * rank, 0);
    for (size_t i = 0; i < axes.size(); ++i) {
        const size_t d = call.axis(axes[i], call.rank(0));
        pads[d] = given[i];
        pads[d + rank] = given[i + axes.size()];
    }
    for (const int64_t pad : pads) {
        if (pad < -INT32_MAX || pad > INT32_MAX) Call::refuse(fmt::format("pads of {} are not taken", pad));
    }
    return pads;
}

}  // namespace kpu::onnx
