// Operators that move elements, reduce or search, on constants: all by flat positions.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "compiler/onnx/fold/fold.hpp"
#include "compiler/onnx/fold/shape_rules.hpp"

namespace kpu::onnx {
namespace {

Known shaped(const Known& x, Sizes shape) {
    if (elements_of(x.shape) != elements_of(shape))
        Call::refuse(fmt::format("{} cannot be reshaped to {}", text_of(x.shape), text_of(shape)));
    Known result = x;
    result.shape = std::move(shape);
    return result;
}

const Known& operand(Call& call) { return call.known(0, "operands"); }

bool reshape(Call& call) {
    const Known& x = operand(call);
    call.result(0, shaped(x, reshape_target(x.shape, call.ints_of(1, "target sizes"),
                                            call.integer("allowzero", 0) != 0)));
    return true;
}

bool squeeze(Call& call) {
    const Known& x = operand(call);
    call.result(0, shaped(x, squeezed(call, x.shape, call.ints("axes", 1, 13))));
    return true;
}

bool unsqueeze(Call& call) {
    const Known& x = operand(call);
    call.result(0, shaped(x, unsqueezed(call, x.shape, call.ints("axes", 1, 13))));
    return true;
}

/// Positions of a box: along each dimension first, first + step, ... (counts of them).
std::vector<int64_t> box(const Sizes& from, const Sizes& first, const Sizes& step, const Sizes& counts) {
    const Sizes strides = strides_of(from);
    std::vector<int64_t> positions;
    Sizes index(from.size(), 0);
    for (int64_t left = elements_of(counts); left > 0; --left) {
        int64_t at = 0;
        for (size_t d = 0; d < from.size(); ++d) at += (first[d] + index[d] * step[d]) * strides[d];
        positions.push_back(at);
        for (size_t d = from.size(); d-- > 0;) {
            if (++index[d] < counts[d]) break;
            index[d] = 0;
        }
    }
    return positions;
}

bool slice(Call& call) {
    const Known& x = operand(call);
    const SliceSpec spec = slice_spec(call);
    Sizes first(x.shape.size(), 0), steps(x.shape.size(), 1), counts = x.shape;
    for (size_t i = 0; i < spec.axes.size(); ++i) {
        const auto d = static_cast<size_t>(spec.axes[i]);
        const int64_t size = x.shape[d], step = spec.steps[i];
        const auto bound = [&](int64_t value) {
            const int64_t at = value < 0 ? std::max(value, -size - 1) + size : value;
            return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
        };
        const int64_t start = bound(spec.starts[i]), end = bound(spec.ends[i]);
        first[d] = start;
        steps[d] = step;
        counts[d] = std::max<int64_t>(
            0, step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step);
    }
    call.result(0, picked(x, counts, box(x.shape, first, steps, counts)));
    return true;
}

bool split(Call& call) {
    const Known& x = operand(call);
    const size_t axis = call.axis("axis", 0, call.rank(0));
    Sizes first(x.shape.size(), 0), counts = x.shape;
    const Sizes sizes = split_sizes(call, x.shape[axis]);
    for (size_t i = 0; i < sizes.size(); ++i) {
        counts[axis] = sizes[i];
        call.result(i, picked(x, counts, box(x.shape, first, Sizes(x.shape.size(), 1), counts)));
        first[axis] += sizes[i];
    }
    return true;
}

bool concat(Call& call) {
    const size_t axis = call.axis("axis", 0, call.rank(0));
    Known all{call.type(0), call.shape(0), {}, {}};
    all.shape[axis] = 0;
    for (size_t i = 0; i < call.inputs(); ++i) {
        const Known& part = call.known(i, "operands");
        Sizes rest = part.shape;
        if (rest.size() == all.shape.size()) rest[axis] = 0;
        Sizes wanted = all.shape;
        wanted[axis] = 0;
        if (rest != wanted || part.type != all.type) Call::refuse("its operands do not fit together");
        all.shape[axis] += part.shape[axis];
    }
    int64_t outer = 1;
    for (size_t d = 0; d < axis; ++d) outer *= all.shape[d];
    for (int64_t row = 0; row < outer; ++row) {
        for (size_t i = 0; i < call.inputs(); ++i) {
            const Known& part = call.known(i, "operands");
            const auto each = static_cast<int64_t>(part.size()) / std::max<int64_t>(outer, 1);
            const auto copy = [&](const auto& from, auto& to) {
                if (!from.empty())
                    to.insert(to.end(), from.begin() + row * each, from.begin() + (row + 1) * each);
            };
            copy(part.ints, all.ints);
            copy(part.reals, all.reals);
        }
    }
    call.result(0, std::move(all));
    return true;
}

bool gather(Call& call) {
    const Known& x = operand(call);
    const Sizes indices = call.ints_of(1, "indices");
    const size_t axis = call.axis("axis", 0, call.rank(0));
    const Sizes& of = call.shape(1);
    Sizes shape(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(axis));
    shape.insert(shape.end(), of.begin(), of.end());
    shape.insert(shape.end(), x.shape.begin() + static_cast<int64_t>(axis) + 1, x.shape.end());
    const int64_t size = x.shape[axis], inner = strides_of(x.shape)[axis];
    const int64_t outer = size == 0 ? 0 : static_cast<int64_t>(x.size()) / size / std::max<int64_t>(inner, 1);
    std::vector<int64_t> positions;
    for (int64_t row = 0; row < outer; ++row) {
        for (const int64_t index : indices) {
            const int64_t at = index < 0 ? index + size : index;
            if (at < 0 || at >= size)
                Call::refuse(fmt::format("its index {} is outside {} elements", index, size));
            for (int64_t i = 0; i < inner; ++i) positions.push_back((row * size + at) * inner + i);
        }
    }
    call.result(0, picked(x, shape, positions));
    return true;
}

bool transpose(Call& call) {
    const Known& x = operand(call);
    const Sizes perm = transpose_perm(call), strides = strides_of(x.shape);
    Sizes shape, moved;
    for (const int64_t d : perm) {
        shape.push_back(x.shape[static_cast<size_t>(d)]);
        moved.push_back(strides[static_cast<size_t>(d)]);
    }
    std::vector<int64_t> positions;
    Sizes index(shape.size(), 0);
    for (size_t i = 0; i < x.size(); ++i) {
        positions.push_back(std::inner_product(index.begin(), index.end(), moved.begin(), int64_t{0}));
        for (size_t d = shape.size(); d-- > 0;) {
            if (++index[d] < shape[d]) break;
            index[d] = 0;
        }
    }
    call.result(0, picked(x, shape, positions));
    return true;
}

bool expand(Call& call) {
    const Known& x = operand(call);
    const Sizes shape = broadcast_of(x.shape, call.ints_of(1, "target sizes"));
    call.result(0, picked(x, shape, broadcast_positions(x.shape, shape)));
    return true;
}

bool tile(Call& call) {
    const Known& x = operand(call);
    const Sizes repeats = call.ints_of(1, "repetitions");
    if (repeats.size() != x.shape.size()) Call::refuse("it needs as many repetitions as dimensions");
    Sizes in_front, both;  // [1, size] each, expanded to [times, size]
    Sizes shape = x.shape;
    for (size_t d = 0; d < repeats.size(); ++d) {
        if (repeats[d] < 0) Call::refuse("it repeats a negative number of times");
        in_front.insert(in_front.end(), {1, x.shape[d]});
        both.insert(both.end(), {repeats[d], x.shape[d]});
        shape[d] *= repeats[d];
    }
    call.result(0, picked(x, shape, broadcast_positions(in_front, both)));
    return true;
}

/// Sums, products, extremes of integers along axes.
bool reduce(Call& call) {
    const Known& x = operand(call);
    if (x.real() || x.size() == 0) return false;
    const std::string& type = call.node.type;
    Sizes axes = call.ints("axes", 1, type == "ReduceSum" ? 13 : 18);
    if (axes.empty()) axes = identity_perm(x.shape.size());
    Sizes kept = x.shape, result_shape;
    for (const int64_t axis : axes) kept[call.axis(axis, call.rank(0))] = 1;
    for (size_t d = 0; d < kept.size(); ++d) {
        const bool gone = std::any_of(axes.begin(), axes.end(),
                                      [&](int64_t axis) { return call.axis(axis, call.rank(0)) == d; });
        if (!gone || call.integer("keepdims", 1) != 0) result_shape.push_back(kept[d]);
    }
    const std::vector<int64_t> target = broadcast_positions(kept, x.shape);
    std::vector<bool> begun(static_cast<size_t>(elements_of(kept)), false);
    Known result{x.type, result_shape, Sizes(begun.size(), type == "ReduceProd" ? 1 : 0), {}};
    for (size_t i = 0; i < target.size(); ++i) {
        const auto at = static_cast<size_t>(target[i]);
        int64_t& to = result.ints[at];
        const int64_t value = x.ints[i];
        if (type == "ReduceSum" && __builtin_add_overflow(to, value, &to)) Call::refuse("its sum overflows");
        if (type == "ReduceProd" && __builtin_mul_overflow(to, value, &to))
            Call::refuse("its product overflows");
        if (type == "ReduceMax") to = begun[at] ? std::max(to, value) : value;
        if (type == "ReduceMin") to = begun[at] ? std::min(to, value) : value;
        begun[at] = true;
    }
    call.result(0, std::move(result));
    return true;
}

bool cumulative_sum(Call& call) {
    const Known& x = operand(call);
    if (x.real() || call.integer("exclusive", 0) != 0 || call.integer("reverse", 0) != 0) return false;
    const size_t axis = call.axis(call.integer_of(1, "axes"), call.rank(0));
    const auto stride = static_cast<size_t>(strides_of(x.shape)[axis]),
               size = static_cast<size_t>(x.shape[axis]);
    Known result = x;
    for (size_t i = 0; i < result.ints.size(); ++i) {
        if (i / stride % size == 0) continue;
        if (__builtin_add_overflow(result.ints[i], result.ints[i - stride], &result.ints[i]))
            Call::refuse("its sum overflows");
    }
    call.result(0, std::move(result));
    return true;
}

bool non_zero(Call& call) {
    const Known& x = operand(call);
    const Sizes strides = strides_of(x.shape);
    std::vector<int64_t> found;
    for (size_t i = 0; i < x.size(); ++i) {
        if (x.number(i) != 0) found.push_back(static_cast<int64_t>(i));
    }
    Known result{
        Type::i64, {static_cast<int64_t>(x.shape.size()), static_cast<int64_t>(found.size())}, {}, {}};
    for (size_t d = 0; d < x.shape.size(); ++d) {
        for (const int64_t at : found) result.ints.push_back(at / strides[d] % x.shape[d]);
    }
    call.result(0, std::move(result));
    return true;
}

/// torch.repeat_interleave makes counts so.
bool one_hot(Call& call) {
    const Known &at = operand(call), &values = call.known(2, "values");
    const int64_t depth = call.integer_of(1, "depths");
    if (at.real() || depth < 1 || values.shape != Sizes{2}) return false;
    const size_t axis = call.axis("axis", -1, call.rank(0) + 1);
    Sizes shape = at.shape;
    shape.insert(shape.begin() + static_cast<int64_t>(axis), depth);
    Call::check_made(shape);
    const int64_t behind = elements_of({at.shape.begin() + static_cast<int64_t>(axis), at.shape.end()});
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < elements_of(shape); ++i) {
        const int64_t place = i / behind % depth, from = i / behind / depth * behind + i % behind;
        const int64_t index = at.ints[static_cast<size_t>(from)];
        chosen.push_back(index == place || index + depth == place ? 1 : 0);
    }
    call.result(0, picked(values, std::move(shape), chosen));
    return true;
}

struct MovingFold {
    std::string_view type;
    Folder fold;
};

constexpr MovingFold moving_folds[] = {
    {"Reshape", reshape},  {"Squeeze", squeeze},   {"Unsqueeze", unsqueeze}, {"Slice", slice},
    {"Split", split},      {"Concat", concat},     {"Gather", gather},       {"Transpose", transpose},
    {"Expand", expand},    {"Tile", tile},         {"NonZero", non_zero},    {"CumSum", cumulative_sum},
    {"ReduceSum", reduce}, {"ReduceProd", reduce}, {"ReduceMax", reduce},    {"ReduceMin", reduce},
    {"OneHot", one_hot},
};

}  // namespace

Folder find_moving_folder(std::string_view type) {
    const auto* found = std::find_if(std::begin(moving_folds), std::end(moving_folds),
                                     [&](const MovingFold& row) { return row.type == type; });
    return found == std::end(moving_folds) ? nullptr : found->fold;
}

}  // namespace kpu::onnx
