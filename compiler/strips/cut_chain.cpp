#include "compiler/strips/cut_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/graph/macs.hpp"
#include "compiler/tile_op/transposed.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// Strips of one chain, appended to a graph.
class Cutter {
  public:
    Cutter(const Steps& steps, const Chain& chain, Graph& to, uint32_t& groups)
        : steps_(steps), chain_(chain), to_(to), groups_(groups) {}

    void run() {
        for (const auto& [id, step] : chain_.held) {
            Node copy = copy_of(to_, id, source_at(step));
            held_[id] = copy.outputs[0];
            append(std::move(copy));
        }
        for (strip_ = 0; strip_ < static_cast<size_t>(chain_.strips); ++strip_) {
            slices_.clear();
            for (size_t step = chain_.first; step <= chain_.last; ++step) {
                const Step& of = steps_.all()[step];
                if (!of.renames) {
                    add_group(step);
                } else if (is(node(step), "concat")) {
                    add_join(step);
                } else {
                    add_view(step);
                }
            }
        }
        for (auto& [id, parts] : parts_) {
            Node join = to_.make_node("concat", parts, along(id), options(id, source_of(id)));
            to_.values.pop_back();  // the value itself stands for its parts
            join.outputs = {id};
            append(std::move(join));
        }
    }

  private:
    const Node& node(size_t step) const { return steps_.graph().nodes[steps_.all()[step].nodes.first]; }
    const Strand& strand(size_t step) const { return chain_.strands[chain_.last - step]; }
    Dims shape(ValueId id) const { return shape_of(to_.value(id)); }
    bool inside(ValueId id) const { return chain_.dims.count(id) > 0; }
    Rows needed(ValueId id) const { return chain_.needed.at(id)[strip_]; }
    Rows fresh(ValueId id) const { return chain_.fresh.at(id)[strip_]; }
    /// Returns the source of a step. Its strips keep the name of an operation, also where several have one
    /// source.
    graph::Source source_at(size_t step) const {
        graph::Source source = node(step).source;
        if (!steps_.all()[step].renames) source.name = steps_.all()[step].nodes.name;
        return source;
    }
    graph::Source source_of(ValueId id) const { return source_at(static_cast<size_t>(steps_.maker(id))); }

    void append(Node added) {
        added.strips = std::max(added.strips, 1U) * static_cast<uint32_t>(chain_.strips);
        to_.nodes.push_back(std::move(added));
    }

    graph::NodeOptions options(ValueId id, const graph::Source& source) const {
        graph::NodeOptions result;
        result.source = source;
        result.output = fmt::format("{}.strip{}", to_.value(id).name, strip_);
        result.elem = to_.value(id).elem;
        result.quant = to_.value(id).quant;
        return result;
    }
    BoundAttrs along(ValueId id) const {
        return graph::attributes({graph::integer("axis", static_cast<int64_t>(chain_.dims.at(id)))});
    }

    ValueId value_like(ValueId id, size_t dim, int64_t rows) {
        Dims shape = to_.value(id).shape;
        shape[dim] = rows;
        const graph::Value like = to_.value(id);
        return to_.add_value(fmt::format("{}.strip{}", like.name, strip_), like.elem, shape, like.quant);
    }

    /// Returns the rows [from, from + count) of a value along a dimension.
    ValueId slice(ValueId of, size_t dim, int64_t from, int64_t count, const graph::Source& source) {
        std::vector<int64_t> starts, ends, axes, steps;
        const Dims whole = shape(of);
        for (size_t d = 0; d < whole.rank; ++d) {
            axes.push_back(static_cast<int64_t>(d));
            starts.push_back(d == dim ? from : 0);
            ends.push_back(d == dim ? from + count : whole[d]);
            steps.push_back(1);
        }
        Node added =
            to_.make_node("slice", {of},
                          graph::attributes({graph::ints("starts", starts), graph::ints("ends", ends),
                                             graph::ints("axes", axes), graph::ints("steps", steps)}),
                          options(of, source));
        const ValueId result = added.outputs[0];
        append(std::move(added));
        return result;
    }

    /// Returns these rows of a value of the whole graph, counted there, as this strip has them.
    ValueId rows(ValueId id, size_t dim, const Rows& wanted, const graph::Source& source) {
        const auto key = std::make_tuple(id, dim, wanted.lo, wanted.hi);
        if (const auto found = slices_.find(key); found != slices_.end()) return found->second;
        const ValueId base = inside(id) ? strips_.at(id) : id;
        const int64_t first = inside(id) ? starts_.at(id) : 0;
        const bool all = wanted.lo == first && wanted.count() == shape(base)[dim];
        if (!all && to_.value(base).constant()) return slices_[key] = constant_rows(base, dim, wanted);
        return slices_[key] = all ? base : slice(base, dim, wanted.lo - first, wanted.count(), source);
    }

