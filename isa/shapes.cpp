// Asking and checking shapes; what attributes mean for them. The rules themselves stand beside their opcodes.
#include "isa/shapes.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

template <class... Args>
[[noreturn]] void reject(fmt::format_string<Args...> text, Args&&... args) {
    throw UserError(fmt::format(text, std::forward<Args>(args)...));
}

const BoundAttr& required(const BoundAttrs& attrs, std::string_view name, std::string_view meaning) {
    const BoundAttr* attr = attrs.find(name);
    if (attr == nullptr) reject("{} is required. Fix: give {}.", name, meaning);
    return *attr;
}

const std::vector<int64_t>& ints(const BoundAttrs& attrs, std::string_view name) {
    return required(attrs, name, "a list of integers").ints;
}

/// Returns a dimension given from the front, or negative from the back.
size_t dimension(int64_t value, const Dims& shape, std::string_view name) {
    const int64_t at = value < 0 ? value + shape.rank : value;
    if (at < 0 || at >= shape.rank) {
        reject("{} {} is outside the {} dimensions of X {}. Fix: use {} to {}.", name, value, int{shape.rank},
               shape_text(shape), -int{shape.rank}, shape.rank - 1);
    }
    return static_cast<size_t>(at);
}

/// Runs a shape rule; what it refuses starts with the opcode's name.
std::vector<Dims> ruled(const ShapeCase& c) {
    const OpcodeSpec& spec = c.spec;
    try {
        if (spec.shapes == nullptr)
            reject("it has no shape rule. Fix: use an opcode of `kpusim list opcodes`.");
        const auto least = std::count_if(spec.inputs.begin(), spec.inputs.end(),
                                         [](const OperandSpec& operand) { return !operand.optional; });
        const bool enough = c.inputs() >= static_cast<size_t>(least);
        if (!enough || (!spec.variadic_inputs && c.inputs() > spec.inputs.size()))
            reject("{} inputs are given. Fix: see `kpusim list opcodes`.", c.inputs());
        return spec.shapes(c);
    } catch (const UserError& error) {
        throw UserError(fmt::format("{}: {}", spec.name, error.what()));
    }
}

}  // namespace

std::vector<Dims> infer_shapes(const OpcodeSpec& spec, const std::vector<TypedShape>& inputs,
                               const BoundAttrs& attrs) {
    return ruled(ShapeCase(spec, inputs, {}, attrs));
}

std::string check_shapes(const OpcodeSpec& spec, const std::vector<TypedShape>& inputs,
                         const std::vector<TypedShape>& outputs, const BoundAttrs& attrs) {
    const ShapeCase c(spec, inputs, outputs, attrs);
    const std::vector<Dims> expected = ruled(c);
    if (expected.size() != outputs.size()) {
        reject("{}: the attributes ask for {} outputs, {} are given. Fix: give one per entry of split_sizes.",
               spec.name, expected.size(), outputs.size());
    }
    for (size_t i = 0; i < expected.size(); ++i) {
        if (outputs[i].shape == expected[i]) continue;
        reject("{}: output {} of shape {} must be {}. Fix: change its shape.", spec.name, i,
               shape_text(outputs[i].shape), shape_text(expected[i]));
    }
    return c.warning().empty() ? std::string() : fmt::format("{}: {}", spec.name, c.warning());
}

std::string ShapeCase::input_text(size_t i) const {
    return operand_text(operand_spec(spec.inputs, i).name, inputs_[i]);
}

std::string ShapeCase::output_text() const {
    return outputs_.empty() ? std::string(spec.outputs[0].name)
                            : operand_text(spec.outputs[0].name, outputs_[0]);
}

std::string ShapeCase::operands_text() const {
    std::string text;
    for (size_t i = 0; i < 2 && i < inputs(); ++i) text += (i == 0 ? "" : ", ") + input_text(i);
    return declared() == nullptr ? text : text + ", " + output_text();
}

const BoundAttr& ShapeCase::attribute(std::string_view name) const {
    const auto named = [name](const AttrSpec& attr) { return attr.name == name; };
    const auto found = std::find_if(spec.attributes.begin(), spec.attributes.end(), named);
    if (found == spec.attributes.end()) throw InternalError("a shape rule asks for an unknown attribute");
    return required(attrs, name, found->meaning);
}

const std::vector<int64_t>& ShapeCase::ints(std::string_view name, size_t count, int64_t least) const {
    const std::vector<int64_t>& values = ints(name);
    if (values.size() != count) {
        const auto named = [name](const AttrSpec& attr) { return attr.name == name; };
        const auto found = std::find_if(spec.attributes.begin(), spec.attributes.end(), named);
        fail("{} needs {} integer{}, has {}. Fix: write {}={}.", name, count, count == 1 ? "" : "s",
             values.size(), name, found->meaning);
    }
    for (const int64_t value : values) {
        if (value < least || value > INT32_MAX)
            fail("{} has {}. Fix: use {} to {}.", name, value, least, INT32_MAX);
    }
    return values;
}

