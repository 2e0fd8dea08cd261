#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "compiler/graph/resizing.hpp"
#include "compiler/tile_op/tile_op.hpp"
#include "compiler/tile_op/transposed.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

Dims shape_of(const Value& value) {
    Dims shape = value.shape;
    if (shape.rank == 0) shape[shape.rank++] = 1;
    return shape;
}

ElemType data_type(const Graph& graph, const Node& node) {
    const kernels::Operation* operation = kernels::find(node.opcode);
    if (operation == nullptr) throw InternalError("lower: an opcode is not a kernel");
    std::vector<ElemType> types;
    for (const ValueId id : node.inputs) types.push_back(graph.value(id).elem);
    return kernels::data_type(*operation, types);
}

namespace {

using Windows = std::vector<Window>;

/// The axes of one node, and how its operands follow them.
struct Described {
    std::vector<Axis> axes;
    std::vector<Windows> inputs, outputs;
};

class Describer {
  public:
    Describer(const Graph& graph, const Node& node) : graph_(graph), node_(node), spec_(node.spec()) {}

    Described run() {
        for (const ValueId id : node_.inputs) result_.inputs.emplace_back(shape_of(graph_.value(id)).rank);
        for (const ValueId id : node_.outputs) result_.outputs.emplace_back(shape_of(graph_.value(id)).rank);
        if (const kernels::Operation* operation = kernels::find(node_.opcode)) {
            kernel(*operation);
            return std::move(result_);
        }
        follow_operands();
        return std::move(result_);
    }

  private:
    void follow_operands() {
        switch (spec_.traits.needs) {
            case Needs::image:
                return batches();
            case Needs::place:
                return elementwise();
            case Needs::block:
                return blocks_of_elements();
            case Needs::matrix:
                return gemm();
            case Needs::window:
                return spec_.transposed ? transposed_convolution() : convolution();
            case Needs::pool:
                return pool();
            case Needs::row:
            case Needs::before:
                return rows();
            case Needs::reduced:
                return reduction();
            case Needs::resized:
                return resize();
            case Needs::permuted:
                return transpose();
            case Needs::sliced:
                return slice();
            case Needs::padded:
                return pad();
            case Needs::gathered:
                return gather();
            case Needs::picked:
                return gather_elements();
            case Needs::out_of_pixels:
                return blocks(0);
            case Needs::into_pixels:
                return blocks(1);
        }
    }

    Dims in(size_t i) const { return shape_of(graph_.value(node_.inputs[i])); }
    Dims out(size_t i = 0) const { return shape_of(graph_.value(node_.outputs[i])); }
    bool constant(size_t i) const { return graph_.value(node_.inputs[i]).constant(); }
    const std::vector<int64_t>& ints(std::string_view name) const { return node_.attrs.find(name)->ints; }

    int add_axis(std::string name, int64_t extent, Walk walk = Walk::loop, int64_t quantum = 1) {
        result_.axes.push_back({std::move(name), extent, walk, false, quantum, walk != Walk::loop});
        return static_cast<int>(result_.axes.size() - 1);
    }
    static Window follow(int axis, int64_t unit = 1) { return {axis, unit, unit, 0}; }

    /// Cuts a kernel along the axes that its row names.
    void kernel(const kernels::Operation& operation) {
        for (const kernels::Cut& cut : operation.cuts) {
            const int64_t extent = out()[static_cast<size_t>(cut.outputs[0])];
            const int axis = add_axis(std::string(cut.name), extent);
            const auto cut_operand = [&](int d, const Dims& shape, Windows& windows) {
                const auto at = static_cast<size_t>(d);
                if (d >= 0 && shape[at] == extent) windows[at] = follow(axis);
            };
            for (size_t i = 0; i < node_.inputs.size(); ++i)
                cut_operand(cut.inputs[i], in(i), result_.inputs[i]);
            for (size_t o = 0; o < node_.outputs.size(); ++o)
                cut_operand(cut.outputs[o], out(o), result_.outputs[o]);
        }
    }

    /// Adds one axis for each dimension of the output.
    void output_axes() {
        const Dims y = out();
        for (size_t d = 0; d < y.rank; ++d)
            result_.outputs[0][d] = follow(add_axis(fmt::format("d{}", d), y[d]));
    }

