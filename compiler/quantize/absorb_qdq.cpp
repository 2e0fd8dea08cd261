#include "compiler/quantize/absorb_qdq.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/integer_models.hpp"
#include "compiler/quantize/parameters.hpp"
#include "compiler/quantize/rewrite.hpp"
#include "compiler/quantize/strip_qdq.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Port;
using graph::Value;
using graph::ValueId;

/// Modes of the nodes, by what is known of their values.
class QdqPlanner {
  public:
    QdqPlanner(Stripped& model, const QuantizeOptions& options)
        : model_(model),
          graph_(model.graph),
          options_(options),
          users_(graph::users(model.graph)),
          output_(model.graph.values.size()) {
        for (const Port& port : graph_.outputs) output_[port.value] = true;
    }

    void run() {
        spread_back();
        spread_on();
        widen_nibbles();
        Plan& plan = model_.plan;
        plan.modes.resize(graph_.nodes.size());
        plan.reasons.resize(graph_.nodes.size());
        for (const Node& node : graph_.nodes) plan.kept.push_back(node.kept);
        if (options_.real == ElemType::f16 || options_.real == ElemType::bf16) {
            narrow = keep_sums_wide(graph_, options_.supports, plan.kept);
            if (options_.real == ElemType::bf16) narrow.clear();  // coarse there, but in range
        }
        for (size_t n = 0; n < graph_.nodes.size(); ++n) plan.modes[n] = mode(n);
        for (size_t n = graph_.nodes.size(); n-- > 0;) leave_accumulators(n);
        fill_in_constants();
        find_saturating();
    }

    std::vector<std::string> widened;  ///< constants of 4 bits that get 8
    std::vector<NodeId> narrow;        ///< nodes of sums that may overflow f16

  private:
    bool is_float_value(ValueId id) const { return is_float(graph_.value(id).elem); }
    bool has_steps(ValueId id) const { return model_.steps[id] != Steps::none; }
    const BoundQuant& quant(ValueId id) const { return model_.plan.quants[id]; }
    /// Widens steps of 4 bits but where only products that take them use them: weights of one matrix, or of a
    /// window, whose tiles begin at whole bytes.
    void widen_nibbles() {
        for (ValueId id = 0; id < graph_.values.size(); ++id) {
            Given& given = model_.plan.given[id];
            if (given.elem != ElemType::i4) continue;
            const auto takes = [&](NodeId user) { return takes_nibbles(graph_.nodes[user], id); };
            if (std::all_of(users_[id].begin(), users_[id].end(), takes)) continue;
            given.elem = ElemType::i8;
            widened.push_back(graph_.value(id).name);
        }
    }

    bool takes_nibbles(const Node& node, ValueId weight) const {
        if (!is_product(node.spec()) || node.inputs[1] != weight) return false;
        if (node.spec().traits.needs == Needs::matrix && graph_.value(weight).shape.rank != 2) return false;
        const std::string_view form = node.spec().traits.sums_form;
        return is_supported(options_.supports, node.spec().name, types(node, true), types(node, false)) &&
               (form.empty() ||
                is_supported(options_.supports, form, {ElemType::i8, ElemType::i4}, {ElemType::i32}));
    }

    void note(ValueId id, Steps steps, const BoundQuant& quant) {
        model_.steps[id] = steps;
        model_.plan.quants[id] = quant;
    }

    /// True if its results, rounded to steps, are what it makes of its operand rounded to them.
    bool follows_rounding(const Node& node) const {
        if (node.spec().traits.bounds) return true;
        return moves(node) && node.inputs.size() == 1 && !tells_places(node);
    }

    /// True if some results say where numbers were: which of two that are rounded to one step, is lost.
    bool tells_places(const Node& node) const {
        const auto floats = [this](ValueId id) { return is_float_value(id); };
        return !std::all_of(node.outputs.begin(), node.outputs.end(), floats);
    }