std::vector<int64_t> ShapeCase::ints_or(std::string_view name, size_t count, int64_t least,
                                        int64_t fallback) const {
    if (attrs.find(name) == nullptr) return std::vector<int64_t>(count, fallback);
    return ints(name, count, least);
}

std::string_view ShapeCase::word(std::string_view name,
                                 std::initializer_list<std::string_view> allowed) const {
    const std::string_view given = attrs.word(name, *allowed.begin());
    if (std::find(allowed.begin(), allowed.end(), given) == allowed.end())
        fail("{}={} is unknown. Fix: write one of {}.", name, given, fmt::join(allowed, ", "));
    return given;
}

size_t ShapeCase::axis() const {
    const int64_t value = attribute("axis").integer, rank = in(0).rank;
    if (value < -rank || value >= rank) {
        fail("axis is outside the {} dimensions of {}. Fix: use 0 to {} or a negative one.", rank,
             input_text(0), rank - 1);
    }
    return static_cast<size_t>(value < 0 ? value + rank : value);
}

void ShapeCase::refuse(const std::string& text) { throw UserError(text); }

std::string shape_text(const Dims& shape) {
    return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ","));
}

std::string operand_text(std::string_view name, const TypedShape& operand) {
    return fmt::format("{} {}{}", name, operand.elem == ElemType::none ? "" : name_of(operand.elem),
                       shape_text(operand.shape));
}

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
    return dimension(required(attrs, "axis", "a dimension of X").integer, shape, "axis");
}

SliceRange slice_range(int64_t size, int64_t start, int64_t end, int64_t step) {
    // forwards [0, size], backwards [-1, size - 1]
    const auto bound = [&](int64_t value) {
        const int64_t at = value < 0 ? std::max(value, -size - 1) + size : value;
        return step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    step = std::clamp<int64_t>(step, -INT32_MAX, INT32_MAX);  // no sum below overflows
    const int64_t first = bound(start), last = bound(end);
    const int64_t count = step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step;
    return {first, std::max<int64_t>(count, 0), step};
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
        const int64_t step = steps[i];
        if (step == 0 || step < -INT32_MAX || step > INT32_MAX)
            reject("steps has {}. Fix: use a step other than 0.", step);
        ranges[d] = slice_range(x[d], starts[i], ends[i], step);
        if (ranges[d].count < 1) {
            reject("the slice of dimension {} from {} to {} by {} is empty. Fix: take at least one element.",
                   d, starts[i], ends[i], step);
        }
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

ResizeRule resize_rule(const Dims& x, const Dims& y, const BoundAttrs& attrs) {
    using Coordinates = ResizeRule::Coordinates;
    constexpr std::pair<std::string_view, Coordinates> words[] = {
        {"half_pixel", Coordinates::half_pixel},
        {"align_corners", Coordinates::align_corners},
        {"asymmetric", Coordinates::asymmetric},
        {"pytorch_half_pixel", Coordinates::pytorch_half_pixel},
        {"half_pixel_symmetric", Coordinates::half_pixel_symmetric}};
    ResizeRule rule;
    const std::string_view word = attrs.word("coordinates", words[0].first);
    const auto found =
        std::find_if(std::begin(words), std::end(words), [&](const auto& row) { return row.first == word; });
    if (found == std::end(words)) {
        reject(
            "coordinates={} is unknown. Fix: write half_pixel, align_corners, asymmetric, "
            "pytorch_half_pixel or half_pixel_symmetric.",
            word);
    }
    rule.coordinates = found->second;
    if (const BoundAttr* scales = attrs.find("scales")) {
        rule.scales = scales->reals;
        rule.given = true;
    } else {
        for (size_t d = 0; d < x.rank; ++d)
            rule.scales.push_back(static_cast<double>(y[d]) / static_cast<double>(x[d]));
    }
    return rule;
}

double ResizeRule::position(size_t dimension, int64_t i, int64_t x_size, int64_t y_size) const {
    const double scale = scales[dimension], at = static_cast<double>(i);
    const auto from = static_cast<double>(x_size), to = static_cast<double>(y_size);
    const double centre = (at + 0.5) / scale - 0.5;
    const double exact = given ? scale * from : to;  // before it was rounded down to the size of Y
    switch (coordinates) {
        case Coordinates::align_corners:
            return exact <= 1 ? 0 : at * (from - 1) / (exact - 1);
        case Coordinates::asymmetric:
            // the quotient of the sizes is rounded: whole positions stay whole for `floor` without it
            return scale == to / from ? at * from / to : at / scale;
        case Coordinates::pytorch_half_pixel:
            return exact <= 1 ? 0 : centre;
        case Coordinates::half_pixel_symmetric:
            return from / 2 * (1 - to / exact) + centre;
        default:
            return centre;
    }
}

int64_t conv_groups(const OpcodeSpec& spec, const BoundAttrs& attrs, int64_t channels) {
    return spec.depthwise ? channels : attrs.integer("groups", 1);
}

}  // namespace kpu
