#include "compiler/memory/flatten.hpp"

#include <algorithm>
#include <array>

namespace kpu::compiler {
namespace {

constexpr size_t pixel_dims = 3;  ///< images, rows, columns

class Flattening {
  public:
    Flattening(graph::Graph& graph, MemoryPlan& memory, TileOp& op)
        : graph_(graph), memory_(memory), op_(op) {}

    bool run() {
        if (!sees_single_pixels()) return false;
        for (const TileOperand& operand : op_.operands) {
            if (follows_pixels(operand) && !has_row_of_pixels(operand)) return false;
        }
        for (TileOperand& operand : op_.operands) {
            if (follows_pixels(operand)) flatten(operand);
        }
        for (size_t d = 0; d + 1 < pixel_dims; ++d) op_.axes[axis(d)].extent = 1;
        op_.axes[axis(2)].name = "pixels";
        op_.axes[axis(2)].extent = pixels_;
        return true;
    }

  private:
    const graph::Value& value(const TileOperand& operand) const { return graph_.value(operand.value); }
    const TileOperand& result() const { return op_.operands[op_.nodes[op_.anchor].outputs[0]]; }
    size_t axis(size_t d) const { return static_cast<size_t>(axes_[d]); }

    bool sees_single_pixels() {
        const graph::Node& node = graph_.nodes[op_.nodes[op_.anchor].node];
        const Dims shape = shape_of(value(result()));
        if (node.spec().traits.needs != Needs::window || node.spec().transposed ||
            shape.rank != pixel_dims + 1)
            return false;
        pixels_ = 1;
        for (size_t d = 0; d < pixel_dims; ++d) {
            axes_[d] = result().windows[d].axis;
            if (op_.axes[axis(d)].walk != Walk::loop) return false;
            pixels_ *= shape[d];
        }
        return pixels_ > shape[2];
    }

    bool follows_pixels(const TileOperand& operand) const {
        const auto along = [&](const Window& window) {
            return window.axis >= 0 && std::find(axes_.begin(), axes_.end(), window.axis) != axes_.end();
        };
        return std::any_of(operand.windows.begin(), operand.windows.end(), along);
    }

    bool has_row_of_pixels(const TileOperand& operand) const {
        const Dims shape = shape_of(value(operand));
        if (value(operand).constant() || shape.rank != pixel_dims + 1) return false;
        for (size_t d = 0; d < pixel_dims; ++d) {
            const bool padded = shape[d] != op_.axes[axis(d)].extent;  // after its last element
            if (padded || !(operand.windows[d] == Window{axes_[d], 1, 1, 0})) return false;
        }
        if (operand.place == Place::internal) return true;
        const Dims& strides = memory_.views[operand.value].strides;
        return (shape[1] == 1 || strides[1] == shape[2] * strides[2]) &&
               (shape[0] == 1 || strides[0] == shape[1] * shape[2] * strides[2]);
    }

    void flatten(TileOperand& operand) {
        graph::Value flat = value(operand);
        View view = memory_.views[operand.value];
        flat.shape[0] = flat.shape[1] = 1;
        flat.shape[2] = pixels_;
        if (operand.place != Place::internal) view.strides[0] = view.strides[1] = pixels_ * view.strides[2];
        operand.value = static_cast<graph::ValueId>(graph_.values.size());
        operand.windows[0] = operand.windows[1] = {};
        graph_.values.push_back(std::move(flat));
        memory_.views.resize(graph_.values.size());
        memory_.views.back() = std::move(view);
        memory_.internal.resize(graph_.values.size(), true);  // no tensor of its own
    }

    graph::Graph& graph_;
    MemoryPlan& memory_;
    TileOp& op_;
    std::array<int, pixel_dims> axes_{};
    int64_t pixels_ = 1;
};

}  // namespace

bool flatten(graph::Graph& graph, MemoryPlan& memory, TileOp& op) {
    return Flattening(graph, memory, op).run();
}

}  // namespace kpu::compiler