    /// Keeps dimensions that broadcast whole.
    void broadcast(size_t i) {
        const Dims x = in(i), y = out();
        for (size_t d = 1; d <= x.rank && d <= y.rank; ++d) {
            if (x[x.rank - d] == y[y.rank - d])
                result_.inputs[i][x.rank - d] = result_.outputs[0][y.rank - d];
        }
    }

    void elementwise() {
        output_axes();
        for (size_t i = 0; i < node_.inputs.size(); ++i) broadcast(i);
    }

    void gemm() {
        const Dims y = out();
        const size_t m = y.rank - 2u, n = y.rank - 1u;
        Windows &a = result_.inputs[0], &b = result_.inputs[1], &c = result_.outputs[0];
        for (size_t d = 0; d < m; ++d) {
            a[d] = c[d] = follow(add_axis(fmt::format("b{}", d), y[d]));
            if (in(1)[d] == y[d])
                b[d] = c[d];
            else
                result_.axes.back().single =
                    true;  // one matrix serves all, and tasks have as many of each factor
        }
        a[m] = c[m] = follow(add_axis("m", y[m]));
        b[n] = c[n] = follow(add_axis("n", y[n], constant(1) ? Walk::unroll : Walk::loop));
        result_.axes.back().independent = true;
        a[n] = b[m] = summed("k", in(0)[n]);
        if (spec_.group_scales) scales_of_groups(a[n].axis, b[n]);
        if (spec_.block_scales) {
            result_.inputs[2] = {a[m], follow(a[n].axis)};
            result_.inputs[3] = {follow(a[n].axis), b[n]};
        }
        if (node_.inputs.size() > spec_.addend) broadcast(spec_.addend);
    }

    /// Describes elements and scales of block formats: an axis counts blocks along their dimension.
    void blocks_of_elements() {
        const Dims y = out();
        const size_t along = axis_of(y, node_.attrs);
        const int64_t size = node_.attrs.integer("block_size", 32);
        Windows &elements = result_.outputs[0],
                &scales = node_.outputs.size() > 1 ? result_.outputs[1] : result_.inputs[1];
        for (size_t d = 0; d < y.rank; ++d) {
            const int64_t unit = d == along ? size : 1;
            elements[d] = follow(add_axis(fmt::format("d{}", d), (y[d] + unit - 1) / unit), unit);
            scales[d] = follow(elements[d].axis);
        }
        result_.inputs[0] = elements;
    }

    /// Returns the axis of a sum; with scales of groups or blocks it counts those.
    Window summed(std::string name, int64_t extent) {
        const int64_t group = spec_.group_scales   ? node_.attrs.integer("group_size", 1)
                              : spec_.block_scales ? node_.attrs.integer("block_size", 32)
                                                   : 1;
        return follow(add_axis(std::move(name), (extent + group - 1) / group, Walk::sum), group);
    }

    void scales_of_groups(int sum, const Window& columns) {
        Windows& s = result_.inputs[2];
        s[s.size() - 2] = follow(sum);
        s[s.size() - 1] = columns;
    }

    void convolution() {
        const Dims x = in(0), w = in(1), y = out();
        const size_t spatial = spec_.window_rank, last = spatial + 1;
        const int64_t groups = conv_groups(spec_, node_.attrs, x[last]);
        Windows &wx = result_.inputs[0], &ww = result_.inputs[1], &wy = result_.outputs[0];
        wx[0] = wy[0] = follow(add_axis("n", y[0]));
        constexpr std::string_view names[] = {"z", "y", "x"};
        for (size_t d = 0; d < spatial; ++d) {
            const int axis = add_axis(std::string(names[3 - spatial + d]), y[d + 1]);
            wy[d + 1] = follow(axis);
            wx[d + 1] = {axis, ints("strides")[d], (w[d] - 1) * ints("dilations")[d] + 1, ints("pads")[d]};
        }
        if (groups == 1 && node_.attrs.integer("blocks", 1) == 1) {
            ww[last] = wy[last] = follow(add_axis("o", y[last], Walk::unroll));
            wx[last] = ww[last - 1] = summed("c", x[last]);
            if (spec_.group_scales) scales_of_groups(wx[last].axis, ww[last]);
        } else {
            whole_groups(groups);
        }
        if (node_.inputs.size() > spec_.addend) broadcast(spec_.addend);
    }

    /// Channels of a convolution, the last dimensions, are cut between groups.
    void whole_groups(int64_t groups) {
        const int axis = add_axis("g", groups, Walk::unroll);
        const Dims x = in(0), y = out();
        result_.inputs[0].back() = follow(axis, x[x.rank - 1u] / groups);
        result_.inputs[1].back() = result_.outputs[0].back() = follow(axis, y[y.rank - 1u] / groups);
    }

