// Shapes of views and reductions: the rules that the verifier and the value engines share.
#include "isa/output_shapes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
    throw UserError(fmt::format(text, std::forward<Args>(args)...));
}

std::string text_of(const Dims& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

const std::vector<int64_t>& ints(const BoundAttrs& attrs, std::string_view name) {
    const BoundAttr* attr = attrs.find(name);
    if (attr == nullptr) reject("{} is required. Fix: give a list of integers.", name);
    return attr->ints;
}

/// A dimension given from the front, or negative from the back.
size_t dimension(int64_t value, const Dims& shape, std::string_view name) {
    const int64_t at = value < 0 ? value + shape.rank : value;
    if (at < 0 || at >= shape.rank) {
        reject("{} {} is outside the {} dimensions of X {}. Fix: use {} to {}.", name, value, int{shape.rank},
               text_of(shape), -int{shape.rank}, shape.rank - 1);
    }
    return static_cast<size_t>(at);
}

void append(Dims& shape, int64_t size) {
    if (shape.rank == max_rank) reject("the result has more than {} dimensions. Fix: reshape X.", max_rank);
    shape[shape.rank++] = size;
}

Dims transposed(const Dims& x, const BoundAttrs& attrs) {
    const std::vector<int64_t>& perm = ints(attrs, "perm");
    std::vector<int64_t> sorted = perm;
    std::sort(sorted.begin(), sorted.end());
    bool permutation = sorted.size() == x.rank;
    for (size_t d = 0; permutation && d < sorted.size(); ++d)
        permutation = sorted[d] == static_cast<int64_t>(d);
    if (!permutation) {
        reject("perm=[{}] is no permutation of the dimensions of X {}. Fix: name each of 0 to {} once.",
               fmt::join(perm, ","), text_of(x), x.rank - 1);
    }
    Dims y;
    for (const int64_t from : perm) append(y, x[static_cast<size_t>(from)]);
    return y;
}

Dims reshaped(const Dims& x, const BoundAttrs& attrs) {
    const std::vector<int64_t>& target = ints(attrs, "target_shape");
    Dims y;
    int64_t known = 1;
    int free = -1;
    for (const int64_t size : target) {
        if (size == -1 && free < 0) {
            free = y.rank;
        } else if (size < 1 || size > x.product()) {
            reject(
                "target_shape=[{}] does not hold the {} elements of X. Fix: use sizes of 1 or more, and "
                "at most one -1.",
                fmt::join(target, ","), x.product());
        } else {
            known = std::min(known * size, x.product() + 1);
        }
        append(y, size);
    }
    if (free >= 0) {
        y[static_cast<size_t>(free)] = x.product() / known;
        known *= x.product() / known;
    }
    if (target.empty() || known != x.product()) {
        reject("target_shape=[{}] does not hold the {} elements of X. Fix: preserve the number of elements.",
               fmt::join(target, ","), x.product());
    }
    return y;
}

Dims concatenated(const std::vector<Dims>& inputs, const BoundAttrs& attrs) {
    const size_t axis = axis_of(inputs[0], attrs);
    Dims y = inputs[0];
    for (size_t i = 1; i < inputs.size(); ++i) {
        Dims other = inputs[i];
        const bool same_rank = other.rank == y.rank;
        if (same_rank) {
            y[axis] += other[axis];
            other[axis] = inputs[0][axis];
        }
        if (!same_rank || !(other == inputs[0])) {
            reject("shapes must be equal but for axis {}: {} and {} differ. Fix: make them equal.", axis,
                   text_of(inputs[0]), text_of(inputs[i]));
        }
    }
    return y;
}

std::vector<Dims> parts(const Dims& x, const BoundAttrs& attrs) {
    const size_t axis = axis_of(x, attrs);
    const std::vector<int64_t>& sizes = ints(attrs, "split_sizes");
    std::vector<Dims> result;
    int64_t sum = 0;
    for (const int64_t size : sizes) {
        if (size < 1 || size > x[axis]) {
            reject("split_sizes=[{}] holds {}. Fix: use sizes of 1 or more that sum to {}.",
                   fmt::join(sizes, ","), size, x[axis]);
        }
        sum += size;
        result.push_back(x);
        result.back()[axis] = size;
    }
    if (sum != x[axis]) {
        reject("split_sizes=[{}] sum to {}, X has {} along axis {}. Fix: split all of it.",
               fmt::join(sizes, ","), sum, x[axis], axis);
    }
    return result;
}

Dims padded(const Dims& x, const BoundAttrs& attrs) {
    const std::vector<int64_t>& pads = ints(attrs, "pads");
    if (pads.size() != 2u * x.rank) {
        reject(
            "pads needs {} integers for X {}, has {}. Fix: give those before each dimension, then those "
            "behind.",
            2 * x.rank, text_of(x), pads.size());
    }
    const BoundAttr* mode = attrs.find("mode");
    const std::string name = mode == nullptr ? "" : mode->text;
    if (name != "constant" && name != "edge" && name != "reflect")
        reject("mode={} is unknown. Fix: write constant, edge or reflect.", name);
    Dims y = x;
    for (size_t d = 0; d < x.rank; ++d) {
        for (const int64_t pad : {pads[d], pads[d + x.rank]}) {
            if (pad < 0 || pad > INT32_MAX) reject("pads has {}. Fix: use 0 or more.", pad);
            if (name == "reflect" && pad >= x[d]) {
                reject("pads has {}, mode reflect takes at most {} along dimension {}. Fix: use less.", pad,
                       x[d] - 1, d);
            }
            y[d] += pad;
        }
    }
    return y;
}

Dims gathered(const Dims& x, const Dims& indices, const BoundAttrs& attrs) {
    const size_t axis = axis_of(x, attrs);
    Dims y;
    for (size_t d = 0; d < axis; ++d) append(y, x[d]);
    for (const int64_t size : indices) append(y, size);
    for (size_t d = axis + 1; d < x.rank; ++d) append(y, x[d]);
    return y;
}

Dims reduced(const Dims& x, const std::vector<bool>& axes, const BoundAttrs& attrs) {
    const bool keep = attrs.integer("keepdims", 0) != 0;
    Dims y;
    for (size_t d = 0; d < x.rank; ++d) {
        if (!axes[d] || keep) append(y, axes[d] ? 1 : x[d]);
    }
    if (y.rank == 0) append(y, 1);  // the language has no scalars
    return y;
}

}  // namespace

