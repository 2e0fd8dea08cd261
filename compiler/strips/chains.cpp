#include "compiler/strips/chains.hpp"

#include <algorithm>

#include "isa/shapes.hpp"

namespace kpu::compiler {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// Operations whose attributes a strip can have of its own; what a last window asks for beyond the padding is a rule
/// of the whole.
bool can_be_cut(const Node& node) {
    return node.spec().traits.strips && node.attrs.integer("ceil_mode", 0) == 0;
}

bool scaled_along(const graph::Value& value, size_t dim) {
    const bool scalar =
        value.quant.kind == proto::Quant::NONE || value.quant.kind == proto::Quant::PER_TENSOR;
    return !scalar && value.quant.axis == static_cast<int64_t>(dim);
}

/// Constants are sliced with their scales; a slice of a computed tensor has those of the whole.
bool can_be_sliced(const graph::Value& value, size_t dim) {
    return !scaled_along(value, dim) || (value.constant() && value.quant.kind == proto::Quant::PER_CHANNEL);
}

/// Rows are walked by a loop; columns of a product are unrolled, each strip with its own part of the weights.
bool can_have_strips(const Axis& axis, const Node& anchor) {
    if (axis.whole || axis.least_last > 1) return false;
    return axis.walk == Walk::loop ||
           (axis.walk == Walk::unroll && anchor.spec().traits.needs == Needs::matrix);
}

int64_t product_before(const Dims& shape, size_t dim) {
    int64_t product = 1;
    for (size_t d = 0; d < dim; ++d) product *= shape[d];
    return product;
}

Window every(int64_t step) { return {0, step, step, 0}; }

}  // namespace

Steps::Steps(const Graph& graph, int64_t columns)
    : graph_(graph),
      columns_(columns),
      maker_(graph.values.size(), -1),
      readers_(graph.values.size()),
      output_(graph.values.size(), false) {
    const GroupList groups = groups_of(graph);
    internal_ = groups.internal;
    for (const graph::Port& port : graph.outputs) output_[port.value] = true;
    size_t group = 0;
    for (NodeId n = 0; n < graph.nodes.size();) {
        const bool works = group < groups.ranges.size() && groups.ranges[group].first == n;
        steps_.push_back({works ? groups.ranges[group++] : NodeRange{n, n + 1, {}}, !works});
        const size_t step = steps_.size() - 1;
        made_.emplace_back();
        read_.emplace_back();
        ops_.push_back(works ? describe(graph, steps_[step].nodes.first, steps_[step].nodes.last, internal_)
                             : TileOp{});
        for (; n < steps_[step].nodes.last; ++n) {
            for (const ValueId id : graph.nodes[n].inputs) {
                std::vector<ValueId>& known = read_[step];
                if (maker_[id] == static_cast<int>(step) ||
                    std::find(known.begin(), known.end(), id) != known.end())
                    continue;
                known.push_back(id);
                readers_[id].push_back(step);
            }
            for (const ValueId id : graph.nodes[n].outputs) {
                maker_[id] = static_cast<int>(step);
                if (!internal_[id]) made_[step].push_back(id);
            }
        }
    }
}

std::optional<Strand> Steps::strand(size_t step, ValueId value, size_t dim) const {
    return steps_[step].renames ? of_view(graph_.nodes[steps_[step].nodes.first], value, dim)
                                : of_group(step, value, dim);
}

std::optional<Strand> Steps::of_group(size_t step, ValueId value, size_t dim) const {
    const TileOp& op = ops_[step];
    for (const TileNode& tile : op.nodes) {
        if (!can_be_cut(graph_.nodes[tile.node])) return std::nullopt;
    }
    const auto made = std::find_if(op.operands.begin(), op.operands.end(), [&](const TileOperand& operand) {
        return operand.value == value && operand.place == Place::output;
    });
    if (made == op.operands.end()) return std::nullopt;
    const int axis = made->windows[dim].axis;
    if (axis < 0) return std::nullopt;
    const Axis& along = op.axes[static_cast<size_t>(axis)];
    if (!can_have_strips(along, graph_.nodes[op.nodes[op.anchor].node])) return std::nullopt;
    Strand strand;
    strand.extent = along.extent;
    if (along.walk == Walk::unroll) strand.quantum = columns_;
    std::vector<ValueId> whole;  // some operand reads all of it
    for (const TileOperand& operand : op.operands) {
        std::vector<Follow> follows;
        for (size_t d = 0; d < operand.windows.size(); ++d) {
            if (operand.windows[d].axis == axis) follows.push_back({d, operand.windows[d]});
        }
        const graph::Value& of = graph_.value(operand.value);
        if (follows.size() > 1) return std::nullopt;
        if (!follows.empty() && !can_be_sliced(of, follows[0].dim)) return std::nullopt;
        if (operand.place == Place::output) {
            if (follows.empty() || follows[0].window.slides()) return std::nullopt;
            strand.outputs[operand.value] = follows[0];
        } else if (operand.place == Place::input && follows.empty()) {
            whole.push_back(operand.value);
        } else if (operand.place == Place::input) {
            std::vector<Follow>& known = strand.inputs[operand.value];
            if (!known.empty() && known[0].dim != follows[0].dim) return std::nullopt;
            known.push_back(follows[0]);
        }
    }
    for (const ValueId id : whole) strand.inputs.erase(id);
    return strand;
}

