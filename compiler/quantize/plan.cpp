#include "compiler/quantize/plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "compiler/quantize/parameters.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool is_light(const OpcodeSpec& spec) { return spec.traits.elementwise || spec.traits.copies; }

class Planner {
  public:
    Planner(const Graph& graph, const std::vector<Range>& ranges, ElemType real, const Supports& supports)
        : graph_(graph),
          ranges_(ranges),
          real_(real),
          supports_(supports),
          users_(graph::users(graph)),
          producers_(graph::producers(graph)),
          output_(graph.values.size(), false),
          parents_(graph.values.size()),
          counts_(graph.values.size(), true) {
        for (const graph::Port& port : graph.outputs) output_[port.value] = true;
        std::iota(parents_.begin(), parents_.end(), ValueId{0});
        plan_.modes.resize(graph.nodes.size());
        plan_.reasons.resize(graph.nodes.size());
        plan_.kept.resize(graph.nodes.size());
        plan_.only_saturates.assign(graph.nodes.size(), false);
    }

    Plan run() {
        find_places();
        for (size_t n = 0; n < graph_.nodes.size(); ++n) plan_.modes[n] = first_mode(n);
        for (int round = 0; round < 2; ++round) {
            follow_operands();
            follow_users();
        }
        find_feeds();
        follow_joins();
        find_tails();
        share_scales();
        choose_quants();
        find_saturating();
        return std::move(plan_);
    }

  private:
    const OpcodeSpec& spec(size_t n) const { return graph_.nodes[n].spec(); }
    bool is_float_value(ValueId id) const { return is_float(graph_.value(id).elem); }
    bool is_constant(ValueId id) const { return graph_.value(id).constant(); }
    /// True if it keeps numbers within bounds: the saturation of steps may do the same.
    bool is_bound(const Node& node) const {
        return node.spec().traits.bounds || (node.spec().name == "min" && is_constant(node.inputs[1]));
    }

    // ---- modes

    Mode first_mode(size_t n) {
        const Node& node = graph_.nodes[n];
        plan_.kept[n] = node.kept;
        const auto floats = [this](ValueId id) { return is_float_value(id); };
        if (std::none_of(node.inputs.begin(), node.inputs.end(), floats) &&
            std::none_of(node.outputs.begin(), node.outputs.end(), floats))
            return Mode::plain;
        plan_.reasons[n] = node.kept == ElemType::none ? why_not(node) : "it is kept in floats";
        return plan_.reasons[n].empty() ? Mode::quantized : Mode::real;
    }