    /// Spreads steps back: what only a view, a maximum, a relu or a clamp reads may be made in the steps of
    /// their result.
    void spread_back() {
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            const Node& node = graph_.nodes[n];
            if (model_.marks[n] || !follows_rounding(node) || !has_one_quant(node.outputs)) continue;
            const ValueId x = node.inputs[0];
            if (users_[x].size() == 1 && !output_[x] && is_float_value(x) && !graph_.value(x).constant() &&
                !has_steps(x))
                note(x, Steps::allowed, quant(node.outputs[0]));
        }
    }

    bool has_one_quant(const std::vector<ValueId>& ids) const {
        return std::all_of(ids.begin(), ids.end(), [&](ValueId id) {
            return !is_float_value(id) || (has_steps(id) && equal(quant(id), quant(ids[0])));
        });
    }

    /// Numbers that are moved stay steps. Those with scales of channels become floats: a view may cut or join them.
    /// Of several results none is made in steps of its own: all are made at once.
    void spread_on() {
        for (const Node& node : graph_.nodes) {
            const BoundQuant* steps = moves(node) ? steps_of_operands(node) : nullptr;
            if (steps == nullptr || !holds_padding(node, *steps)) continue;
            for (const ValueId y : node.outputs) {
                if (is_float_value(y) && (!has_steps(y) || node.outputs.size() > 1))
                    note(y, Steps::exact, BoundQuant(*steps));
            }
        }
    }

    /// Returns the steps that all data operands are of; null: they differ, or some are floats.
    const BoundQuant* steps_of_operands(const Node& node) const {
        const BoundQuant* steps = nullptr;
        const std::vector<ValueId> operands = data_operands(node);
        for (const ValueId id : operands) {
            if (model_.steps[id] != Steps::exact) continue;
            if (quant(id).kind != proto::Quant::PER_TENSOR || (steps != nullptr && !equal(*steps, quant(id))))
                return nullptr;
            steps = &quant(id);
        }
        const auto fits = [&](ValueId id) {
            const Value& value = graph_.value(id);
            return model_.steps[id] == Steps::exact ||
                   (steps != nullptr && value.constant() && is_float(value.elem) && are_steps(value, *steps));
        };
        return std::all_of(operands.begin(), operands.end(), fits) ? steps : nullptr;
    }

    static bool holds_padding(const Node& node, const BoundQuant& steps) {
        return !is_named(node, "pad") || node.attrs.word("mode", "constant") != "constant" ||
               is_step(node.attrs.real("constant_value", 0), steps);
    }

    Mode mode(size_t n) {
        const Node& node = graph_.nodes[n];
        const auto floats = [this](ValueId id) { return is_float_value(id); };
        if (std::none_of(node.inputs.begin(), node.inputs.end(), floats) &&
            std::none_of(node.outputs.begin(), node.outputs.end(), floats))
            return Mode::plain;
        if (model_.marks[n]) return Mode::quantized;
        std::string_view& reason = model_.plan.reasons[n];
        if (!is_in_steps(node)) {
            reason = "the model gives no steps for it";
        } else if (!is_supported(options_.supports, node.spec().name, types(node, true),
                                 types(node, false))) {
            reason = "the device has no int8 form of it";
        }
        return reason.empty() ? Mode::quantized : Mode::real;
    }

    static bool has_integer_form(const Node& node) {
        return is_product(node.spec()) || node.spec().traits.requantizes || keeps_steps(node);
    }

    bool operands_have_steps(const Node& node) const {
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId id = node.inputs[i];
            if (is_data(node.spec(), i) != is_float_value(id)) return false;
            if (is_product(node.spec()) && i == 2) {
                if (!is_addend(node)) return false;
            } else if (is_product(node.spec()) && i == 1) {
                if (!takes_blocks(node) && !(has_steps(id) && scales_fit(id, true))) return false;
            } else if (is_float_value(id) && !may_be_steps(node, id)) {
                return false;
            }
        }
        return true;
    }

    /// True for a constant without steps of its own: one that is moved gets those of the result, others only
    /// without a loss.
    bool may_be_steps(const Node& node, ValueId id) const {
        if (has_steps(id)) return !is_product(node.spec()) || scales_fit(id, false);
        return graph_.value(id).constant() && (moves(node) || exact_quant(graph_.value(id)));
    }

    /// True for a bias that 31 bits hold in steps of the products.
    bool is_addend(const Node& node) const {
        const Value& bias = graph_.value(node.inputs[2]);
        if (!bias.constant()) return false;
        if (takes_blocks(node)) return true;
        const BoundQuant &x = quant(node.inputs[0]), &w = quant(node.inputs[1]);
        if (x.scales.empty() || w.scales.empty()) return false;
        const Dims& out = graph_.value(node.outputs[0]).shape;
        const std::vector<double> least = least_scales_for(bias, x.scales[0], out[out.rank - 1U]);
        for (size_t c = 0; c < least.size(); ++c) {
            if (w.scales[c % w.scales.size()] < least[c]) return false;
        }
        return true;
    }

    /// True for weights of 4 bits with scales of groups, as the model brings them.
    bool takes_blocks(const Node& node) const {
        const Value& weight = graph_.value(node.inputs[1]);
        return has_groups(weight) && graph_.value(node.inputs[0]).shape.rank == weight.shape.rank &&
               (node.spec().traits.needs != Needs::matrix || weight.shape.rank == 2) &&
               node.attrs.integer("groups", 1) == 1 &&
               takes_groups(options_.supports, node.spec().traits.group_form);
    }

    /// True if scales of weights stand along the output channels; what they are multiplied by has one.
    bool scales_fit(ValueId id, bool weight) const {
        const BoundQuant& quant = model_.plan.quants[id];
        return quant.kind != proto::Quant::PER_CHANNEL ||
               (weight && quant.axis == graph_.value(id).shape.rank - 1);
    }

    bool is_in_steps(const Node& node) const {
        const auto fits = [&](ValueId id) { return !is_float_value(id) || has_steps(id); };
        if (!has_integer_form(node) || !operands_have_steps(node) ||
            !std::all_of(node.outputs.begin(), node.outputs.end(), fits))
            return false;
        if (!moves(node)) return true;
        return has_one_quant(node.outputs) &&
               (!tells_places(node) || equal(quant(node.inputs[0]), quant(node.outputs[0])));
    }

    std::vector<ElemType> types(const Node& node, bool inputs) const {
        std::vector<ElemType> result;
        for (const ValueId id : inputs ? node.inputs : node.outputs) {
            const Given& given = model_.plan.given[id];
            result.push_back(!is_float_value(id)            ? graph_.value(id).elem
                             : given.elem != ElemType::none ? given.elem
                                                            : ElemType::i8);
        }
        if (inputs && is_product(node.spec()) && result.size() == 3) result[2] = ElemType::i32;
        return result;
    }

    /// A product of steps whose result has none.
    void leave_accumulators(size_t n) {
        const Node& node = graph_.nodes[n];
        if (model_.plan.modes[n] != Mode::real || !is_product(node.spec()) || !operands_have_steps(node))
            return;
        const std::string_view form = node.spec().traits.sums_form;
        const std::vector<NodeId>& next = users_[node.outputs[0]];
        const bool dequantizes =
            is_supported(options_.supports, "dequantize", {ElemType::i32}, {options_.real});
        if (form.empty() || has_steps(node.outputs[0]) || (!next.empty() && !dequantizes) ||
            !is_supported(options_.supports, form, types(node, true), {ElemType::i32}))
            return;
        model_.plan.modes[n] = Mode::accumulator;
        model_.plan.reasons[n] = {};
    }

    void fill_in_constants() {
        for (ValueId id = 0; id < graph_.values.size(); ++id) {
            const Value& value = graph_.value(id);
            if (!value.constant() || !is_float(value.elem) || has_steps(id)) continue;
            if (const std::optional<BoundQuant> exact = exact_quant(value)) model_.plan.quants[id] = *exact;
        }
    }

    void find_saturating() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
            const Node& node = graph_.nodes[n];
            if (model_.marks[n] || model_.plan.modes[n] != Mode::quantized) continue;
            if (!node.spec().traits.bounds) continue;
            const BoundQuant& quant = model_.plan.quants[node.outputs[0]];
            if (!equal(quant, model_.plan.quants[node.inputs[0]])) continue;
            const Range held = representable(quant);
            model_.plan.only_saturates[n] = held.low >= node.attrs.real("min_val", 0) &&
                                            held.high <= node.attrs.real("max_val", HUGE_VAL);
        }
    }

    Stripped& model_;
    const Graph& graph_;
    const QuantizeOptions& options_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<bool> output_;
};

}  // namespace

bool is_quantized(const Graph& graph) {
    return std::any_of(graph.values.begin(), graph.values.end(),
                       [](const Value& value) { return static_cast<bool>(value.quant); });
}

QuantizeResult absorb_qdq(const Graph& graph, const QuantizeOptions& options) {
    Stripped model = strip_conversions(graph);
    QdqPlanner planner(model, options);
    planner.run();
    QuantizeResult result;
    result.widened = std::move(planner.widened);
    for (const NodeId n : planner.narrow) result.narrow_sums.push_back(model.graph.nodes[n].source.name);
    result.calibrated = true;
    for (size_t n = 0; n < model.graph.nodes.size(); ++n) {
        const Node& node = model.graph.nodes[n];
        if (model.plan.modes[n] == Mode::real && !is_named(node, "quantize") && !is_named(node, "dequantize"))
            result.in_floats.push_back(
                fmt::format("{} ({}): {}", node.source.name, node.spec().name, model.plan.reasons[n]));
    }
    result.graph = rewrite(model.graph, model.plan, options);
    make_signed(result.graph);
    if (!options.boundary_on_device) quantize_on_host(result.graph);
    return result;
}

}  // namespace kpu::quantize