std::optional<Strand> Steps::of_view(const Node& node, ValueId value, size_t dim) const {
    const Dims x = shape_of(graph_.value(node.inputs[0])), y = shape_of(graph_.value(value));
    for (const ValueId id : node.inputs) {
        if (graph_.value(id).constant()) return std::nullopt;
    }
    Strand strand;
    strand.extent = y[dim];
    size_t from = dim;
    int64_t x_step = 1, y_step = 1;
    if (is(node, "transpose")) {
        from = static_cast<size_t>(node.attrs.find("perm")->ints[dim]);
    } else if (is(node, "slice")) {
        const SliceRange range = slice_ranges(x, node.attrs)[dim];
        if (range.first != 0 || range.step != 1 || x[dim] != y[dim]) return std::nullopt;
    } else if (is(node, "choose") || is(node, "insert_rows")) {
        return std::nullopt;
    } else if (is(node, "split") || is(node, "concat")) {
        if (axis_of(is(node, "split") ? x : y, node.attrs) == dim) return std::nullopt;
        // Reshape: the dimension stays, or is joined with those after it, or is one of those that it is cut into.
    } else {
        const int64_t before = product_before(y, dim);
        for (from = 0; from < x.rank; ++from) {
            if (product_before(x, from) == before && x[from] > 1) break;
        }
        if (from == x.rank) return std::nullopt;
        if (y[dim] % x[from] == 0) {
            strand.extent = x[from];
            y_step = y[dim] / x[from];
        } else if (x[from] % y[dim] == 0) {
            x_step = x[from] / y[dim];
        } else {
            return std::nullopt;
        }
    }
    for (const ValueId id : node.inputs) strand.inputs[id] = {{from, every(x_step)}};
    for (const ValueId id : node.outputs) strand.outputs[id] = {dim, every(y_step)};
    const auto scaled = [&](ValueId id, size_t d) { return scaled_along(graph_.value(id), d); };
    if (scaled(node.inputs[0], from) || scaled(value, dim)) return std::nullopt;
    return strand;
}

// ---- chains

ChainGrower::ChainGrower(const Steps& steps, size_t last, size_t dim) : steps_(steps) {
    chain_.first = last + 1;
    chain_.last = last;
    wanted_dim_ = dim;
}

bool ChainGrower::grow() {
    if (chain_.first == 0) return false;
    const size_t step = chain_.first - 1;
    std::map<ValueId, size_t> dims;
    for (const ValueId id : steps_.made(step)) {
        bool leaves = steps_.is_output(id);
        for (const size_t reader : steps_.readers(id)) {
            if (reader > chain_.last) {
                leaves = true;
                continue;
            }
            const Strand& strand = chain_.strands[chain_.last - reader];
            const auto follows = strand.inputs.find(id);
            if (follows == strand.inputs.end()) return false;
            const auto [at, fresh] = dims.emplace(id, follows->second[0].dim);
            if (!fresh && at->second != follows->second[0].dim) return false;
        }
        chain_.leaves[id] = leaves;
    }
    std::optional<Strand> strand;
    if (dims.empty()) {
        const ValueId id = steps_.made(step).at(0);
        const size_t dim = std::min<size_t>(wanted_dim_, shape_of(steps_.graph().value(id)).rank - 1u);
        strand = steps_.strand(step, id, dim);
    } else {
        strand = steps_.strand(step, dims.begin()->first, dims.begin()->second);
    }
    if (!strand || strand->extent < 2) return false;
    for (const ValueId id : steps_.made(step)) {
        const auto follow = strand->outputs.find(id);
        if (follow == strand->outputs.end()) return false;
        const auto [at, fresh] = dims.emplace(id, follow->second.dim);
        if (!fresh && at->second != follow->second.dim) return false;
        // a view has no bytes of its own that could be kept whole
        const bool makes =
            !steps_.all()[step].renames || joins(steps_.graph().nodes[steps_.all()[step].nodes.first]);
        if (chain_.leaves[id] && !makes) return false;
    }
    chain_.dims.insert(dims.begin(), dims.end());
    chain_.strands.push_back(std::move(*strand));
    chain_.first = step;
    return true;
}

namespace {

/// Finds the rows of one chain, from its end to its begin.
class RowFinder {
  public:
    RowFinder(const Steps& steps, Chain& chain) : steps_(steps), chain_(chain) {}