    /// A constant that has those alone: a mask of the queries of a strip, weights of its columns with their scales.
    ValueId constant_rows(ValueId of, size_t dim, const Rows& wanted) {
        const graph::Value whole = to_.value(of);
        Dims part = whole.shape;
        part[dim] = wanted.count();
        BoundQuant quant = whole.quant;
        if (quant.kind == proto::Quant::PER_CHANNEL && quant.axis == static_cast<int>(dim)) {
            const auto cut = [&](auto& all) {
                if (all.size() > 1) all = {all.begin() + wanted.lo, all.begin() + wanted.hi};
            };
            cut(quant.scales);
            cut(quant.zero_points);
        }
        return to_.add_constant(fmt::format("{}.strip{}", whole.name, strip_), whole.elem, part,
                                graph::slice(whole.data, graph::element_bytes(whole.elem), whole.shape, dim,
                                             wanted.lo, wanted.hi),
                                std::move(quant));
    }

    /// Publishes what was computed of a value: it joins the rows that the last strip left; what the next one
    /// needs is put aside.
    void publish(ValueId id, ValueId computed) {
        const size_t dim = chain_.dims.at(id);
        const graph::Source source = source_of(id);
        const int64_t lo = needed(id).lo, hi = needed(id).hi;
        ValueId current = computed;
        if (const auto tail = tails_.find(id); tail != tails_.end()) {
            // a slice of the rows put aside: they are copied once more, so that this strip's place is taken only now
            const ValueId before = slice(tail->second, dim, 0, shape(tail->second)[dim], source);
            Node join = to_.make_node("concat", {before, computed}, along(id), options(id, source));
            current = join.outputs[0];
            append(std::move(join));
            tails_.erase(tail);
        }
        strips_[id] = current;
        starts_[id] = lo;
        if (chain_.leaves.at(id)) parts_[id].push_back(computed);
        if (strip_ + 1 >= static_cast<size_t>(chain_.strips)) return;
        const int64_t next = chain_.needed.at(id)[strip_ + 1].lo;
        if (next >= hi) return;
        Node aside = copy_of(to_, slice(current, dim, next - lo, hi - next, source), source);
        tails_[id] = aside.outputs[0];
        append(std::move(aside));
    }

    // ---- steps

    void add_group(size_t step) {
        const TileOp& op = steps_.op(step);
        const auto& [first_output, first_follow] = *strand(step).outputs.begin();
        const int64_t unit = first_follow.window.step;
        const Rows range{fresh(first_output).lo / unit, (fresh(first_output).hi + unit - 1) / unit};
        int axis = -1;
        for (const TileOperand& operand : op.operands) {
            if (operand.place == Place::output && operand.value == first_output)
                axis = operand.windows[first_follow.dim].axis;
        }
        std::map<size_t, ValueId> made;  // by operand
        const uint32_t group = op.nodes.size() > 1 ? ++groups_ : 0;
        std::vector<Node> nodes;  // slices of operands come before all of them
        for (const TileNode& tile : op.nodes) {
            Node added = steps_.graph().nodes[tile.node];
            added.group = group;
            for (size_t i = 0; i < tile.inputs.size(); ++i) {
                const TileOperand& operand = op.operands[tile.inputs[i]];
                if (made.count(tile.inputs[i]) > 0) {
                    added.inputs[i] = made.at(tile.inputs[i]);
                } else if (const int d = dim_along(operand, axis); d >= 0) {
                    const auto dim = static_cast<size_t>(d);
                    const Rows wanted = rows_of(operand.windows[dim], range, shape(operand.value)[dim]);
                    added.inputs[i] = rows(operand.value, dim, wanted, added.source);
                } else if (const auto held = held_.find(operand.value); held != held_.end()) {
                    added.inputs[i] = held->second;
                }
            }
            for (size_t o = 0; o < tile.outputs.size(); ++o) {
                const TileOperand& operand = op.operands[tile.outputs[o]];
                const int d = dim_along(operand, axis);
                if (d < 0) throw InternalError("strips: an output does not follow the axis of its strip");
                const auto dim = static_cast<size_t>(d);
                const Rows of = rows_of(operand.windows[dim], range, shape(operand.value)[dim]);
                made[tile.outputs[o]] = added.outputs[o] = value_like(operand.value, dim, of.count());
            }
            patch(added, op, tile, axis, range);
            nodes.push_back(std::move(added));
        }
        nodes[0].source = source_at(step);
        for (Node& added : nodes) append(std::move(added));
        for (const TileNode& tile : op.nodes) {
            for (const size_t o : tile.outputs) {
                if (op.operands[o].place == Place::output) publish(op.operands[o].value, made.at(o));
            }
        }
    }

    static int dim_along(const TileOperand& operand, int axis) {
        for (size_t d = 0; d < operand.windows.size(); ++d) {
            if (operand.windows[d].axis == axis) return static_cast<int>(d);
        }
        return -1;
    }

    static void pad(BoundAttrs& attrs, size_t at, const Part& part) {
        for (BoundAttr& attribute : attrs.list) {
            const size_t count = attribute.ints.size() / 2;
            if (attribute.name != "pads" || at >= count) continue;
            attribute.ints[at] = part.before;
            attribute.ints[at + count] = part.behind;
        }
    }

