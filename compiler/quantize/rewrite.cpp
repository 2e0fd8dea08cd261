#include "compiler/quantize/rewrite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/quantize/parameters.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::Port;
using graph::Source;
using graph::Value;
using graph::ValueId;

constexpr ValueId absent = UINT32_MAX;

/// Forms of a value of the float graph in the new one.
struct Forms {
    ValueId steps = absent;                  ///< i8, as it is made
    std::vector<ValueId> others = {};        ///< i8, in steps that only some readers want
    std::map<ElemType, ValueId> reals = {};  ///< in floats
    ValueId plain = absent;                  ///< integers that stand for themselves
};

/// Weights in i4, with a scale for each group of input channels.
struct Groups {
    ValueId numbers = absent, scales = absent;
    int64_t size = 0;
};

class Rewriter {
  public:
    Rewriter(const Graph& from, const Plan& plan, const QuantizeOptions& options)
        : from_(from),
          plan_(plan),
          options_(options),
          users_(graph::users(from)),
          forms_(from.values.size()) {
        to_.name = from.name;
    }

    Graph run() {
        add_inputs();
        for (size_t n = 0; n < from_.nodes.size(); ++n) {
            source_ = from_.nodes[n].source;
            switch (plan_.modes[n]) {
                case Mode::plain:
                case Mode::real:
                    copy(n);
                    break;
                case Mode::quantized:
                    quantize(n);
                    break;
                case Mode::accumulator:
                    leave_accumulator(from_.nodes[n]);
                    break;
            }
        }
        add_outputs();
        graph::remove_unused(to_);
        return std::move(to_);
    }

  private:
    bool is_float_value(ValueId id) const { return is_float(from_.value(id).elem); }

    // ---- the forms of a value

    ValueId plain(ValueId id) {
        Forms& forms = forms_[id];
        const Value& value = from_.value(id);
        if (forms.plain == absent)
            forms.plain = to_.add_constant(value.name, value.elem, value.shape, value.data, value.quant);
        return forms.plain;
    }

    ValueId real(ValueId id, ElemType elem) {
        Forms& forms = forms_[id];
        const Value& value = from_.value(id);
        if (const auto found = forms.reals.find(elem); found != forms.reals.end()) return found->second;
        ValueId made = absent;
        if (value.constant()) {
            made = to_.add_constant(value.name, elem, value.shape, real_data(value, elem));
        } else if (forms.reals.empty()) {
            made = add("dequantize", {forms.steps}, {}, value.name, elem, {});
        } else {
            made = add("cast", {forms.reals.rbegin()->second}, {}, value.name, elem, {});
        }
        return forms.reals[elem] = made;
    }
    /// Returns the value in the type that it has; in the device's if it has none.
    ValueId real(ValueId id) {
        const Forms& forms = forms_[id];
        return forms.reals.empty() ? real(id, options_.real) : forms.reals.rbegin()->second;
    }

    static graph::Data real_data(const Value& value, ElemType elem) {
        if (value.elem == elem) return value.data;
        // finite numbers stay finite: the differences of infinities are NaN
        const double most = elem == ElemType::f16 ? 65504 : elem == ElemType::bf16 ? 0x1.fep127 : HUGE_VAL;
        std::vector<double> numbers = graph::numbers(value);
        for (double& number : numbers) {
            if (std::isfinite(number)) number = std::clamp(number, -most, most);
        }
        return graph::make_numbers(elem, numbers);
    }

    ValueId steps(ValueId id) { return steps(id, plan_.quants[id]); }

    /// Returns the value in these steps: rounded once from the floats, if it is made in floats.
    ValueId steps(ValueId id, const BoundQuant& quant) {
        Forms& forms = forms_[id];
        const Value& value = from_.value(id);
        if (value.constant()) return constant_steps(id, quant);
        const auto fits = [&](ValueId form) { return equal(to_.value(form).quant, quant); };
        if (forms.steps != absent && fits(forms.steps)) return forms.steps;
        if (const auto made = std::find_if(forms.others.begin(), forms.others.end(), fits);
            made != forms.others.end())
            return *made;
        const ValueId made = forms.steps == absent
                                 ? add("quantize", {quantizable(id)}, {}, value.name, ElemType::i8, quant)
                                 : requantised(forms.steps, value.name, quant);
        forms.others.push_back(made);
        return made;
    }