    /// Says why a node is no int8 one; empty: it is.
    std::string_view why_not(const Node& node) const {
        const OpcodeSpec& row = node.spec();
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            if (is_data(row, i) != is_float_value(node.inputs[i])) return "its operands are of several kinds";
        }
        const bool possible = is_product(row) || (row.traits.in_steps == InSteps::by_constant
                                                      ? is_constant(node.inputs[1])
                                                      : row.traits.in_steps != InSteps::floats);
        if (!possible) return "its function needs floats";
        for (const auto* list : {&node.inputs, &node.outputs}) {
            for (const ValueId id : *list) {
                if (!is_sane(id)) return "its numbers are too large, or not finite";
            }
        }
        if (weighs_by_probabilities(node) && has_float_form(node))
            return "most of its probabilities are below a step";
        if (places_[node.outputs[0]] && has_float_form(node)) return "its result says where others read";
        return is_supported(supports_, row.name, types(node, true), types(node, false))
                   ? std::string_view()
                   : "the device has no int8 form of it";
    }

    /// A product of two results, one of them probabilities, as in attention: 256 steps up to the largest of many numbers whose sum is
    /// largest of many numbers whose sum is 1 leave few to the others.
    bool weighs_by_probabilities(const Node& node) const {
        if (!is_product(node.spec()) || is_constant(node.inputs[1])) return false;
        ValueId id = node.inputs[0];
        while (producers_[id] >= 0) {
            const Node& maker = graph_.nodes[static_cast<size_t>(producers_[id])];
            if (maker.spec().traits.probabilities) return true;
            if (!maker.spec().traits.copies) return false;
            id = maker.inputs[0];
        }
        return false;
    }

    /// Finds values that say places in pictures and nothing else, for which 256 steps would be too few.
    void find_places() {
        places_.assign(graph_.values.size(), false);
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            for (const ValueId id : graph_.nodes[n].outputs) {
                const std::vector<NodeId>& users = users_[id];
                places_[id] = !output_[id] && !users.empty() &&
                              std::all_of(users.begin(), users.end(),
                                          [&](NodeId user) { return reads_places(graph_.nodes[user], id); });
            }
        }
    }
    bool reads_places(const Node& node, ValueId id) const {
        const OpcodeSpec& row = node.spec();
        if (row.traits.places > 0) return node.inputs[row.traits.places] == id;
        return (is_light(row) || node.spec().name == "cast") && places_[node.outputs[0]];
    }

    bool is_sane(ValueId id) const {
        constexpr double most = 1e6;
        const Range& range = ranges_[id];
        return !is_float_value(id) ||
               (range.all_finite && std::fabs(range.low) <= most && std::fabs(range.high) <= most);
    }

    /// Returns the types of the int8 form.
    std::vector<ElemType> types(const Node& node, bool inputs) const {
        std::vector<ElemType> result;
        for (const ValueId id : inputs ? node.inputs : node.outputs)
            result.push_back(is_float_value(id) ? ElemType::i8 : graph_.value(id).elem);
        if (inputs && is_product(node.spec()) && result.size() == 3) result[2] = ElemType::i32;
        return result;
    }

    bool comes_real(ValueId id) const {
        return producers_[id] >= 0 && plan_.modes[static_cast<size_t>(producers_[id])] == Mode::real;
    }

    /// Follows operands: between floats nothing is worth quantizing but a product.
    void follow_operands() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
            const Node& node = graph_.nodes[n];
            if (plan_.modes[n] != Mode::quantized || is_product(node.spec())) continue;
            bool all_real = true;
            for (size_t i = 0; i < node.inputs.size(); ++i) {
                if (is_data(node.spec(), i) && !is_constant(node.inputs[i]))
                    all_real = all_real && comes_real(node.inputs[i]);
            }
            if (all_real) make_real(n, "its operands are floats");
        }
    }

    void follow_users() {
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            if (plan_.modes[n] != Mode::quantized || !spec(n).traits.elementwise ||
                spec(n).traits.in_steps == InSteps::exact)
                continue;
            const std::vector<NodeId>& next = users_[graph_.nodes[n].outputs[0]];
            const auto is_real = [this](NodeId user) { return plan_.modes[user] == Mode::real; };
            if (!output_[graph_.nodes[n].outputs[0]] && !next.empty() &&
                std::all_of(next.begin(), next.end(), is_real))
                make_real(n, "what follows it needs floats");
        }
    }

    void make_real(size_t n, std::string_view reason) {
        plan_.modes[n] = Mode::real;
        plan_.reasons[n] = reason;
    }

    // ---- joins whose parts have scales of their own

    /// Finds values that some product depends on.
    void find_feeds() {
        feeds_product_.assign(graph_.values.size(), false);
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            const Node& node = graph_.nodes[n];
            const bool feeds =
                is_product(node.spec()) || std::any_of(node.outputs.begin(), node.outputs.end(),
                                                       [&](ValueId id) { return feeds_product_[id]; });
            for (const ValueId id : node.inputs) feeds_product_[id] = feeds_product_[id] || feeds;
        }
    }

    /// Follows joins. A result that joins parts of very different ranges (boxes and probabilities) would
    /// leave the narrow ones few steps: after the last product it is computed in floats, with what leads to
    /// it.
    void follow_joins() {
        std::vector<bool> joined(graph_.values.size(), false);
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            const Node& node = graph_.nodes[n];
            if (plan_.modes[n] != Mode::quantized || is_product(node.spec()) || !has_float_form(node))
                continue;
            const auto goes_on = [&](ValueId id) { return feeds_product_[id] || output_[id]; };
            const auto leads = [&](ValueId id) {
                return joined[id] && !goes_on(id) && is_read_by_floats(id);
            };
            const bool follows = (is_light(node.spec()) || node.spec().traits.needs == Needs::reduced) &&
                                 std::all_of(node.outputs.begin(), node.outputs.end(), leads);
            if (!follows && !(is_uneven_join(node) && !feeds_product_[node.outputs[0]])) continue;
            make_real(n, "it is joined with numbers of another range");
            for (const ValueId id : node.inputs) joined[id] = true;
        }
    }

    bool is_uneven_join(const Node& node) const {
        constexpr double most = 8;  // three of the eight bits
        if (node.spec().name != "concat") return false;
        double widest = 0, narrowest = HUGE_VAL;
        for (const ValueId id : node.inputs) {
            const double reach = std::max(std::fabs(ranges_[id].low), std::fabs(ranges_[id].high));
            widest = std::max(widest, reach);
            if (reach > 0) narrowest = std::min(narrowest, reach);
        }
        return widest > most * narrowest;
    }

    bool is_read_by_floats(ValueId id) const {
        return std::all_of(users_[id].begin(), users_[id].end(),
                           [this](NodeId user) { return plan_.modes[user] == Mode::real; });
    }

    bool has_float_form(const Node& node) const {
        return is_supported(supports_, node.spec().name, std::vector<ElemType>(node.inputs.size(), real_),
                            std::vector<ElemType>(node.outputs.size(), real_));
    }

    // ---- float outputs leave the accumulators

    void find_tails() {
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            const Node& node = graph_.nodes[n];
            if (plan_.modes[n] != Mode::quantized || !is_product(node.spec()) ||
                feeds_product_[node.outputs[0]] || !has_accumulating_form(node))
                continue;
            std::vector<NodeId> tail;
            if (!is_tail(node.outputs[0], tail)) continue;
            if (!can_leave(tail.empty() && users_[node.outputs[0]].empty())) continue;
            plan_.modes[n] = Mode::accumulator;
            for (const NodeId user : tail) make_real(user, "it computes a float output");
        }
    }

    bool has_accumulating_form(const Node& node) const {
        const std::string_view form = node.spec().traits.sums_form;
        return !form.empty() && is_supported(supports_, form, types(node, true), {ElemType::i32});
    }

    /// True if accumulators can become floats; those of an output can on the host too.
    bool can_leave(bool is_output) const {
        return is_output || is_supported(supports_, "dequantize", {ElemType::i32}, {real_});
    }

    /// True if everything after a value is float, or may be; `tail` gets the nodes that are to become so.
    bool is_tail(ValueId id, std::vector<NodeId>& tail) const {
        if (users_[id].empty()) return output_[id];
        for (const NodeId user : users_[id]) {
            if (plan_.modes[user] == Mode::real) continue;
            const Node& node = graph_.nodes[user];
            if (plan_.modes[user] != Mode::quantized || !is_light(node.spec()) || !has_one_operand(node))
                return false;
            if (!is_supported(supports_, node.spec().name, {real_},
                              std::vector<ElemType>(node.outputs.size(), real_)))
                return false;
            tail.push_back(user);
            for (const ValueId output : node.outputs) {
                if (!is_tail(output, tail)) return false;
            }
        }
        return true;
    }

    bool has_one_operand(const Node& node) const { return node.inputs.size() == 1; }

    // ---- scales

    ValueId root(ValueId id) {
        while (parents_[id] != id) id = parents_[id] = parents_[parents_[id]];
        return id;
    }
    void tie(ValueId a, ValueId b) { parents_[root(a)] = root(b); }

    void share_scales() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
            if (plan_.modes[n] != Mode::quantized) continue;
            const Node& node = graph_.nodes[n];
            if (keeps_steps(node)) {
                share_with_operands(node);
            } else if (is_bound(node) && has_free_scale(node.inputs[0])) {
                // the range after the bound: what is outside saturates in any case
                tie(node.inputs[0], node.outputs[0]);
                counts_[node.inputs[0]] = false;
            }
        }
    }

    void share_with_operands(const Node& node) {
        const std::vector<ValueId> operands = data_operands(node);
        for (const ValueId output : node.outputs) {
            if (!is_float_value(output)) continue;
            for (const ValueId operand : operands) {
                if (operands.size() == 1 || is_used_once(operand)) tie(operand, output);
            }
        }
    }

    /// True if a coarser scale hurts nobody else: the value, and what it is a view of, has one use.
    bool is_used_once(ValueId id) const {
        while (users_[id].size() == 1 && !output_[id] && producers_[id] >= 0) {
            const auto n = static_cast<size_t>(producers_[id]);
            if (plan_.modes[n] != Mode::quantized) return false;
            if (!keeps_steps(graph_.nodes[n])) return true;
            if (graph_.nodes[n].outputs.size() != 1) return false;
            id = graph_.nodes[n].inputs[0];
        }
        return false;
    }

    /// True if a value is made in int8 steps of any scale, for one user.
    bool has_free_scale(ValueId id) const {
        if (producers_[id] < 0 || users_[id].size() != 1 || output_[id]) return false;
        const auto n = static_cast<size_t>(producers_[id]);
        const Node& maker = graph_.nodes[n];
        if (plan_.modes[n] != Mode::quantized || keeps_steps(maker)) return false;
        return !is_bound(maker) || has_free_scale(maker.inputs[0]);
    }

    void choose_quants() {
        std::vector<Range> whole(graph_.values.size());
        for (ValueId id = 0; id < whole.size(); ++id) {
            if (is_float_value(id) && counts_[id]) whole[root(id)].include(ranges_[id]);
        }
        plan_.quants.resize(whole.size());
        plan_.given.resize(whole.size());
        for (ValueId id = 0; id < whole.size(); ++id) {
            if (is_float_value(id)) plan_.quants[id] = activation_quant(whole[root(id)]);
        }
    }

    /// Returns what the node lets through whatever the channel.
    Range bounds_of(const Node& node) const {
        Range bounds;
        if (node.spec().name == "min") {
            bounds.low = -HUGE_VAL;
            bounds.high = ranges_[node.inputs[1]].low;
        } else {
            bounds.low = node.attrs.real("min_val", 0);
            bounds.high = node.attrs.real("max_val", HUGE_VAL);
        }
        return bounds;
    }

    void find_saturating() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
            const Node& node = graph_.nodes[n];
            if (plan_.modes[n] != Mode::quantized || !is_bound(node)) continue;
            const ValueId in = node.inputs[0], out = node.outputs[0];
            if (counts_[in]) continue;
            const Range held = representable(plan_.quants[out]), bounds = bounds_of(node);
            const double step =
                plan_.quants[out].scales[0];  // what is nearer than half of one is rounded to it
            plan_.only_saturates[n] = held.low >= bounds.low && held.high - bounds.high < step / 2;
        }
    }

    const Graph& graph_;
    const std::vector<Range>& ranges_;
    ElemType real_;
    const Supports& supports_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<int32_t> producers_;
    std::vector<bool> places_;
    std::vector<bool> feeds_product_;
    std::vector<bool> output_;
    std::vector<ValueId> parents_;
    std::vector<bool> counts_;  ///< for each value: its range counts for its scale
    Plan plan_;
};

}  // namespace

