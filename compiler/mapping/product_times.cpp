#include "compiler/mapping/product_times.hpp"

#include <algorithm>

namespace kpu::compiler {
namespace {

constexpr double accumulator_bytes = 4;

}  // namespace

ProductTimes::ProductTimes(const TilingRequest& request) : request_(request) {
    const TileNode& anchor = request.op.nodes[request.op.anchor];
    const graph::Node& node = request.graph.nodes[anchor.node];
    if (node.spec().macs == nullptr) return;
    anchor_ = &node;
    gemm_ = node.spec().traits.needs == Needs::matrix;
    transposed_ = node.spec().transposed;
    for (size_t a = 0; a < request.op.axes.size(); ++a) {
        if (request.op.axes[a].name == "g") groups_axis_ = static_cast<int>(a);
    }
    const auto elem = [&](size_t operand) {
        return request.graph.value(request.op.operands[operand].value).elem;
    };
    const ElemType a = request.graph.value(node.inputs[0]).elem, b = request.graph.value(node.inputs[1]).elem;
    array_ = timing::array_for(request.target.engines[0].array(), a, b);
    const auto bytes = [](ElemType type) { return double(bit_width(type)) / 8; };
    whole_ = {bytes(a), bytes(b), bytes(elem(anchor.outputs[0])), 0};
    part_ = {bytes(a), bytes(b), accumulator_bytes, accumulator_bytes};
    x_ = shape_of(anchor.inputs[0]);
    w_ = shape_of(anchor.inputs[1]);
    y_ = shape_of(anchor.outputs[0]);
}

ProductTimes::Shape ProductTimes::shape_of(size_t operand) const {
    const TileOperand& of = request_.op.operands[operand];
    const Dims dims = compiler::shape_of(request_.graph.value(of.value));
    Shape shape;
    for (size_t d = 0; d < dims.rank; ++d) {
        const Window& window = of.windows[d];
        shape.push_back({window.axis, window.step, window.extent, dims[d]});
    }
    return shape;
}

uint64_t ProductTimes::Extent::of(const std::vector<int64_t>& tile) const {
    if (axis < 0) return static_cast<uint64_t>(most);
    return static_cast<uint64_t>(std::min(most, (tile[static_cast<size_t>(axis)] - 1) * step + extent));
}

uint64_t ProductTimes::product(const Shape& shape, const std::vector<int64_t>& tile) {
    uint64_t elements = 1;
    for (const Extent& each : shape) elements *= each.of(tile);
    return elements;
}

/// Returns the product that one tile of these sizes is.
timing::GemmShape ProductTimes::product(const std::vector<int64_t>& tile) const {
    timing::GemmShape shape;
    const auto behind = [&](const Shape& of, size_t d) { return of[of.size() - d].of(tile); };
    if (gemm_) {
        shape.m = behind(y_, 2);
        shape.n = behind(y_, 1);
        shape.k = behind(w_, 2);
        shape.groups = product(y_, tile) / (shape.m * shape.n);
        return shape;
    }
    if (transposed_) {  // X with each tap of the window
        shape.k = behind(x_, 1);
        shape.m = product(x_, tile) / shape.k;
        shape.n = product(w_, tile) / behind(w_, 2);
        return shape;
    }
    shape.n = behind(w_, 1);
    if (groups_axis_ >= 0) shape.groups = static_cast<uint64_t>(tile[static_cast<size_t>(groups_axis_)]);
    shape.n /= std::max<uint64_t>(1, shape.groups);
    shape.k = product(w_, tile) / behind(w_, 1);
    shape.m = product(y_, tile) / behind(y_, 1);
    return shape;
}

ProductWork ProductTimes::work(const timing::SystolicTime& time, const timing::GemmShape& shape,
                               bool cut) const {
    const Target& target = request_.target;
    const ProductBytes& bytes = cut ? part_ : whole_;
    return {target.array_busy(time, shape, bytes) / target.array_cycles, target.l1_busy(time, shape, bytes)};
}

ProductWork ProductTimes::work(const std::vector<int64_t>& tile, bool cut) const {
    const timing::GemmShape shape = product(tile);
    return work(timing::systolic_time(array_, shape), shape, cut);
}

double ProductTimes::latency(const std::vector<int64_t>& tile, bool cut) const {
    const timing::GemmShape shape = product(tile);
    const timing::SystolicTime time = timing::systolic_time(array_, shape);
    const ProductWork of = work(time, shape, cut);
    const Target& target = request_.target;
    return std::max(of.array, of.l1) + double(time.total() - time.occupancy) / target.array_cycles +
           target.l1.read_latency + target.l1.write_latency + target.dispatch_cycles;
}

}  // namespace kpu::compiler