    /// Returns the value in floats that the device makes steps of.
    ValueId quantizable(ValueId id) {
        const ValueId own = real(id);
        const bool can = is_supported(options_.supports, "quantize", {to_.value(own).elem}, {ElemType::i8});
        return can ? own : real(id, options_.real);
    }

    ValueId requantised(ValueId steps, const std::string& name, const BoundQuant& quant) {
        const Range held = representable(quant);
        return add("clamp", {steps},
                   graph::attributes({graph::real("min_val", held.low), graph::real("max_val", held.high)}),
                   name, ElemType::i8, quant);
    }

    ValueId constant_steps(ValueId id, const BoundQuant& quant) {
        Forms& forms = forms_[id];
        const Value& value = from_.value(id);
        if (forms.steps != absent && equal(to_.value(forms.steps).quant, quant)) return forms.steps;
        Given given{ElemType::i8, {}};
        if (plan_.given[id].data && equal(plan_.quants[id], quant)) {
            given = plan_.given[id];
        } else {
            given.data = quantized_data(value, quant);
        }
        return forms.steps = to_.add_constant(value.name, given.elem, value.shape, given.data, quant);
    }

    ValueId add(std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs, std::string name,
                ElemType elem, BoundQuant quant) {
        return to_.add_node(opcode, std::move(operands), std::move(attrs),
                            {source_, std::move(name), elem, std::move(quant)});
    }

    // ---- nodes

    /// Copies the node as it is; floats in the device's type.
    void copy(size_t n) {
        const Node& node = from_.nodes[n];
        const ElemType elem = plan_.kept[n] == ElemType::none ? options_.real : plan_.kept[n];
        std::vector<ValueId> operands;
        for (const ValueId id : node.inputs)
            operands.push_back(is_float_value(id) ? real(id, elem) : plain(id));
        append(node, node.spec().name, std::move(operands), node.attrs);
        for (size_t o = 0; o < node.outputs.size(); ++o) {
            const ValueId made = to_.nodes.back().outputs[o], old = node.outputs[o];
            to_.value(made).elem = is_float_value(old) ? elem : from_.value(old).elem;
            to_.value(made).quant = from_.value(old).quant;
            (is_float_value(old) ? forms_[old].reals[elem] : forms_[old].plain) = made;
        }
        if (node.spec().name != "dequantize") return;
        const ValueId old = node.outputs[0], given = forms_[node.inputs[0]].plain;
        if (given != absent && to_.value(given).elem == ElemType::i8 &&
            equal(to_.value(given).quant, plan_.quants[old]))
            forms_[old].steps = given;  // readers of steps need no floats
    }

    void quantize(size_t n) {
        const Node& node = from_.nodes[n];
        if (plan_.only_saturates[n]) {
            forms_[node.outputs[0]].steps = steps(node.inputs[0], plan_.quants[node.outputs[0]]);
            Node* maker = maker_of(forms_[node.outputs[0]].steps);
            const bool is_known = maker != nullptr && !maker->absorbed.empty() &&
                                  maker->absorbed.back().name == node.source.name;  // two nodes of one clamp
            if (maker != nullptr && !is_known) maker->absorbed.push_back(node.source);
            return;
        }
        if (in_groups(node)) {
            const ValueId out = node.outputs[0], sums = grouped(node);
            forms_[out].steps =
                add("quantize", {sums}, {}, from_.value(out).name, ElemType::i8, plan_.quants[out]);
            return;
        }
        if (is_product(node.spec())) {
            append(node, node.spec().name, product_operands(node), integer_attributes(node));
        } else {
            const bool same_steps = moves(node);
            std::vector<ValueId> operands;
            for (const ValueId id : node.inputs) {
                operands.push_back(!is_float_value(id) ? plain(id)
                                   : same_steps        ? steps(id, plan_.quants[node.outputs[0]])
                                                       : steps(id));
            }
            append(node, node.spec().name, std::move(operands), node.attrs);
        }
        for (size_t o = 0; o < node.outputs.size(); ++o) {
            const ValueId made = to_.nodes.back().outputs[o], old = node.outputs[o];
            to_.value(made).elem = is_float_value(old) ? ElemType::i8 : from_.value(old).elem;
            if (is_float_value(old)) to_.value(made).quant = plan_.quants[old];
            (is_float_value(old) ? forms_[old].steps : forms_[old].plain) = made;
        }
    }