    /// Cuts rows and columns where Y has `strides` for each of X.
    void transposed_convolution() {
        const Dims x = in(0), w = in(1), y = out();
        const size_t last = x.rank - 1u;
        const int64_t groups = conv_groups(spec_, node_.attrs, x[last]);
        Windows &wx = result_.inputs[0], &ww = result_.inputs[1], &wy = result_.outputs[0];
        wx[0] = wy[0] = follow(add_axis("n", y[0]));
        for (size_t d = 0; d + 1 < last; ++d) {
            std::optional<Window> window = transposed_window(node_.attrs, d, x[d + 1], w[d], y[d + 1]);
            if (!window) continue;
            window->axis = add_axis(d == 0 ? "y" : "x", x[d + 1]);
            wx[d + 1] = *window;
            wy[d + 1] = follow(window->axis, ints("strides")[d]);
        }
        if (groups == 1) {
            ww[last] = wy[last] = follow(add_axis("o", y[last], Walk::unroll));
        } else {
            whole_groups(groups);
        }
        if (node_.inputs.size() > 2) broadcast(2);
    }

    /// Cuts dimensions that stay as they are, and those where every element is repeated equally often.
    void resize() {
        const Dims x = in(0), y = out();
        const bool repeats = graph::repeats_elements(node_.attrs);
        const BoundAttr* scales = node_.attrs.find("scales");
        for (size_t d = 0; d < y.rank; ++d) {
            const int64_t times = y[d] / x[d];
            const double scale =
                scales == nullptr || scales->reals.empty() ? double(times) : scales->reals[d];
            if (y[d] != x[d] * times || scale != double(times) || (times > 1 && !repeats)) continue;
            const int axis = add_axis(fmt::format("d{}", d), x[d]);
            result_.inputs[0][d] = follow(axis);
            result_.outputs[0][d] = follow(axis, times);
        }
    }

    /// Describes pads: tiles at the border have the padding there; mirrored rows may lie beyond a tile.
    void pad() {
        const Dims x = in(0), y = out();
        const bool mirrored = node_.attrs.find("mode")->text == "reflect";
        for (size_t d = 0; d < y.rank; ++d) {
            if (mirrored && x[d] != y[d]) continue;
            const int axis = add_axis(fmt::format("d{}", d), y[d]);
            result_.outputs[0][d] = follow(axis);
            result_.inputs[0][d] = {axis, 1, 1, ints("pads")[d]};
        }
    }

    void pool() {
        output_axes();
        const Dims x = in(0);
        const size_t spatial = x.rank - 2u;
        const BoundAttr* dilations = node_.attrs.find("dilations");
        result_.inputs[0] = result_.outputs[0];
        for (size_t d = 0; d < spatial; ++d) {
            const int64_t dilation = dilations == nullptr || dilations->ints.empty() ? 1 : dilations->ints[d];
            Window& window = result_.inputs[0][d + 1];
            window.step = ints("strides")[d];
            window.extent = (ints("kernel_shape")[d] - 1) * dilation + 1;
            window.before = ints("pads")[d];
            // the last window counts less beyond counted padding: a rule for what follows another window
            const int64_t end = (out()[d + 1] - 1) * window.step - window.before + window.extent;
            if (is_set("count_include_pad") && end > x[d + 1] + ints("pads")[d + spatial])
                result_.axes[static_cast<size_t>(window.axis)].least_last = 2;
        }
    }
    bool is_set(std::string_view name) const { return node_.attrs.integer(name, 0) != 0; }

    /// Keeps this dimension of the output whole.
    void untiled(size_t d) {
        const int axis = result_.outputs[0][d].axis;
        result_.axes[static_cast<size_t>(axis)].whole = true;
    }

    /// Normalisations, softmax, running sums: whole rows along `axis`.
    void rows() {
        output_axes();
        result_.inputs[0] = result_.outputs[0];
        untiled(axis_of(out(), node_.attrs));
    }