    bool run() {
        ranges_.resize(chain_.strands.size());
        for (size_t step = chain_.last + 1; step-- > chain_.first;) {
            if (!find(step)) return false;
        }
        return true;
    }

  private:
    const Strand& strand(size_t step) const { return chain_.strands[chain_.last - step]; }
    int64_t extent(ValueId id) const { return shape_of(steps_.graph().value(id))[chain_.dims.at(id)]; }

    /// Returns what the readers in the chain need of a value in a strip.
    std::optional<Rows> needed(ValueId id, size_t strip) const {
        std::optional<Rows> all;
        for (const size_t reader : steps_.readers(id)) {
            if (reader > chain_.last) continue;
            const Rows range = ranges_[chain_.last - reader][strip];
            for (const Follow& follow : strand(reader).inputs.at(id)) {
                const Rows rows = rows_of(follow.window, range, extent(id));
                if (!all) all = rows;
                all = Rows{std::min(all->lo, rows.lo), std::max(all->hi, rows.hi)};
            }
        }
        return all;
    }

    bool find(size_t step) {
        const auto strips = static_cast<size_t>(chain_.strips);
        const Strand& of = strand(step);
        std::vector<Rows> range(strips, {of.extent, 0});  // indices of the step that its readers need
        for (const auto& [id, follow] : of.outputs) {
            std::vector<Rows> rows;
            if (!rows_of_value(id, of, rows)) return false;
            for (size_t s = 0; s < strips; ++s) {
                range[s].lo = std::min(range[s].lo, rows[s].lo / follow.window.step);
                range[s].hi =
                    std::max(range[s].hi, (rows[s].hi + follow.window.step - 1) / follow.window.step);
            }
        }
        const bool view =
            steps_.all()[step].renames && !joins(steps_.graph().nodes[steps_.all()[step].nodes.first]);
        std::vector<Rows> fresh = range;
        for (size_t s = 0; s < strips && !view; ++s) {
            if (s > 0) fresh[s].lo = std::max(fresh[s].lo, fresh[s - 1].hi);
            if (fresh[s].count() <= 0) return false;
        }
        for (const auto& [id, follow] : of.outputs) {
            const auto scaled = [by = follow.window.step, all = extent(id)](const std::vector<Rows>& from) {
                std::vector<Rows> result;
                for (const Rows& rows : from) result.push_back({rows.lo * by, std::min(rows.hi * by, all)});
                return result;
            };
            chain_.needed[id] = scaled(range);
            chain_.fresh[id] = scaled(fresh);
        }
        ranges_[chain_.last - step] = std::move(fresh);
        return true;
    }

    bool rows_of_value(ValueId id, const Strand& of, std::vector<Rows>& rows) const {
        const auto strips = static_cast<size_t>(chain_.strips);
        const bool leaves = chain_.leaves.at(id);
        for (size_t s = 0; s < strips; ++s) {
            std::optional<Rows> wanted = needed(id, s);
            if (!wanted) {  // an even share
                if (!leaves) return false;
                const int64_t step = of.outputs.at(id).window.step, n = static_cast<int64_t>(s);
                wanted = Rows{share(of, n) * step, std::min(share(of, n + 1) * step, extent(id))};
            }
            if (leaves) {
                if (s == 0) wanted->lo = 0;
                if (s + 1 == strips) wanted->hi = extent(id);
                if (s > 0 && wanted->lo != rows[s - 1].hi) return false;
            }
            if (wanted->count() <= 0) return false;
            rows.push_back(*wanted);
        }
        return true;
    }

    /// Where an even share begins, as far as shares can be whole quanta.
    int64_t share(const Strand& of, int64_t n) const {
        int64_t quantum = 1;
        for (const Strand& strand : chain_.strands) {
            if (strand.extent == of.extent) quantum = std::max(quantum, strand.quantum);
        }
        const int64_t unit = of.extent >= quantum * chain_.strips ? quantum : 1;
        const int64_t units = (of.extent + unit - 1) / unit;
        return std::min(units * n / chain_.strips * unit, of.extent);
    }

    const Steps& steps_;
    Chain& chain_;
    std::vector<std::vector<Rows>>
        ranges_;  ///< indices that each step works on, by strip; in the order of `strands`
};

}  // namespace

Rows rows_of(const Window& window, const Rows& range, int64_t extent) {
    const int64_t lo = range.lo * window.step - window.before;
    const int64_t hi = (range.hi - 1) * window.step - window.before + window.extent;
    return {std::clamp<int64_t>(lo, 0, extent), std::clamp<int64_t>(hi, 0, extent)};
}

bool cut(const Steps& steps, Chain& chain, int64_t strips) {
    chain.strips = strips;
    chain.needed.clear();
    chain.fresh.clear();
    return RowFinder(steps, chain).run();
}

}  // namespace kpu::compiler