    /// Leaves i32 sums with the scale of each channel, and their floats.
    void leave_accumulator(const Node& node) {
        if (in_groups(node)) {
            const ValueId out = node.outputs[0], sums = grouped(node);
            const ElemType elem = is_only_output(out) ? ElemType::f32 : options_.real;
            forms_[out].reals[elem] =
                elem == ElemType::f32 ? sums : add("cast", {sums}, {}, from_.value(out).name, elem, {});
            return;
        }
        std::vector<ValueId> operands = product_operands(node);
        const Value& out = from_.value(node.outputs[0]);
        const BoundQuant quant = accumulator_quant(operands, out.shape.rank);
        append(node, node.spec().traits.sums_form, std::move(operands), integer_attributes(node));
        const ValueId sums = to_.nodes.back().outputs[0];
        to_.value(sums).elem = ElemType::i32;
        to_.value(sums).quant = quant;
        const ElemType elem = float_of_sums(node.outputs[0]);
        const ElemType form = elem == ElemType::none ? options_.real : elem;
        forms_[node.outputs[0]].reals[form] =
            elem == ElemType::none ? sums : add("dequantize", {sums}, {}, out.name, elem, {});
    }

    bool is_only_output(ValueId id) const { return users_[id].empty(); }

    /// Returns the type that sums become on the device; none: the host makes floats of them. Outputs are f32
    /// where the device can.
    ElemType float_of_sums(ValueId id) const {
        const auto makes = [this](ElemType elem) {
            return is_supported(options_.supports, "dequantize", {ElemType::i32}, {elem});
        };
        if (is_only_output(id) && makes(ElemType::f32)) return ElemType::f32;
        return makes(options_.real) ? options_.real : ElemType::none;
    }

    void append(const Node& node, std::string_view opcode, std::vector<ValueId> operands, BoundAttrs attrs) {
        Node made = to_.make_node(opcode, std::move(operands), std::move(attrs),
                                  {node.source, from_.value(node.outputs[0]).name, ElemType::none, {}});
        made.absorbed = node.absorbed;
        to_.nodes.push_back(std::move(made));
    }