    void reduction() {
        const Dims x = in(0);
        std::vector<bool> reduced(x.rank, false);
        if (node_.attrs.find("axes") != nullptr) {
            reduced = reduced_axes(x, node_.attrs);
        } else {
            reduced[axis_of(x, node_.attrs)] = true;
        }
        const BoundAttr* keep = node_.attrs.find("keepdims");
        size_t to = 0;
        for (size_t d = 0; d < x.rank; ++d) {
            if (!reduced[d]) {
                result_.inputs[0][d] = result_.outputs[0][to++] =
                    follow(add_axis(fmt::format("d{}", d), x[d]));
            } else if (keep != nullptr && keep->integer != 0) {
                ++to;
            }
        }
    }

    /// Relates pixels: each on one side has `block` x `block` on the other; channels stay whole.
    void blocks(size_t wide_side) {
        const int64_t block = node_.attrs.integer("block", 1);
        Windows &x = result_.inputs[0], &y = result_.outputs[0];
        const Dims few = wide_side == 0 ? in(0) : out();
        for (size_t d = 0; d < 3; ++d) {
            const int axis = add_axis(fmt::format("d{}", d), few[d]);
            x[d] = follow(axis, d > 0 && wide_side == 1 ? block : 1);
            y[d] = follow(axis, d > 0 && wide_side == 0 ? block : 1);
        }
    }

    void transpose() {
        output_axes();
        const std::vector<int64_t>& perm = ints("perm");
        for (size_t d = 0; d < perm.size(); ++d)
            result_.inputs[0][static_cast<size_t>(perm[d])] = result_.outputs[0][d];
    }

    /// Cuts Y = X[..., indices, ...] before and after the gathered dimension, and along the indices.
    void gather() {
        output_axes();
        const Dims x = in(0), indices = shape_of(graph_.value(node_.inputs[1]));
        const bool scalar = graph_.value(node_.inputs[1]).shape.rank == 0;
        const size_t along = axis_of(x, node_.attrs), many = scalar ? 0 : indices.rank;
        for (size_t d = 0; d < along; ++d) result_.inputs[0][d] = result_.outputs[0][d];
        for (size_t d = 0; d < many; ++d) result_.inputs[1][d] = result_.outputs[0][along + d];
        for (size_t d = along + 1; d < x.rank; ++d) {
            result_.inputs[0][d] = result_.outputs[0][d - 1 + many];
            // narrow rows for all indices at once, so that X is read once
            result_.axes[static_cast<size_t>(result_.outputs[0][d - 1 + many].axis)].independent = true;
        }
    }

    /// Describes Y[i, j, k] = X[i, indices[i, j, k], k]: only X stays whole, along one dimension.
    void gather_elements() {
        output_axes();
        result_.inputs[0] = result_.inputs[1] = result_.outputs[0];
        result_.inputs[0][axis_of(in(0), node_.attrs)] = {};
    }

    /// Cuts dimensions that a slice leaves as they are; a reversed one is not cut.
    void slice() {
        const Dims x = in(0), y = out();
        const std::vector<SliceRange> ranges = slice_ranges(x, node_.attrs);
        for (size_t d = 0; d < y.rank; ++d) {
            if (x[d] == y[d] && ranges[d].step == 1)
                result_.inputs[0][d] = result_.outputs[0][d] = follow(add_axis(fmt::format("d{}", d), y[d]));
        }
    }

    /// Cuts only the first dimension, if it goes through all operands that have as many dimensions.
    void batches() {
        const Dims x = in(0), y = out();
        if (x[0] != y[0] || x.rank != y.rank) return;
        const BoundAttr* along = node_.attrs.find("axis");
        if (along != nullptr && axis_of(x, node_.attrs) == 0) return;
        const int axis = add_axis("n", y[0]);
        result_.inputs[0][0] = follow(axis);
        for (Windows& output : result_.outputs) output[0] = follow(axis);
        const bool variadic = spec_.variadic_inputs;
        for (size_t i = 1; variadic && i < result_.inputs.size(); ++i) result_.inputs[i][0] = follow(axis);
    }

    const Graph& graph_;
    const Node& node_;
    const OpcodeSpec& spec_;
    Described result_;
};

/// Builds the operands of a group, node by node.
class Group {
  public:
    Group(const Graph& graph, const std::vector<bool>& internal) : graph_(graph), internal_(internal) {}

    TileOp run(graph::NodeId first, graph::NodeId last) {
        graph::NodeId anchor = first;
        for (graph::NodeId n = first; n < last; ++n) {
            if (graph_.nodes[n].anchor) anchor = n;
        }
        if (anchor != first) throw InternalError("lower: the anchor of a group is not its first node");
        op_.source = graph_.nodes[anchor].source;
        add_anchor(anchor);
        for (graph::NodeId n = anchor + 1; n < last; ++n) add_elementwise(n);
        for (graph::NodeId n = first; n < last; ++n) note_sources(graph_.nodes[n]);
        unroll_scales();
        return std::move(op_);
    }

