// Operators that take pictures at places between their elements: kernels (compiler/kernels).
#include <fmt/format.h>

#include "compiler/onnx/operators.hpp"
#include "compiler/onnx/products/products.hpp"

namespace kpu::onnx {
namespace {

/// Casts to f32: places are matters of the last bits, whatever the network is compiled to.
ValueId in_f32(Call& call, std::string_view opcode, std::vector<ValueId> operands,
               std::vector<BoundAttr> attrs) {
    for (ValueId& operand : operands) {
        if (call.elem(operand) != ElemType::i32) operand = call.cast(operand, ElemType::f32);
    }
    const ValueId result = call.emit(opcode, std::move(operands), std::move(attrs), ElemType::f32);
    call.graph.nodes.back().kept = ElemType::f32;
    return result;
}

/// Returns 1, 2 or 4 elements along each side; takes names of opset 16, and those of 20.
int64_t taps_of(const Call& call) {
    const std::string mode = call.text("mode", call.opset < 20 ? "bilinear" : "linear");
    if (mode == "nearest") return 1;
    if (mode == "bilinear" || mode == "linear") return 2;
    if (mode == "bicubic" || mode == "cubic") return 4;
    Call::refuse(fmt::format("mode `{}` is not taken", mode));
}

int64_t outside_of(const Call& call) {
    const std::string mode = call.text("padding_mode", "zeros");
    if (mode == "zeros") return 0;
    if (mode == "border") return 1;
    if (mode == "reflection") return 2;
    Call::refuse(fmt::format("padding_mode `{}` is not taken", mode));
}

void grid_sample(Call& call) {
    const Sizes x = call.shape(0), grid = call.shape(1);
    if (x.size() != 4 || grid.size() != 4) Call::refuse("it is taken of pictures (4 dimensions) only");
    if (grid[0] != x[0] || grid[3] != 2) Call::refuse("its operands do not fit together");
    const ValueId y =
        in_f32(call, "grid_sample",
               {call.reshape(call.value(0), {x[0], x[1], x[2] * x[3]}),
                call.reshape(call.value(1), {grid[0], grid[1] * grid[2], 2})},
               {graph::integer("height", x[2]), graph::integer("width", x[3]),
                graph::integer("taps", taps_of(call)), graph::integer("outside", outside_of(call)),
                graph::integer("corners", call.integer("align_corners", 0))});
    call.result(call.cast(call.reshape(y, {x[0], x[1], grid[1], grid[2]}), call.elem(call.value(0))));
}

void roi_align(Call& call) {
    const Sizes x = call.shape(0), rois = call.shape(1);
    if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || call.shape(2) != Sizes{rois[0]})
        Call::refuse("its operands do not fit together");
    const std::string mode = call.text("mode", "avg"),
                      place = call.opset < 16 ? "output_half_pixel"
                                              : call.text("coordinate_transformation_mode", "half_pixel");
    if (mode != "avg" && mode != "max") Call::refuse(fmt::format("mode `{}` is not taken", mode));
    const bool half = place == "half_pixel";
    if (!half && place != "output_half_pixel")
        Call::refuse(fmt::format("coordinate_transformation_mode `{}` is not taken", place));
    const int64_t rows = call.integer("output_height", 1), columns = call.integer("output_width", 1),
                  samples = call.integer("sampling_ratio", 0);
    if (rows < 1 || columns < 1 || samples < 0) Call::refuse("its result has no size");
    Call::check_made({rois[0], x[1], rows, columns});
    const Known scale{Type::f32, {2}, {}, {call.real("spatial_scale", 1), half ? 0.5 : 0.0}};
    const ValueId y =
        in_f32(call, "roi_align",
               {call.reshape(call.value(0), {x[0], x[1], x[2] * x[3]}), call.value(1),
                call.cast(call.value(2), ElemType::i32), call.constant(scale, ElemType::f32)},
               {graph::integer("height", x[2]), graph::integer("width", x[3]), graph::integer("rows", rows),
                graph::integer("columns", columns), graph::integer("samples", samples),
                graph::integer("largest", mode == "max" ? 1 : 0), graph::integer("half", half ? 1 : 0)});
    call.result(call.cast(call.reshape(y, {rois[0], x[1], rows, columns}), call.elem(call.value(0))));
}

/// Returns the places along a side of a picture, -1 to 1.
std::vector<double> places_along(int64_t size, bool corners) {
    std::vector<double> result;
    const auto count = static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) {
        const auto at = static_cast<double>(i);
        result.push_back(corners ? (size == 1 ? -1 : at * 2 / (count - 1) - 1) : (at * 2 + 1) / count - 1);
    }
    return result;
}

/// Computes (x, y, 1) or (x, y, z, 1) of each point times a matrix for each picture.
void affine_grid(Call& call) {
    const Sizes size = call.ints_of(1, "size"), theta = call.shape(0);
    const size_t rank = size.size() < 2 ? 0 : size.size() - 2;
    const auto depth = static_cast<int64_t>(rank);
    if ((rank != 2 && rank != 3) || theta != Sizes{size[0], depth, depth + 1})
        Call::refuse("its operands do not fit together");
    const Sizes spatial(size.begin() + 2, size.end());
    const int64_t points = elements_of(spatial);
    Call::check_made({points, depth + 1});
    const bool corners = call.integer("align_corners", 0) != 0;
    Known base{Type::f32, {points, depth + 1}, {}, {}};
    std::vector<std::vector<double>> along;
    for (const int64_t length : spatial) along.push_back(places_along(length, corners));
    for (int64_t point = 0; point < points; ++point) {
        int64_t rest = point;
        for (size_t d = rank; d-- > 0; rest /= spatial[d])  // the last dimension is x
            base.reals.push_back(along[d][static_cast<size_t>(rest % spatial[d])]);
        base.reals.push_back(1);
    }
    const ValueId matrices = call.value(0);
    const ValueId grid =
        matmul(call, call.constant(base, call.elem(matrices)), call.transpose(matrices, {0, 2, 1}));
    Sizes shape{size[0]};
    shape.insert(shape.end(), spatial.begin(), spatial.end());
    shape.push_back(depth);
    call.result(call.reshape(grid, shape));
}

}  // namespace

void add_sampling(Operators& t) {
    t.push_back({"AffineGrid", affine_grid, 20});
    t.push_back({"GridSample", grid_sample, 16});
    t.push_back({"RoiAlign", roi_align, 10});
}

}  // namespace kpu::onnx
