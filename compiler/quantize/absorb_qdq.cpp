#include "compiler/quantize/absorb_qdq.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/integer_models.hpp"
#include "compiler/quantize/parameters.hpp"
#include "compiler/quantize/rewrite.hpp"
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

constexpr ValueId absent = UINT32_MAX;

bool is_named(const Node& node, std::string_view name) { return node.spec().name == name; }

/// The model without its conversions, and what they said of its values.
struct Stripped {
    Graph graph;
    std::vector<bool> noted;  ///< by value: has a quantisation
    Plan plan;  ///< quants and given of noted values; nodes that only mark a conversion saturate
    std::vector<bool> marks;  ///< by node: stands for a quantize node
};

class Stripper {
  public:
    explicit Stripper(const Graph& from)
        : from_(from),
          users_(graph::users(from)),
          map_(from.values.size(), absent),
          output_(from.values.size()),
          absorbed_(from.values.size()) {
        for (const Port& port : from.outputs) output_[port.value] = true;
        for (size_t n = from.nodes.size(); n-- > 0;) {
            for (const ValueId id : from.nodes[n].outputs) absorbed_[id] = becomes_floats(id);
        }
        to_.graph.name = from.name;
    }

    Stripped run() {
        for (const Port& port : from_.inputs) {
            const Value& value = from_.value(port.value);
            map_[port.value] = to_.graph.add_value(value.name, value.elem, value.shape, value.quant);
            to_.graph.inputs.push_back(port);
            to_.graph.inputs.back().value = map_[port.value];
        }
        for (const Node& node : from_.nodes) strip(node);
        for (const Port& port : from_.outputs) {
            to_.graph.outputs.push_back(port);
            to_.graph.outputs.back().value = mapped(port.value);
        }
        grow();
        return std::move(to_);
    }

  private:
    ValueId mapped(ValueId id) {
        const Value& value = from_.value(id);
        if (map_[id] == absent && value.constant())
            map_[id] = to_.graph.add_constant(value.name, value.elem, value.shape, value.data, value.quant);
        if (value.blocks != nullptr) to_.graph.value(map_[id]).blocks = value.blocks;
        return map_[id];
    }

    void grow() {
        const size_t values = to_.graph.values.size(), nodes = to_.graph.nodes.size();
        to_.noted.resize(values);
        to_.plan.quants.resize(values);
        to_.plan.given.resize(values);
        to_.plan.only_saturates.resize(nodes);
        to_.marks.resize(nodes);
    }

    void note(ValueId id, BoundQuant quant) {
        grow();
        to_.noted[id] = true;
        to_.plan.quants[id] = std::move(quant);
    }

    void strip(const Node& node) {
        if (is_named(node, "quantize") && absorbed_[node.outputs[0]]) {
            mark(node);
        } else if (is_named(node, "dequantize") && is_float_now(node.inputs[0])) {
            map_[node.outputs[0]] = map_[node.inputs[0]];
        } else if (is_named(node, "dequantize") && is_given(from_.value(node.inputs[0]))) {
            give(node);
        } else if (is_named(node, "transpose") && is_given_constant(node.inputs[0])) {
            transpose_given(node);
        } else if (is_named(node, "reshape") && is_given_constant(node.inputs[0]) && reshape_given(node)) {
            return;
        } else {
            copy(node);
        }
    }

    bool is_float_now(ValueId id) const {
        return map_[id] != absent && is_float(to_.graph.value(map_[id]).elem);
    }

    /// Steps of one scale that every user makes floats of, at once or behind operations that keep them.
    bool becomes_floats(ValueId id) const {
        const Value& value = from_.value(id);
        const auto returns = [this, id](NodeId user) {
            const Node& node = from_.nodes[user];
            return is_named(node, "dequantize") || (keeps_them(node) && node.inputs[0] == id);
        };
        return (value.elem == ElemType::i8 || value.elem == ElemType::u8) &&
               value.quant.kind == proto::Quant::PER_TENSOR && !output_[id] &&
               std::all_of(users_[id].begin(), users_[id].end(), returns);
    }