  private:
    void note(const graph::Source& source) {
        const auto same = [&](const graph::Source& other) { return other.name == source.name; };
        if (source.name.empty() || source.name == op_.source.name ||
            std::any_of(op_.fused.begin(), op_.fused.end(), same))
            return;
        op_.fused.push_back(source);
    }
    void note_sources(const Node& node) {
        note(node.source);
        for (const graph::Source& source : node.absorbed) note(source);
    }

    size_t operand(ValueId value, const Windows& windows, Place place) {
        for (size_t i = 0; i < op_.operands.size(); ++i) {
            const TileOperand& known = op_.operands[i];
            if (known.value == value && known.windows == windows &&
                (known.place == place || place == Place::input))
                return i;
        }
        op_.operands.push_back({value, windows, place, false});
        return op_.operands.size() - 1;
    }

    void add_outputs(TileNode& tile, const Node& node, const std::vector<Windows>& windows) {
        for (size_t o = 0; o < node.outputs.size(); ++o) {
            const ValueId id = node.outputs[o];
            tile.outputs.push_back(operand(id, windows[o], internal_[id] ? Place::internal : Place::output));
        }
    }

    void add_anchor(graph::NodeId id) {
        const Node& node = graph_.nodes[id];
        Described described = Describer(graph_, node).run();
        op_.axes = std::move(described.axes);
        result_ = described.outputs.at(0);
        shape_ = shape_of(graph_.value(node.outputs[0]));
        TileNode tile{id, {}, {}};
        for (size_t i = 0; i < node.inputs.size(); ++i)
            tile.inputs.push_back(operand(node.inputs[i], described.inputs[i], Place::input));
        if (const kernels::Operation* kernel = kernels::find(node.opcode); kernel && kernel->in_place >= 0)
            op_.operands[tile.inputs[static_cast<size_t>(kernel->in_place)]].in_place = true;
        add_outputs(tile, node, described.outputs);
        op_.nodes.push_back(std::move(tile));
    }

    /// Works on the anchor's result, tile by tile: its operands follow the anchor's output.
    void add_elementwise(graph::NodeId id) {
        const Node& node = graph_.nodes[id];
        if (!(shape_of(graph_.value(node.outputs[0])) == shape_))
            throw InternalError("lower: a fused node has another shape than its anchor");
        TileNode tile{id, {}, {}};
        for (const ValueId input : node.inputs) {
            const Dims x = shape_of(graph_.value(input));
            Windows windows(x.rank);
            for (size_t d = 1; d <= x.rank; ++d) {
                if (x[x.rank - d] == shape_[shape_.rank - d]) windows[x.rank - d] = result_[shape_.rank - d];
            }
            tile.inputs.push_back(operand(input, windows, Place::input));
        }
        if (node.spec().traits.needs == Needs::row) {
            const int axis = result_[axis_of(shape_, node.attrs)].axis;
            op_.axes[static_cast<size_t>(axis)].whole = true;
        }
        add_outputs(tile, node, std::vector<Windows>(node.outputs.size(), result_));
        op_.nodes.push_back(std::move(tile));
    }

    /// A region has fixed scales, so tiles with scales of their own are not iterations of one loop.
    void unroll_scales() {
        for (const TileOperand& operand : op_.operands) {
            const BoundQuant& quant = graph_.value(operand.value).quant;
            if (quant.kind == proto::Quant::NONE || quant.kind == proto::Quant::PER_TENSOR) continue;
            const int axis = operand.windows[static_cast<size_t>(quant.axis)].axis;
            if (axis < 0) continue;
            Axis& along = op_.axes[static_cast<size_t>(axis)];
            if (along.walk == Walk::loop) along.walk = Walk::unroll;
            if (along.walk == Walk::sum) along.whole = true;
        }
    }

    const Graph& graph_;
    const std::vector<bool>& internal_;
    TileOp op_;
    Windows result_;  ///< windows of the anchor's first output
    Dims shape_;
};

}  // namespace

TileOp describe(const Graph& graph, graph::NodeId first, graph::NodeId last,
                const std::vector<bool>& internal) {
    return Group(graph, internal).run(first, last);
}

}  // namespace kpu::compiler