bool takes_groups(const Supports& supports, std::string_view form) {
    if (form.empty() || !is_supported(supports, "quantize", {ElemType::f32}, {ElemType::i8})) return false;
    const ElemType types[] = {ElemType::f16, ElemType::f32};
    return std::all_of(std::begin(types), std::end(types), [&](ElemType scales) {
        return is_supported(supports, form, {ElemType::i8, ElemType::i4, scales}, {ElemType::f32}) &&
               is_supported(supports, form, {ElemType::i8, ElemType::i4, scales, ElemType::f32},
                            {ElemType::f32});
    });
}

bool moves(const Node& node) {
    const InSteps in_steps = node.spec().traits.in_steps;
    return in_steps == InSteps::moved ||
           (in_steps == InSteps::interpolated && node.attrs.word("mode", "nearest") == "nearest");
}

bool keeps_steps(const Node& node) {
    return moves(node) || node.spec().traits.in_steps == InSteps::interpolated;
}

std::vector<ValueId> data_operands(const Node& node) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (is_data(node.spec(), i)) operands.push_back(node.inputs[i]);
    }
    return operands;
}

bool is_data(const OpcodeSpec& spec, size_t input) {
    return operand_spec(spec.inputs, input).role == OperandRole::data;
}

Plan make_plan(const Graph& graph, const std::vector<Range>& ranges, ElemType real,
               const Supports& supports) {
    return Planner(graph, ranges, real, supports).run();
}

}  // namespace kpu::quantize