    /// Of one operand, whose steps its results have. What pads adds is told in steps, so they stay integers.
    bool keeps_them(const Node& node) const {
        const BoundQuant& quant = from_.value(node.inputs[0]).quant;
        return keeps_steps(node.spec()) && !is_named(node, "pad") &&
               (node.inputs.size() == 1 || !is_data(node.spec(), 1)) &&
               std::all_of(node.outputs.begin(), node.outputs.end(),
                           [&](ValueId id) { return absorbed_[id] && equal(from_.value(id).quant, quant); });
    }

    /// A node that stands for quantize: its result has steps, its operand too when it has no other use.
    void mark(const Node& node) {
        const Value& steps = from_.value(node.outputs[0]);
        const BoundQuant quant = as_i8(steps.quant, steps.elem);
        const Range held = representable(quant);
        const ValueId x = mapped(node.inputs[0]);
        const ValueId y = to_.graph.add_node(
            "clamp", {x},
            graph::attributes({graph::real("min_val", held.low), graph::real("max_val", held.high)}),
            {node.source, steps.name, from_.value(node.inputs[0]).elem, {}});
        map_[node.outputs[0]] = y;
        note(y, quant);
        to_.marks.back() = to_.plan.only_saturates.back() = true;
        const bool alone = users_[node.inputs[0]].size() == 1 && !output_[node.inputs[0]];
        if (alone) {
            note(x, quant);
        } else if (!to_.noted[x]) {
            to_.plan.quants[x] = quant;
        }
    }

    static bool is_given(const Value& value) {
        const bool type = value.elem == ElemType::i8 || value.elem == ElemType::u8 ||
                          value.elem == ElemType::i4 || value.elem == ElemType::i32;
        return value.constant() && type &&
               (value.quant.kind == proto::Quant::PER_TENSOR ||
                value.quant.kind == proto::Quant::PER_CHANNEL);
    }

    /// A constant that is stored in steps.
    void give(const Node& node) {
        const Value& value = from_.value(node.inputs[0]);
        const auto engine = values::make_fast_backend();
        const Data floats = graph::execute_node(from_, node, {value.data}, *engine)[0];
        const ValueId id =
            to_.graph.add_constant(value.name, from_.value(node.outputs[0]).elem, value.shape, floats);
        map_[node.outputs[0]] = id;
        if (value.elem == ElemType::i32) return;  // a bias: its steps follow from those of the product
        note(id, as_i8(value.quant, value.elem));
        to_.plan.given[id] = {value.elem == ElemType::u8 ? ElemType::i8 : value.elem,
                              as_i8(value.data, value.elem)};
    }

    bool is_given_constant(ValueId id) const {
        return map_[id] != absent && map_[id] < to_.plan.given.size() && to_.plan.given[map_[id]].data;
    }

    void transpose_given(const Node& node) {
        const ValueId old = map_[node.inputs[0]];
        const std::vector<int64_t>& order = node.attrs.find("perm")->ints;
        const std::vector<int> perm(order.begin(), order.end());
        const Value value = to_.graph.value(old);
        const Given given = to_.plan.given[old];
        BoundQuant quant = to_.plan.quants[old];
        const ValueId id = to_.graph.add_constant(
            from_.value(node.outputs[0]).name, value.elem, graph::permuted(value.shape, perm),
            graph::permuted(value.data, graph::element_bytes(value.elem), value.shape, perm));
        map_[node.outputs[0]] = id;
        if (quant.kind == proto::Quant::PER_CHANNEL)
            quant.axis = static_cast<int>(std::find(perm.begin(), perm.end(), quant.axis) - perm.begin());
        note(id, std::move(quant));
        to_.plan.given[id] = {
            given.elem, graph::permuted(given.data, graph::element_bytes(given.elem), value.shape, perm)};
    }

    /// False: the scales are those of no dimension any more.
    bool reshape_given(const Node& node) {
        const ValueId old = map_[node.inputs[0]];
        const Value value = to_.graph.value(old);
        const Given given = to_.plan.given[old];
        const Dims& shape = from_.value(node.outputs[0]).shape;
        std::optional<BoundQuant> quant = reshaped(to_.plan.quants[old], value.shape, shape);
        if (!quant) return false;
        const ValueId id =
            to_.graph.add_constant(from_.value(node.outputs[0]).name, value.elem, shape, value.data);
        map_[node.outputs[0]] = id;
        note(id, std::move(*quant));
        to_.plan.given[id] = given;
        return true;
    }