Dims row_major(const Dims& shape) {
    Dims strides;
    strides.rank = shape.rank;
    int64_t stride = 1;
    for (size_t d = shape.rank; d-- > 0;) {
        strides[d] = stride;
        stride *= shape[d];
    }
    return strides;
}

size_t axis_of(const Dims& shape, const BoundAttrs& attrs) {
    const BoundAttr* attr = attrs.find("axis");
    if (attr == nullptr) reject("axis is required. Fix: name a dimension of X.");
    return dimension(attr->integer, shape, "axis");
}

std::vector<SliceRange> slice_ranges(const Dims& x, const BoundAttrs& attrs) {
    const std::vector<int64_t>&starts = ints(attrs, "starts"), &ends = ints(attrs, "ends"),
          &axes = ints(attrs, "axes"), &steps = ints(attrs, "steps");
    if (starts.size() != axes.size() || ends.size() != axes.size() || steps.size() != axes.size())
        reject("starts, ends, axes and steps need equal lengths. Fix: give one of each per axis.");
    std::vector<SliceRange> ranges;
    for (const int64_t size : x) ranges.push_back({0, size, 1});
    std::vector<bool> seen(x.rank, false);
    for (size_t i = 0; i < axes.size(); ++i) {
        const size_t d = dimension(axes[i], x, "axis");
        if (seen[d]) reject("axes names dimension {} twice. Fix: name it once.", d);
        seen[d] = true;
        const int64_t size = x[d], step = steps[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
            reject("steps has {}. Fix: use a step other than 0.", step);
        // forwards [0, size], backwards [-1, size - 1]
        const auto bound = [&](int64_t value) {
            const int64_t at = value < 0 ? std::max(value, -size - 1) + size : value;
            return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
        };
        const int64_t first = bound(starts[i]), last = bound(ends[i]);
        const int64_t count = step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step;
        if (count < 1) {
            reject("the slice of dimension {} from {} to {} by {} is empty. Fix: take at least one element.",
                   d, starts[i], ends[i], step);
        }
        ranges[d] = {first, count, step};
    }
    return ranges;
}

std::vector<bool> reduced_axes(const Dims& x, const BoundAttrs& attrs) {
    const std::vector<int64_t>& axes = ints(attrs, "axes");
    if (axes.empty()) reject("axes is empty. Fix: name the dimensions to reduce.");
    std::vector<bool> result(x.rank, false);
    for (const int64_t axis : axes) {
        const size_t d = dimension(axis, x, "axis");
        if (result[d]) reject("axes names dimension {} twice. Fix: name it once.", d);
        result[d] = true;
    }
    return result;
}

std::vector<Dims> output_shapes(const OpcodeSpec& spec, const std::vector<Dims>& inputs,
                                const BoundAttrs& attrs) {
    const Dims& x = inputs.at(0);
    if (spec.name == "transpose") return {transposed(x, attrs)};
    if (spec.name == "reshape") return {reshaped(x, attrs)};
    if (spec.name == "concat") return {concatenated(inputs, attrs)};
    if (spec.name == "split") return parts(x, attrs);
    if (spec.name == "pad") return {padded(x, attrs)};
    if (spec.name == "gather") return {gathered(x, inputs.at(1), attrs)};
    if (spec.name == "slice") {
        Dims y = x;
        const std::vector<SliceRange> ranges = slice_ranges(x, attrs);
        for (size_t d = 0; d < x.rank; ++d) y[d] = ranges[d].count;
        return {y};
    }
    if (spec.op_class != OpcodeClass::reduction) throw InternalError("no shape rule for this opcode");
    if (spec.family == "reduce") return {reduced(x, reduced_axes(x, attrs), attrs)};
    std::vector<bool> axes(x.rank, false);
    axes[axis_of(x, attrs)] = true;
    return {reduced(x, axes, attrs)};
}

void check_output_shapes(const OpcodeSpec& spec, const std::vector<Dims>& inputs,
                         const std::vector<Dims>& outputs, const BoundAttrs& attrs) {
    const std::vector<Dims> expected = output_shapes(spec, inputs, attrs);
    if (expected.size() != outputs.size()) {
        reject("the attributes ask for {} outputs, {} are given. Fix: give one per entry of split_sizes.",
               expected.size(), outputs.size());
    }
    for (size_t i = 0; i < expected.size(); ++i) {
        if (outputs[i] == expected[i]) continue;
        reject("output {} of shape {} must be {}. Fix: change its shape.", i, text_of(outputs[i]),
               text_of(expected[i]));
    }
}

}  // namespace kpu