    /// Returns the share of `rows` in what `extent` rows have in common. The shares of all rows sum to it.
    static uint64_t share_of(uint64_t all, const Rows& rows, int64_t extent) {
        __extension__ typedef unsigned __int128 Wide;
        const auto until = [&](int64_t row) {
            return static_cast<uint64_t>(Wide{all} * static_cast<uint64_t>(row) /
                                         static_cast<uint64_t>(extent));
        };
        return until(rows.hi) - until(rows.lo);
    }

    /// Patches pads: a strip at a border has the padding of that border alone.
    void patch(Node& added, const TileOp& op, const TileNode& tile, int axis, const Rows& range) const {
        const TileOperand& x = op.operands[tile.inputs[0]];
        const int d = dim_along(x, axis);
        if (d >= 1) {
            const auto dim = static_cast<size_t>(d);
            const Window& window = x.windows[dim];
            const Part part = part_of(window, shape(x.value)[dim], range.lo, range.count());
            if (added.spec().transposed) {
                const Node& whole = steps_.graph().nodes[tile.node];
                graph::set_macs(added, share_of(graph::macs_of(steps_.graph(), whole), range,
                                                op.axes[static_cast<size_t>(axis)].extent));
                crop_transposed(added.attrs, dim - 1, shape(added.inputs[1])[dim - 1], window, part,
                                shape(added.outputs[0])[dim]);
            } else {
                pad(added.attrs, dim - 1, part);
            }
        }
        for (BoundAttr& attribute : added.attrs.list) {
            if (added.spec().traits.needs == Needs::resized && attribute.name == "sizes") {
                const Dims y = shape(added.outputs[0]);
                for (size_t i = 0; i < attribute.ints.size(); ++i) attribute.ints[i] = y[i];
            }
        }
    }

    void add_join(size_t step) {
        const Node& join = node(step);
        const ValueId id = join.outputs[0];
        Node added = join;
        for (ValueId& input : added.inputs) {
            const size_t dim = chain_.dims.at(id);
            input = rows(input, dim, fresh(id), join.source);
        }
        added.outputs = {value_like(id, chain_.dims.at(id), fresh(id).count())};
        const ValueId computed = added.outputs[0];
        append(std::move(added));
        publish(id, computed);
    }

    /// Adds a view of all rows that the strip needs: they are there.
    void add_view(size_t step) {
        const Node& view = node(step);
        const Strand& of = strand(step);
        const auto& [first_output, first_follow] = *of.outputs.begin();
        Rows range = needed(first_output);
        for (const ValueId output : view.outputs) {  // the same for all
            range.lo = std::min(range.lo, needed(output).lo);
            range.hi = std::max(range.hi, needed(output).hi);
        }
        const int64_t unit = first_follow.window.step;
        range = {range.lo / unit, (range.hi + unit - 1) / unit};
        const ValueId x = view.inputs[0];
        const Follow& from = of.inputs.at(x)[0];
        Node added = view;
        added.inputs[0] = rows(x, from.dim, rows_of(from.window, range, shape(x)[from.dim]), view.source);
        for (ValueId& output : added.outputs) {
            const Follow& follow = of.outputs.at(output);
            const Rows to = rows_of(follow.window, range, shape(output)[follow.dim]);
            const ValueId id = output;
            output = value_like(id, follow.dim, to.count());
            strips_[id] = output;
            starts_[id] = to.lo;
        }
        for (BoundAttr& attribute : added.attrs.list) {
            if (is(view, "reshape") && attribute.name == "target_shape") {
                attribute.ints.clear();
                for (const int64_t size : to_.value(added.outputs[0]).shape) attribute.ints.push_back(size);
            }
        }
        append(std::move(added));
    }

    const Steps& steps_;
    const Chain& chain_;
    Graph& to_;
    uint32_t& groups_;
    size_t strip_ = 0;
    std::map<ValueId, ValueId> held_;    ///< their copies
    std::map<ValueId, ValueId> strips_;  ///< for the whole graph's values: what this strip has of them
    std::map<ValueId, int64_t> starts_;  ///< the first row of it
    std::map<ValueId, ValueId> tails_;   ///< rows that the last strip put aside
    std::map<ValueId, std::vector<ValueId>> parts_;  ///< parts of values that are kept whole
    std::map<std::tuple<ValueId, size_t, int64_t, int64_t>, ValueId> slices_;  ///< slices of this strip
};

}  // namespace

Graph with_strips(const Steps& steps, const std::vector<Chain>& chains) {
    const Graph& from = steps.graph();
    Graph result = from;
    result.nodes.clear();
    uint32_t groups = 0;
    for (const Node& node : from.nodes) groups = std::max(groups, node.group);
    size_t next = 0;
    const auto keep_until = [&](size_t end) {
        for (; next < end; ++next) {
            const NodeRange& nodes = steps.all()[next].nodes;
            for (NodeId n = nodes.first; n < nodes.last; ++n) result.nodes.push_back(from.nodes[n]);
        }
    };
    for (const Chain& chain : chains) {
        keep_until(chain.first);
        Cutter(steps, chain, result, groups).run();
        next = chain.last + 1;
    }
    keep_until(steps.all().size());
    graph::check(result);
    return result;
}

}  // namespace kpu::compiler
