// Pooling, normalisations, softmax.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

/// Windows of the last position begin inside X or the padding before it when ceil_mode rounds up.
int64_t pool_positions(int64_t size, int64_t before, int64_t behind, int64_t window, int64_t step,
                       bool round_up) {
    int64_t count = window_positions(size, before, behind, window, step);
    const int64_t room = size + before + behind - window;
    if (round_up && room >= 0 && room % step != 0 && count * step < size + before) ++count;
    return count;
}

std::vector<Dims> pool_shape(const ShapeCase& c) {
    const Dims& x_shape = c.in(0);
    const Dims* declared = c.declared();
    const size_t last = x_shape.rank - 1u, spatial = x_shape.rank - 2u;
    const bool fits =
        declared == nullptr || (declared->rank == x_shape.rank && (*declared)[0] == x_shape[0] &&
                                (*declared)[last] == x_shape[last]);
    if (x_shape.rank < 3 || x_shape.rank > 5 || !fits) {
        c.fail("{} and {} must be NHWC, NWC or NDHWC with equal batch and channels. Fix: change the shapes.",
               c.input_text(0), c.output_text());
    }
    const std::vector<int64_t>& kernel = c.ints("kernel_shape", spatial, 1);
    const std::vector<int64_t>& pad = c.ints("pads", 2 * spatial, 0);
    const std::vector<int64_t>& step = c.ints("strides", spatial, 1);
    const std::vector<int64_t> dilation = c.ints_or("dilations", spatial, 1, 1);
    const bool round_up = c.attrs.integer("ceil_mode", 0) != 0;
    std::vector<int64_t> positions;
    Dims result = x_shape;
    for (size_t d = 0; d < spatial; ++d) {
        const int64_t window = dilation[d] * (kernel[d] - 1) + 1;
        if (pad[d] >= window || pad[d + spatial] >= window) {
            c.fail(
                "pads must be smaller than kernel_shape, or a window holds no element. Fix: use less "
                "padding.");
        }
        positions.push_back(
            pool_positions(x_shape[d + 1], pad[d], pad[d + spatial], window, step[d], round_up));
        result[d + 1] = positions.back();
    }
    check_window_fits(c, positions);
    if (declared != nullptr && !(*declared == result)) {
        c.fail("output {} must be {} by pads, strides and window. Fix: change its shape.", c.output_text(),
               fmt::join(positions, "x"));
    }
    return {result};
}

/// Vectors have one element per channel, the last dimension, which `groups` divides.
std::vector<Dims> group_norm_shape(const ShapeCase& c) {
    std::vector<Dims> result = {c.in(0)};
    if (c.in(0).rank < 2) c.fail("{} needs a batch and channels. Fix: reshape it.", c.input_text(0));
    if (c.declared() != nullptr && !(*c.declared() == result[0])) {
        c.fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.", c.input_text(0),
               c.output_text());
    }
    const int64_t channels = c.in(0)[c.in(0).rank - 1u], count = c.attribute("groups").integer;
    if (count < 1 || channels % count != 0) {
        c.fail("groups={} does not divide the {} channels of {}. Fix: use a divisor.", count, channels,
               c.input_text(0));
    }
    if (c.attribute("epsilon").real < 0) c.fail("epsilon is negative. Fix: use 0 or above.");
    for (size_t i = 1; i < c.inputs(); ++i) {
        if (c.in(i).rank == 1 && c.in(i)[0] == channels) continue;
        c.fail("{} must be [{}], one for each channel. Fix: change its shape.", c.input_text(i), channels);
    }
    return result;
}