    /// Returns the node; null: none, it is an input or a constant.
    Node* maker_of(ValueId id) {
        for (size_t n = to_.nodes.size(); n-- > 0;) {
            const auto& outputs = to_.nodes[n].outputs;
            if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) return &to_.nodes[n];
        }
        return nullptr;
    }

    // ---- products

    static BoundAttrs integer_attributes(const Node& node) {
        BoundAttrs attrs = node.attrs;
        for (BoundAttr& attr : attrs.list) {
            if (attr.name == "accum_type") attr.type = ElemType::i32;
        }
        return attrs;
    }

    /// True if the weights of a product become i4 with scales of groups.
    bool in_groups(const Node& node) const {
        if (!is_product(node.spec())) return false;
        const Value& weight = from_.value(node.inputs[1]);
        if (options_.group_size == 0 && !has_groups(weight)) return false;
        const std::string_view form = node.spec().traits.group_form;
        const bool matrix =
            node.spec().traits.needs == Needs::matrix && from_.value(node.inputs[0]).shape.rank == 2;
        const bool image = node.spec().traits.needs == Needs::window && node.attrs.integer("groups", 1) == 1;
        return !form.empty() && (matrix || image) && weight.constant() && !plan_.given[node.inputs[1]].data &&
               takes_groups(options_.supports, form);
    }

    /// Returns the weights in i4; those that several products read are there once.
    Groups groups_of(ValueId id) {
        const auto [found, is_new] = groups_.try_emplace(id);
        if (is_new) {
            const Value& weight = from_.value(id);
            GroupedWeights weights =
                has_groups(weight) ? given_groups(weight) : grouped_weights(weight, options_.group_size);
            found->second.numbers =
                to_.add_constant(weight.name, ElemType::i4, weight.shape, std::move(weights.data));
            found->second.scales = to_.add_constant(weight.name + ":scales", weights.scale_elem,
                                                    weights.scale_shape, std::move(weights.scales));
            found->second.size = weights.group_size;
        }
        return found->second;
    }

    /// Returns the f32 sums of a product with i4 weights.
    ValueId grouped(const Node& node) {
        const Groups weights = groups_of(node.inputs[1]);
        std::vector<ValueId> operands = {steps(node.inputs[0]), weights.numbers, weights.scales};
        if (node.inputs.size() > 2) operands.push_back(real(node.inputs[2], ElemType::f32));
        BoundAttrs attrs;
        for (const BoundAttr& attr : node.attrs.list) {
            if (attr.name != "accum_type" && attr.name != "groups") attrs.list.push_back(attr);
        }
        attrs.list.push_back(graph::integer("group_size", weights.size));
        append(node, node.spec().traits.group_form, std::move(operands), std::move(attrs));
        const ValueId sums = to_.nodes.back().outputs[0];
        to_.value(sums).elem = ElemType::f32;
        return sums;
    }

    /// Returns the weights with a scale for each output channel; those that several products read are there
    /// once.
    ValueId channel_steps(ValueId id) {
        const auto [found, is_new] = weights_.try_emplace(id, absent);
        if (is_new) {
            const Value& weight = from_.value(id);
            Weights weights = quantized_weights(weight, least_scales(id));
            found->second = to_.add_constant(weight.name, ElemType::i8, weight.shape, std::move(weights.data),
                                             std::move(weights.quant));
        }
        return found->second;
    }

    /// Returns the least scales that the biases of all products with these weights ask for.
    std::vector<double> least_scales(ValueId weight) const {
        std::vector<double> least;
        for (const graph::NodeId user : users_[weight]) {
            const Node& node = from_.nodes[user];
            if (!is_product(node.spec()) || node.inputs.size() < 3 || node.inputs[1] != weight) continue;
            const BoundQuant& x = plan_.quants[node.inputs[0]];
            if (x.scales.empty()) continue;  // it stays a float product
            const Dims& out = from_.value(node.outputs[0]).shape;
            const std::vector<double> own =
                least_scales_for(from_.value(node.inputs[2]), x.scales[0], out[out.rank - 1U]);
            least.resize(own.size(), 0);
            for (size_t c = 0; c < own.size(); ++c) least[c] = std::max(least[c], own[c]);
        }
        return least;
    }

    /// Returns X, W and, where there is one, the bias in steps of their products.
    std::vector<ValueId> product_operands(const Node& node) {
        const Value &weight = from_.value(node.inputs[1]), &out = from_.value(node.outputs[0]);
        const Value* bias = node.inputs.size() == 3 ? &from_.value(node.inputs[2]) : nullptr;
        std::vector<ValueId> operands = {steps(node.inputs[0])};
        if (weight.constant() && !plan_.given[node.inputs[1]].data) {
            operands.push_back(channel_steps(node.inputs[1]));
        } else {
            operands.push_back(steps(node.inputs[1]));
        }
        if (bias != nullptr) operands.push_back(bias_of(*bias, operands, out.shape));
        return operands;
    }

    ValueId bias_of(const Value& bias, const std::vector<ValueId>& operands, const Dims& out) {
        Value whole = bias;  // its last dimension has the scales of the channels
        const int64_t channels = out[out.rank - 1U];
        const BoundQuant sums = accumulator_quant(operands, out.rank);
        if (whole.shape.rank == 0 || whole.shape[whole.shape.rank - 1U] != channels) {
            if (whole.shape.rank == 0) whole.shape.rank = 1;
            whole.shape[whole.shape.rank - 1U] = channels;
            whole.data =
                graph::broadcast_to(bias.data, graph::element_bytes(bias.elem), bias.shape, whole.shape);
        }
        BoundQuant quant = sums;
        if (quant.kind == proto::Quant::PER_CHANNEL) quant.axis = whole.shape.rank - 1;
        graph::Data data = quantized_bias(whole, sums.scales);
        return to_.add_constant(bias.name, ElemType::i32, whole.shape, std::move(data), std::move(quant));
    }

    /// Returns the steps of X times W, along the last of `rank` dimensions.
    BoundQuant accumulator_quant(const std::vector<ValueId>& operands, int rank) const {
        const BoundQuant &x = to_.value(operands[0]).quant, &w = to_.value(operands[1]).quant;
        std::vector<double> scales = w.scales;
        for (double& scale : scales) scale *= x.scales[0];
        if (w.kind == proto::Quant::PER_TENSOR) return per_tensor(scales[0], 0);
        return per_channel(rank - 1, std::move(scales));
    }

    // ---- inputs and outputs

    Port port_of(const Port& port, ValueId value) const {
        Port result = port;
        result.value = value;
        if (port.elem == ElemType::none) result.elem = from_.value(port.value).elem;
        return result;
    }

    /// Returns the steps that a node reads an operand in; null: it reads floats.
    const BoundQuant* steps_read(size_t n, ValueId operand) const {
        if (plan_.modes[n] != Mode::quantized && plan_.modes[n] != Mode::accumulator) return nullptr;
        const Node& node = from_.nodes[n];
        return &plan_.quants[plan_.only_saturates[n] || moves(node) ? node.outputs[0] : operand];
    }

    /// Returns the steps that all readers of an input want, so that the host can round it to them; null: they
    /// differ.
    const BoundQuant* steps_of_input(ValueId id) const {
        const BoundQuant* steps = nullptr;
        for (const graph::NodeId n : users_[id]) {
            const BoundQuant* read = steps_read(n, id);
            if (read == nullptr || !*read || (steps != nullptr && !equal(*read, *steps))) return nullptr;
            steps = read;
        }
        const auto is_same = [id](const Port& port) { return port.value == id; };
        return std::any_of(from_.outputs.begin(), from_.outputs.end(), is_same) ? nullptr : steps;
    }

    void add_inputs() {
        for (const Port& port : from_.inputs) {
            const Value& value = from_.value(port.value);
            Forms& forms = forms_[port.value];
            if (!is_float(value.elem)) {
                forms.plain = to_.add_value(value.name, value.elem, value.shape, value.quant);
                to_.inputs.push_back(port_of(port, forms.plain));
            } else if (const BoundQuant* steps = steps_of_input(port.value);
                       steps != nullptr && !options_.boundary_on_device) {
                forms.steps = to_.add_value(value.name, ElemType::i8, value.shape, *steps);
                to_.inputs.push_back(port_of(port, forms.steps));
            } else {
                const ElemType elem = type_of_input(port.value);
                forms.reals[elem] = to_.add_value(value.name, elem, value.shape);
                to_.inputs.push_back(port_of(port, forms.reals[elem]));
            }
        }
    }

    /// Returns the type of its readers, if they agree.
    ElemType type_of_input(ValueId id) const {
        ElemType type = ElemType::none;
        for (size_t n = 0; n < from_.nodes.size(); ++n) {
            const auto& operands = from_.nodes[n].inputs;
            if (std::find(operands.begin(), operands.end(), id) == operands.end()) continue;
            const ElemType kept = plan_.kept[n];
            if (kept == ElemType::none || (type != ElemType::none && kept != type)) return options_.real;
            type = kept;
        }
        return type == ElemType::none ? options_.real : type;
    }

    /// Floats, if there are some, came of the steps.
    static bool is_made_in_steps(const Forms& forms) {
        const auto later = [&](const auto& real) { return forms.steps < real.second; };
        return forms.steps != absent && std::all_of(forms.reals.begin(), forms.reals.end(), later);
    }

    void add_outputs() {
        for (const Port& port : from_.outputs) {
            const Forms& forms = forms_[port.value];
            source_ = {};
            ValueId value = absent;
            if (!is_float_value(port.value)) {
                value = plain(port.value);
            } else if (is_made_in_steps(forms) && !options_.boundary_on_device) {
                value = forms.steps;  // whoever needs floats too: the host makes its own
            } else {
                value = real(port.value);
            }
            to_.outputs.push_back(port_of(port, value));
        }
    }

    const Graph& from_;
    const Plan& plan_;
    const QuantizeOptions& options_;
    std::vector<std::vector<graph::NodeId>> users_;  ///< indexed by value
    std::vector<Forms> forms_;
    std::map<ValueId, ValueId> weights_;  ///< weights that become i8 by channels
    std::map<ValueId, Groups> groups_;
    Source source_;  ///< source of the node being rewritten: what is inserted is charged to it
    Graph to_;
};

}  // namespace

Graph rewrite(const Graph& graph, const Plan& plan, const QuantizeOptions& options) {
    return Rewriter(graph, plan, options).run();
}

}  // namespace kpu::quantize
