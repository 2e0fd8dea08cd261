// Resize, Upsample. The opcode knows nearest and linear; what it does not is a product with a constant matrix
// along each dimension: weights of the input's elements for each output's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "compiler/onnx/moves/indexing.hpp"
#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

struct Resize {
    Sizes sizes;                       ///< sizes of the result
    std::vector<double> scales;        ///< scales of each dimension
    std::vector<double> starts, ends;  ///< the region of interest of tf_crop_and_resize
    std::string mode, coordinates, nearest;
    double cubic = -0.75;
    bool exclude_outside = false, antialias = false;
};

void take_scales(Resize& r, const Sizes& shape, const std::vector<size_t>& axes, const Known& given) {
    if (given.size() != axes.size()) Call::refuse(fmt::format("it needs {} scales", axes.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
        const size_t d = axes[i];
        r.scales[d] = given.number(i);
        // the product of two f32, as ONNX defines it: 0.7, which lies below 7 / 10 in f32, makes 14 of 20
        const float size = std::floor(static_cast<float>(shape[d]) * static_cast<float>(r.scales[d]));
        if (!(size >= 1) || size > static_cast<float>(INT32_MAX))
            Call::refuse(fmt::format("a scale of {} is not taken", r.scales[d]));
        r.sizes[d] = static_cast<int64_t>(size);
    }
}

void take_sizes(Resize& r, const Call& call, const Sizes& shape, const std::vector<size_t>& axes,
                const Sizes& given) {
    if (given.size() != axes.size()) Call::refuse(fmt::format("it needs {} sizes", axes.size()));
    const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
    double common = policy == "not_larger" ? INFINITY : 0;
    for (size_t i = 0; i < axes.size(); ++i) {
        if (given[i] < 1 || given[i] > INT32_MAX)
            Call::refuse(fmt::format("a size of {} is not taken", given[i]));
        const double scale = static_cast<double>(given[i]) / static_cast<double>(shape[axes[i]]);
        common = policy == "not_larger" ? std::min(common, scale) : std::max(common, scale);
        r.scales[axes[i]] = scale;
        r.sizes[axes[i]] = given[i];
    }
    if (policy == "stretch") return;
    for (const size_t d : axes) {
        r.scales[d] = common;
        r.sizes[d] = static_cast<int64_t>(std::floor(common * static_cast<double>(shape[d]) + 0.5));
    }
}

/// Returns the nearest mode of opsets before 11: the nearest element lies before the position where a
/// dimension grows, and after it where it shrinks.
std::string nearest_before_11(const std::vector<double>& scales) {
    const bool shrinks = std::any_of(scales.begin(), scales.end(), [](double scale) { return scale < 1; });
    const bool grows = std::any_of(scales.begin(), scales.end(), [](double scale) { return scale > 1; });
    return shrinks && grows ? "by_dimension" : shrinks ? "ceil" : "floor";
}

Resize resize_of(Call& call) {
    const Sizes shape = call.shape(0);
    const size_t rank = shape.size();
    Resize r{shape,
             std::vector<double>(rank, 1),
             std::vector<double>(rank, 0),
             std::vector<double>(rank, 1),
             {},
             {},
             {}};
    r.mode = call.text("mode", "nearest");
    r.nearest = call.text("nearest_mode", "round_prefer_floor");
    r.coordinates = call.text("coordinate_transformation_mode", "half_pixel");
    r.cubic = call.real("cubic_coeff_a", -0.75);
    r.exclude_outside = call.integer("exclude_outside", 0) != 0;
    r.antialias = call.integer("antialias", 0) != 0;
    std::vector<size_t> axes;
    for (const int64_t axis : call.ints("axes", identity_perm(rank)))
        axes.push_back(call.axis(axis, call.rank(0)));
    const bool upsample = call.node.type == "Upsample";
    if (upsample || call.opset < 11) {  // no coordinates yet
        r.coordinates = "asymmetric";
        if (r.mode == "bilinear") r.mode = "linear";
        if (upsample && call.opset < 9) {
            const Attribute* scales = call.node.find("scales");
            if (scales == nullptr) Call::refuse("it has no scales");
            take_scales(r, shape, axes, Known{Type::f32, {}, {}, scales->reals});
        } else {
            take_scales(r, shape, axes, call.known(1, "scales"));
        }
        r.nearest = nearest_before_11(r.scales);
        return r;
    }
    if (call.has(1) && r.coordinates == "tf_crop_and_resize") {
        const Known& roi = call.known(1, "regions");
        if (roi.size() != 2 * axes.size()) Call::refuse("its region does not fit");
        for (size_t i = 0; i < axes.size(); ++i) {
            r.starts[axes[i]] = roi.number(i);
            r.ends[axes[i]] = roi.number(i + axes.size());
            if (!(std::fabs(r.starts[axes[i]]) < 1e6 && std::fabs(r.ends[axes[i]]) < 1e6))
                Call::refuse("its region lies too far outside");
        }
    }
    if (call.has(3)) {
        take_sizes(r, call, shape, axes, call.ints_of(3, "sizes"));
    } else {
        take_scales(r, shape, axes, call.known(2, "scales"));
    }
    return r;
}

/// Returns the position in the input of element i of the output.
template <class Real>
Real place(const Resize& r, size_t d, int64_t size, int64_t i) {
    const Real scale = static_cast<Real>(r.scales[d]), at = static_cast<Real>(i),
               in = static_cast<Real>(size), one = 1, half = Real(0.5), count = static_cast<Real>(r.sizes[d]);
    // where the size was given, the product with the scale made from it is that size, but for the rounding of f32
    const bool sized = std::is_same_v<Real, float> && std::fabs(scale * in - count) < count / (1 << 20);
    const Real out = sized ? count : scale * in;
    if (r.coordinates == "align_corners") return out == one ? 0 : at * (in - one) / (out - one);
    if (r.coordinates == "asymmetric") return at / scale;
    if (r.coordinates == "pytorch_half_pixel" && r.sizes[d] == 1) return 0;
    if (r.coordinates == "tf_crop_and_resize") {
        const Real from = static_cast<Real>(r.starts[d]), to = static_cast<Real>(r.ends[d]);
        return r.sizes[d] > 1 ? from * (in - one) + at * (to - from) * (in - one) / (count - one)
                              : half * (from + to) * (in - one);
    }
    if (r.coordinates == "half_pixel_symmetric")
        return in * half * (one - count / out) + (at + half) / scale - half;
    if (r.coordinates != "half_pixel" && r.coordinates != "pytorch_half_pixel")
        Call::refuse(fmt::format("coordinates {} are not known", r.coordinates));
    return (at + half) / scale - half;
}

/// Returns a position. Which element is the nearest is decided in f32, as ONNX Runtime and the reference of
/// ONNX do it; weights are made in binary64.
template <class Real>
double position(const Resize& r, size_t d, int64_t size, int64_t i) {
    return static_cast<double>(place<Real>(r, d, size, i));
}

/// Returns the weight of an element at a distance.
double kernel(const Resize& r, double x) {
    const double a = r.cubic, t = std::fabs(x);
    if (r.mode == "linear") return std::max(0.0, 1 - t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/// Returns the nearest element. In f32 3.4999998 is in the middle, as ONNX Runtime has it; in binary64 what
/// lies beside it does, as the opcode has it.
template <class Real>
int64_t nearest_element(const Resize& r, size_t d, int64_t size, int64_t i) {
    constexpr double rounding = std::is_same_v<Real, float> ? 1e-6 : 0;
    const double at = position<Real>(r, d, size, i);
    const double low = std::floor(at);
    double chosen = low;
    if (r.nearest == "ceil" || (r.nearest == "by_dimension" && r.scales[d] < 1)) chosen = std::ceil(at);
    if (r.nearest == "round_prefer_floor") chosen = at - low <= 0.5 + rounding ? low : low + 1;
    if (r.nearest == "round_prefer_ceil") chosen = at - low < 0.5 - rounding ? low : low + 1;
    return static_cast<int64_t>(chosen);
}

template <class Real>
std::vector<int64_t> nearest_elements(const Resize& r, size_t d, int64_t size) {
    Call::check_made({r.sizes[d]});
    std::vector<int64_t> result;
    for (int64_t i = 0; i < r.sizes[d]; ++i)
        result.push_back(std::clamp<int64_t>(nearest_element<Real>(r, d, size, i), 0, size - 1));
    return result;
}

/// Returns weights [size, count]: column i has the weights of output i.
Known weights(const Resize& r, size_t d, int64_t size) {
    const int64_t count = r.sizes[d];
    if (size > (1 << 24) / count) Call::refuse("it is too large for a product");
    Known matrix{Type::f64, {size, count}, {}, std::vector<double>(static_cast<size_t>(size * count), 0)};
    const auto cell = [&](int64_t element, int64_t i) -> double& {
        return matrix.reals[static_cast<size_t>(std::clamp<int64_t>(element, 0, size - 1) * count + i)];
    };
    const double spread = r.antialias ? std::min(1.0, r.scales[d]) : 1;  // wider when it shrinks
    const double reach = (r.mode == "linear" ? 1 : 2) / spread;
    for (int64_t i = 0; i < count; ++i) {
        const double at =
            r.mode == "nearest" ? position<float>(r, d, size, i) : position<double>(r, d, size, i);
        if (r.coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(size - 1))) continue;
        if (r.mode == "nearest") {
            cell(nearest_element<float>(r, d, size, i), i) = 1;
            continue;
        }
        double sum = 0;
        std::vector<std::pair<int64_t, double>> taps;
        for (auto e = static_cast<int64_t>(std::floor(at - reach));
             e <= static_cast<int64_t>(std::ceil(at + reach)); ++e) {
            const double weight = kernel(r, (static_cast<double>(e) - at) * spread);
            if (weight == 0 || (r.exclude_outside && (e < 0 || e >= size))) continue;
            taps.emplace_back(e, weight);
            sum += weight;
        }
        for (const auto& [element, weight] : taps) cell(element, i) += weight / sum;
    }
    return matrix;
}

/// Returns a product along one dimension.
ValueId along(Call& call, ValueId x, size_t d, const Known& matrix) {
    const Sizes perm = swapped_perm(call.sizes(x).size(), d, call.sizes(x).size() - 1);
    x = call.transpose(x, perm);
    return call.transpose(matmul(call, x, call.constant(matrix, call.elem(x))), perm);
}

/// Replaces elements where tf_crop_and_resize lies outside the input, in any dimension.
ValueId outside_replaced(Call& call, ValueId y, const Resize& r, const Sizes& shape) {
    const double value = call.real("extrapolation_value", 0);
    for (size_t d = 0; d < shape.size(); ++d) {
        Sizes places(shape.size(), 1);
        places[d] = r.sizes[d];
        Call::check_made(places);
        Known inside{Type::boolean, places, {}, {}};
        for (int64_t i = 0; i < r.sizes[d]; ++i) {
            const double at = position<double>(r, d, shape[d], i);
            inside.ints.push_back(at >= 0 && at <= static_cast<double>(shape[d] - 1) ? 1 : 0);
        }
        y = call.emit("where", {call.constant(inside, ElemType::u8), y, call.number(value, call.elem(y))}, {},
                      call.elem(y));
    }
    return y;
}

bool opcode_knows(const Resize& r, const Sizes& shape) {
    for (size_t d = 0; d < shape.size() && r.mode == "nearest" && r.coordinates != "tf_crop_and_resize";
         ++d) {
        if (nearest_elements<float>(r, d, shape[d]) != nearest_elements<double>(r, d, shape[d])) return false;
    }
    if (r.nearest == "by_dimension") return false;
    // the opcode looks at the exact length of a result, ONNX Runtime at the whole one
    for (size_t d = 0; d < r.sizes.size(); ++d) {
        if (r.coordinates == "pytorch_half_pixel" && r.sizes[d] == 1 && r.scales[d] != 1) return false;
    }
    return (r.mode == "nearest" || (r.mode == "linear" && !r.antialias && !r.exclude_outside)) &&
           r.coordinates != "tf_crop_and_resize" && find_opcode("resize");
}

void resize(Call& call) {
    const Sizes shape = call.shape(0);
    const Resize r = resize_of(call);
    ValueId x = call.value(0);
    if (opcode_knows(r, shape)) {
        BoundAttr scales;
        scales.name = "scales";
        scales.reals = r.scales;
        return call.result(call.emit(
            "resize", {x},
            {graph::ints("sizes", r.sizes), graph::word("mode", r.mode),
             graph::word("coordinates", r.coordinates), graph::word("nearest_mode", r.nearest), scales}));
    }
    if (r.mode == "nearest" && r.coordinates != "tf_crop_and_resize") {  // positions that the opcode has not
        for (size_t d = 0; d < shape.size(); ++d) {
            if (r.sizes[d] == shape[d] && r.scales[d] == 1) continue;
            const ValueId places =
                positions_constant(call, nearest_elements<float>(r, d, shape[d]), {r.sizes[d]});
            x = gathered(call, x, places, static_cast<int64_t>(d));
        }
        return call.result(x);
    }
    if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
        Call::refuse(fmt::format("mode {} is not known", r.mode));
    if (!is_float(call.elem(x))) Call::refuse("it is a product with weights, which integers have not");
    for (size_t d = 0; d < shape.size(); ++d) {
        if (r.sizes[d] == shape[d] && r.scales[d] == 1 && r.coordinates != "tf_crop_and_resize") continue;
        x = along(call, x, d, weights(r, d, shape[d]));
    }
    call.result(r.coordinates == "tf_crop_and_resize" ? outside_replaced(call, x, r, shape) : x);
}

}  // namespace

void add_resizes(Operators& t) {
    t.push_back({"Upsample", resize, 7, 9});
    t.push_back({"Resize", resize, 10});
}

}  // namespace kpu::onnx
