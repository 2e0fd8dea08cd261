// Windows and places of pictures in an exported model: pools, resizes, samples.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/export/export_node.hpp"

namespace kpu::quantize {
namespace {

/// Returns pads at the end that make the pool as long as it is without ceil_mode, of whose dropped windows
/// ONNX's inference of shapes does not know.
Sizes pads_rounded_up(const ExportedNode& n, Sizes pads, const Dims& shape) {
    const size_t spatial = n.rank() - 2;
    for (size_t d = 0; d < spatial; ++d) {
        const int64_t dilation = n.node.attrs.find("dilations") == nullptr ? 1 : n.ints("dilations")[d];
        const int64_t end = (n.out().shape[d + 1] - 1) * n.ints("strides")[d] +
                            dilation * (n.ints("kernel_shape")[d] - 1) + 1;
        pads[d + spatial] = std::max<int64_t>(0, end - shape[d + 1] - pads[d]);
    }
    return pads;
}

void pool(ExportedNode& n, const char* op_type) {
    const size_t spatial = n.rank() - 2;
    std::string x = n.transposed(n.x(), channels_first(n.rank()));
    Sizes pads = n.ints("pads");
    bool counts_pads = n.integer("count_include_pad") != 0;
    if (n.integer("ceil_mode") != 0) {
        Dims shape = n.shape();
        if (counts_pads) {  // but not what is beyond
            Sizes around(2 * n.rank(), 0);
            for (size_t d = 0; d < spatial; ++d) {
                shape[d + 1] += pads[d] + pads[d + spatial];
                around[d + 2] = std::exchange(pads[d], 0);
                around[n.rank() + d + 2] = pads[d + spatial];
            }
            x = n.op("Pad", {x, n.integers(around)});
            counts_pads = false;
        }
        pads = pads_rounded_up(n, pads, shape);
    }
    std::vector<OnnxWriter::Attribute> attributes = n.attributes({"kernel_shape", "strides", "dilations"});
    attributes.push_back(OnnxWriter::list("pads", pads));
    if (counts_pads) attributes.push_back(OnnxWriter::integer("count_include_pad", 1));
    n.result(n.transposed(n.op(op_type, {x}, attributes), channels_last(n.rank())));
}

// ---- resizes

struct Resized {
    std::vector<size_t> dimensions;  ///< that change
    std::vector<double> scales;      ///< scales of each dimension of X
};

Resized resized_of(const ExportedNode& n) {
    Resized r;
    const Dims &from = n.shape(), &to = n.out().shape;
    const BoundAttr* given = n.node.attrs.find("scales");
    for (size_t d = 0; d < n.rank(); ++d) {
        const double ratio = static_cast<double>(to[d]) / static_cast<double>(from[d]);
        r.scales.push_back(given == nullptr ? ratio : given->reals[d]);
        if (to[d] != from[d] || r.scales[d] != 1) r.dimensions.push_back(d);
    }
    return r;
}

/// Operands that tell ONNX sizes and scales of dimensions that come after two others.
struct SizeOperands {
    Names operands;
    std::vector<OnnxWriter::Attribute> attributes = {};
};

/// `sizes`: of the two. Lengths are sizes, or scales times sizes rounded down, or one scale for all rounded to the nearest.
SizeOperands size_operands(ExportedNode& n, const Resized& r, const std::vector<size_t>& along, Sizes sizes) {
    Sizes least, axes;
    std::vector<double> scales = {1, 1};
    bool by_sizes = true, by_scales = true, in_common = true;
    for (const size_t d : along) {
        const double from = static_cast<double>(n.shape()[d]), to = static_cast<double>(n.out().shape[d]),
                     length = r.scales[d] * from;
        axes.push_back(static_cast<int64_t>(scales.size()));
        sizes.push_back(n.out().shape[d]);
        scales.push_back(r.scales[d]);
        least.push_back(static_cast<int64_t>(std::ceil(length - 1e-6)));
        by_sizes = by_sizes && std::fabs(length - to) < 1e-6;
        by_scales = by_scales && std::floor(static_cast<float>(r.scales[d]) * static_cast<float>(from)) == to;
        in_common = in_common && r.scales[d] == r.scales[along[0]] && std::floor(length + 0.5) == to;
    }
    if (by_sizes) return {{"", "", n.integers(sizes)}};
    if (by_scales) return {{"", n.floats({static_cast<int64_t>(scales.size())}, scales)}};
    if (in_common)
        return {{"", "", n.integers(least)},
                {OnnxWriter::list("axes", axes), OnnxWriter::text("keep_aspect_ratio_policy", "not_larger")}};
    n.refuse("ONNX has no resize whose lengths are rounded as this one's", "resize to whole lengths");
}

/// Resizes some dimensions, which are moved after all others.
std::string resized_along(ExportedNode& n, const Resized& r, const std::vector<size_t>& along,
                          const Sizes& shape, const std::string& x) {
    const auto sizes_at = [&](const std::vector<size_t>& dimensions) {
        Sizes sizes;
        for (const size_t d : dimensions) sizes.push_back(shape[d]);
        return sizes;
    };
    std::vector<size_t> order;
    for (size_t d = 0; d < shape.size(); ++d) {
        if (std::find(along.begin(), along.end(), d) == along.end()) order.push_back(d);
    }
    const bool has_two = order.size() == 2;
    Sizes front = sizes_at(order), from = sizes_at(along), to = front;
    if (!has_two) front = {1, graph::dims(front).product()};
    from.insert(from.begin(), front.begin(), front.end());
    order.insert(order.end(), along.begin(), along.end());
    for (const size_t d : along) to.push_back(n.out().shape[d]);

    std::string y = n.transposed(x, {order.begin(), order.end()});
    if (!has_two) y = n.reshaped(y, from);
    SizeOperands sizes = size_operands(n, r, along, front);
    sizes.operands.insert(sizes.operands.begin(), y);
    const auto word = [&](const char* name, std::string_view attribute, std::string_view usual) {
        sizes.attributes.push_back(OnnxWriter::text(name, std::string(n.node.attrs.word(attribute, usual))));
    };
    word("mode", "mode", "nearest");
    word("coordinate_transformation_mode", "coordinates", "half_pixel");
    word("nearest_mode", "nearest_mode", "round_prefer_floor");
    y = n.op("Resize", sizes.operands, sizes.attributes);
    if (!has_two) y = n.reshaped(y, to);
    const std::vector<int> back = graph::inverse({order.begin(), order.end()});
    return n.transposed(y, {back.begin(), back.end()});
}

/// Exports a resize. Runtimes resize what comes after batch and channels, at most three dimensions.
void resize(ExportedNode& n) {
    constexpr size_t most = 3;
    const Resized r = resized_of(n);
    Sizes shape = sizes_of(n.shape());
    std::string y = n.x();
    for (size_t first = 0; first < r.dimensions.size(); first += most) {
        const auto begin = r.dimensions.begin() + static_cast<int64_t>(first);
        const std::vector<size_t> along(
            begin, begin + static_cast<int64_t>(std::min(most, r.dimensions.size() - first)));
        y = resized_along(n, r, along, shape, y);
        for (const size_t d : along) shape[d] = n.out().shape[d];
    }
    n.result(y);
}

// ---- places between the elements

Sizes picture_of(const ExportedNode& n) {
    return {n.shape()[0], n.shape()[1], n.integer("height"), n.integer("width")};
}

void grid_sample(ExportedNode& n) {
    constexpr std::array<const char*, 5> modes = {"", "nearest", "linear", "", "cubic"};
    constexpr std::array<const char*, 3> paddings = {"zeros", "border", "reflection"};
    const Dims& grid = n.shape(1);
    const std::string y =
        n.op("GridSample", {n.reshaped(n.x(), picture_of(n)), n.reshaped(n.x(1), {grid[0], grid[1], 1, 2})},
             {OnnxWriter::text("mode", modes.at(static_cast<size_t>(n.integer("taps")))),
              OnnxWriter::text("padding_mode", paddings.at(static_cast<size_t>(n.integer("outside")))),
              OnnxWriter::integer("align_corners", n.integer("corners"))});
    n.result(n.reshaped(y, sizes_of(n.out().shape)));
}

void roi_align(ExportedNode& n) {
    if (!n.in(3).constant())
        n.refuse("ONNX's RoiAlign has no scale that is computed",
                 "give the model's RoiAlign a spatial_scale");
    const std::string y = n.op(
        "RoiAlign", {n.reshaped(n.x(), picture_of(n)), n.x(1), n.cast(n.x(2), ::onnx::TensorProto::INT64)},
        {OnnxWriter::integer("output_height", n.integer("rows")),
         OnnxWriter::integer("output_width", n.integer("columns")),
         OnnxWriter::integer("sampling_ratio", n.integer("samples")),
         OnnxWriter::real("spatial_scale", graph::numbers(n.in(3))[0]),
         OnnxWriter::text("mode", n.integer("largest") != 0 ? "max" : "avg"),
         OnnxWriter::text("coordinate_transformation_mode",
                          n.integer("half") != 0 ? "half_pixel" : "output_half_pixel")});
    n.result(n.reshaped(y, sizes_of(n.out().shape)));
}

}  // namespace

void export_pictures(Exports& t) {
    t["maxpool"] = [](ExportedNode& n) { pool(n, "MaxPool"); };
    t["avgpool"] = [](ExportedNode& n) { pool(n, "AveragePool"); };
    t["resize"] = resize;
    t["grid_sample"] = grid_sample;
    t["roi_align"] = roi_align;
}

}  // namespace kpu::quantize