    void copy(const Node& node) {
        const bool in_floats = !node.inputs.empty() && is_integer(from_.value(node.inputs[0]).elem) &&
                               is_float_now(node.inputs[0]);  // so all its users are absorbed
        Node made = node;
        for (ValueId& id : made.inputs) id = mapped(id);
        const ElemType real = in_floats ? to_.graph.value(made.inputs[0]).elem : ElemType::none;
        for (ValueId& id : made.outputs) {
            const Value& value = from_.value(id);
            map_[id] = to_.graph.add_value(value.name, in_floats ? real : value.elem, value.shape,
                                           in_floats ? BoundQuant{} : value.quant);
            if (in_floats) note(map_[id], as_i8(value.quant, value.elem));
            id = map_[id];
        }
        to_.graph.nodes.push_back(std::move(made));
        grow();
    }

    const Graph& from_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<ValueId> map_;
    std::vector<bool> output_, absorbed_;  ///< by value
    Stripped to_;
};

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
        if (options_.real == ElemType::f16) narrow = keep_sums_wide(graph_, options_.supports, plan.kept);
        for (size_t n = 0; n < graph_.nodes.size(); ++n) plan.modes[n] = mode(n);
        for (size_t n = graph_.nodes.size(); n-- > 0;) leave_accumulators(n);
        fill_in_constants();
        find_saturating();
    }

    std::vector<std::string> widened;  ///< constants of 4 bits that get 8
    std::vector<NodeId> narrow;        ///< of sums that may overflow f16

  private:
    bool is_float_value(ValueId id) const { return is_float(graph_.value(id).elem); }
    bool passes_steps(const Node& node) const {
        return keeps_steps(node.spec()) || is_named(node, "relu") || is_named(node, "clamp");
    }
    /// Steps of 4 bits stay where only products that take them use them: weights of one matrix, or of a window, whose
    /// tiles begin at whole bytes.
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
        if (node.spec().op_class == OpcodeClass::gemm && graph_.value(weight).shape.rank != 2) return false;
        const std::string_view form = accumulating_form(node.spec());
        return is_supported(options_.supports, node.spec().name, types(node, true), types(node, false)) &&
               (form.empty() ||
                is_supported(options_.supports, form, {ElemType::i8, ElemType::i4}, {ElemType::i32}));
    }

    void note(ValueId id, const BoundQuant& quant) {
        model_.noted[id] = true;
        model_.plan.quants[id] = quant;
    }

    /// What only a view, a relu or a clamp uses may be made in the steps of their result.
    void spread_back() {
        for (size_t n = graph_.nodes.size(); n-- > 0;) {
            const Node& node = graph_.nodes[n];
            if (model_.marks[n] || !passes_steps(node) || !model_.noted[node.outputs[0]]) continue;
            const ValueId x = node.inputs[0];
            if (is_data(node.spec(), 0) && node.inputs.size() == 1 && users_[x].size() == 1 && !output_[x] &&
                is_float_value(x) && !model_.noted[x])
                note(x, model_.plan.quants[node.outputs[0]]);
        }
    }

    /// Views of steps have them too. Those of channels have become floats: a view may cut or join them.
    void spread_on() {
        for (const Node& node : graph_.nodes) {
            if (!keeps_steps(node.spec()) || !model_.noted[node.inputs[0]]) continue;
            if (model_.plan.quants[node.inputs[0]].kind == proto::Quant::PER_CHANNEL) continue;
            for (const ValueId y : node.outputs) {
                if (is_float_value(y) && !model_.noted[y]) note(y, model_.plan.quants[node.inputs[0]]);
            }
        }
    }

    Mode mode(size_t n) {
        const Node& node = graph_.nodes[n];
        const auto floats = [this](ValueId id) { return is_float_value(id); };
        if (std::none_of(node.inputs.begin(), node.inputs.end(), floats) &&
            std::none_of(node.outputs.begin(), node.outputs.end(), floats))
            return Mode::plain;
        if (model_.marks[n]) return Mode::quantized;
        std::string_view& reason = model_.plan.reasons[n];
        if (!has_steps(node)) {
            reason = "the model gives no steps for it";
        } else if (!is_supported(options_.supports, node.spec().name, types(node, true),
                                 types(node, false))) {
            reason = "the device has no int8 form of it";
        }
        return reason.empty() ? Mode::quantized : Mode::real;
    }

    static bool has_integer_form(const OpcodeSpec& spec) {
        return is_product(spec) || spec.op_class == OpcodeClass::elementwise ||
               spec.op_class == OpcodeClass::view || spec.op_class == OpcodeClass::pooling ||
               spec.op_class == OpcodeClass::reduction;
    }

    bool operands_have_steps(const Node& node) const {
        for (size_t i = 0; i < node.inputs.size(); ++i) {
            const ValueId id = node.inputs[i];
            const bool bias = is_product(node.spec()) && i == 2;
            if (is_data(node.spec(), i) != is_float_value(id)) return false;
            if (bias && !graph_.value(id).constant()) return false;
            if (is_product(node.spec()) && i == 1 && takes_blocks(node)) continue;
            const bool chosen_here = graph_.value(id).constant() && !(is_product(node.spec()) && i == 1);
            if (is_float_value(id) && !model_.noted[id] && !chosen_here) return false;
            if (is_product(node.spec()) && !scales_fit(id, i == 1)) return false;
        }
        return true;
    }

    /// Weights of 4 bits with scales of groups, as the model brings them.
    bool takes_blocks(const Node& node) const {
        const Value& weight = graph_.value(node.inputs[1]);
        return has_groups(weight) && graph_.value(node.inputs[0]).shape.rank == weight.shape.rank &&
               (node.spec().op_class != OpcodeClass::gemm || weight.shape.rank == 2) &&
               node.attrs.integer("groups", 1) == 1 &&
               takes_groups(options_.supports, graph::group_form(node.spec()));
    }

    /// Scales of weights stand along the output channels; what they are multiplied by has one.
    bool scales_fit(ValueId id, bool weight) const {
        const BoundQuant& quant = model_.plan.quants[id];
        return quant.kind != proto::Quant::PER_CHANNEL ||
               (weight && quant.axis == graph_.value(id).shape.rank - 1);
    }

    bool has_steps(const Node& node) const {
        return has_integer_form(node.spec()) && operands_have_steps(node) &&
               std::all_of(node.outputs.begin(), node.outputs.end(),
                           [this](ValueId id) { return !is_float_value(id) || model_.noted[id]; });
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
        const std::string_view form = accumulating_form(node.spec());
        const std::vector<NodeId>& next = users_[node.outputs[0]];
        const bool dequantizes =
            is_supported(options_.supports, "dequantize", {ElemType::i32}, {options_.real});
        if (form.empty() || model_.noted[node.outputs[0]] || (!next.empty() && !dequantizes) ||
            !is_supported(options_.supports, form, types(node, true), {ElemType::i32}))
            return;
        model_.plan.modes[n] = Mode::accumulator;
        model_.plan.reasons[n] = {};
    }

    void fill_in_constants() {
        for (ValueId id = 0; id < graph_.values.size(); ++id) {
            const Value& value = graph_.value(id);
            if (!value.constant() || !is_float(value.elem) || model_.noted[id]) continue;
            const Data data = graph::aligned(value.data, graph::element_bytes(value.elem));
            model_.plan.quants[id] = activation_quant(range_of(value.elem, data.bytes, value.elements()));
        }
    }

    void find_saturating() {
        for (size_t n = 0; n < graph_.nodes.size(); ++n) {
            const Node& node = graph_.nodes[n];
            if (model_.marks[n] || model_.plan.modes[n] != Mode::quantized) continue;
            if (!is_named(node, "relu") && !is_named(node, "clamp")) continue;
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
    Stripped model = Stripper(graph).run();
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