std::vector<Dims> resized(const ShapeCase& c) {
    const Dims& from = c.in(0);
    Dims result;
    for (const int64_t size : c.ints("sizes", from.rank, 1)) append(c, result, size);
    if (const BoundAttr* scales = c.attrs.find("scales")) {
        const bool usable = std::all_of(scales->reals.begin(), scales->reals.end(),
                                        [](double scale) { return scale > 0 && std::isfinite(scale); });
        if (scales->reals.size() != from.rank || !usable)
            c.fail("scales must be {} numbers above 0. Fix: give one per dimension of X.", from.rank);
    }
    c.word("mode", {"nearest", "linear"});
    c.word("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
    resize_rule(from, result, c.attrs);
    return {result};
}

std::vector<Dims> norm_shape(const ShapeCase& c) {
    const Dims& x_shape = c.in(0);
    if (c.declared() != nullptr && !(*c.declared() == x_shape)) {
        c.fail("shapes must be identical, {} and {} differ. Fix: give both the same shape.", c.input_text(0),
               c.output_text());
    }
    const size_t along = c.axis();
    if (c.attribute("epsilon").real < 0) c.fail("epsilon is negative. Fix: use 0 or above.");
    for (size_t i = 1; i < c.inputs(); ++i) {
        if (c.in(i).rank == 1 && c.in(i)[0] == x_shape[along]) continue;
        c.fail("{} must be [{}], the size along axis {}. Fix: change its shape.", c.input_text(i),
               x_shape[along], along);
    }
    return {x_shape};
}

std::vector<Dims> softmax_shape(const ShapeCase& c) {
    std::vector<Dims> result = same_shape(c);
    c.axis();
    return result;
}

OpcodeSpec pool(std::string_view name, std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {
        {"kernel_shape", AttrKind::ints, true, "", "[height, width]; one or three numbers for NWC, NDHWC"},
        pads,
        strides,
        {"dilations", AttrKind::ints, false, "", "distance of a window's elements; 1 when left out"},
        {"ceil_mode", AttrKind::boolean, false, "false",
         "true: a last window may reach beyond the padding after X"}};
    row.formula = formula;
    row.op_class = OpcodeClass::pooling;
    row.family = "eltwise";
    row.types = same_numbers;
    row.shapes = pool_shape;
    row.work = WorkCount::windows;
    row.energy = per_element;
    row.traits.needs = Needs::pool;
    row.traits.grouping = Grouping::anchor;
    row.traits.strips = row.traits.requantizes = true;
    row.traits.in_steps = InSteps::smooth;
    row.traits.homogeneous = Homogeneous::first;
    return row;
}

/// Returns a function of whole rows along `axis`, read `passes` times.
OpcodeSpec row_function(std::string_view name, OpcodeClass op_class, uint32_t passes,
                        std::string_view formula) {
    OpcodeSpec row;
    row.name = name;
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {axis};
    row.formula = formula;
    row.op_class = op_class;
    row.types = same_floats;
    row.in_place_allowed = true;
    row.passes = passes;
    row.energy = special_function;
    row.traits.needs = Needs::row;
    row.traits.grouping = Grouping::anchor;
    row.traits.any_order = row.traits.strips = true;
    return row;
}

OpcodeSpec norm(std::string_view name, std::vector<OperandSpec> vectors, uint32_t passes,
                std::string_view formula) {
    OpcodeSpec row = row_function(name, OpcodeClass::norm, passes, formula);
    row.inputs.insert(row.inputs.end(), vectors.begin(), vectors.end());
    row.attributes.push_back({"epsilon", AttrKind::real, true, "", "added below the root"});
    row.family = "norm";
    row.shapes = norm_shape;
    row.traits.vectors = true;
    row.traits.finite = Finite::always;
    return row;
}

OpcodeSpec softmax(std::string_view name, std::string_view formula) {
    OpcodeSpec row = row_function(name, OpcodeClass::softmax, 3, formula);
    row.family = "softmax";
    row.shapes = softmax_shape;
    row.cycles = 2;
    return row;
}

OpcodeSpec group_norm() {
    OpcodeSpec row =
        norm("group_norm", {{"scale", true}, {"bias", true}}, 3,
             "Y = (X - mean) / sqrt(mean((X - mean)^2) + epsilon) * scale[c] + bias[c], means over each "
             "image and group of channels, the last dimension");
    row.attributes[0] = {"groups", AttrKind::integer, true, "",
                         "groups of channels; as many as channels: instance normalisation"};
    row.shapes = group_norm_shape;
    row.traits.needs = Needs::image;
    row.traits.any_order = false;
    return row;
}

OpcodeSpec resize() {
    OpcodeSpec row;
    row.name = "resize";
    row.inputs = {x};
    row.outputs = {y};
    row.attributes = {{"sizes", AttrKind::ints, true, "", "the shape of Y"},
                      {"mode", AttrKind::word, false, "nearest", "nearest, linear"},
                      {"coordinates", AttrKind::word, false, "half_pixel",
                       "half_pixel, align_corners, asymmetric, pytorch_half_pixel, half_pixel_symmetric"},
                      {"nearest_mode", AttrKind::word, false, "round_prefer_floor",
                       "round_prefer_floor, round_prefer_ceil, floor, ceil"},
                      {"scales", AttrKind::reals, false, "",
                       "per dimension, for the positions; left out: size of Y / size of X"}};
    row.formula =
        "Y[i] = X at position(i), the nearest element or linear between neighbours in each dimension; the "
        "border goes on beyond X";
    row.op_class = OpcodeClass::pooling;
    row.family = "eltwise";
    row.types = same_numbers;
    row.shapes = resized;
    row.cycles = 4;  // assumed: bilinear, a multiply-add for each of four neighbours
    row.energy = per_element;
    row.traits.needs = Needs::resized;
    row.traits.grouping = Grouping::anchor;
    row.traits.any_order = row.traits.strips = row.traits.requantizes = true;
    row.traits.in_steps = InSteps::interpolated;
    row.traits.homogeneous = Homogeneous::first;
    return row;
}

}  // namespace

void add_pools_and_norms(Table& t) {
    const OperandSpec scale{"scale", true}, bias{"bias", true};
    t.push_back(pool("maxpool", "Y[n,y,x,c] = max over the window of X, padding excluded; NHWC"));
    t.back().traits.in_steps = InSteps::moved;
    t.back().traits.of_low = OfLow::low;
    t.push_back(pool("avgpool", "Y[n,y,x,c] = mean over the window of X, padding excluded; NHWC"));
    t.back().attributes.push_back(
        {"count_include_pad", AttrKind::boolean, false, "false", "true: padding counts in the divisor"});
    t.push_back(resize());
    t.push_back(norm("layernorm", {scale, bias}, 3,
                     "Y = (X - mean) / sqrt(mean((X - mean)^2) + epsilon) * scale + bias, along axis"));
    t.push_back(norm("rmsnorm", {scale}, 2, "Y = X / sqrt(mean(X^2 along axis) + epsilon) * scale"));
    t.push_back(group_norm());
    t.push_back(softmax("softmax", "Y = exp(X - max) / sum exp(X - max), along axis"));
    t.back() = with_traits(t.back(), OfLow::never_low, Finite::always);
    t.back().traits.probabilities = true;
    t.push_back(softmax("log_softmax", "Y = (X - max) - ln(sum exp(X - max)), along axis"));
}

}  // namespace kpu::opcodes
