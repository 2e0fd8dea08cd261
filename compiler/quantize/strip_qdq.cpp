#include "compiler/quantize/strip_qdq.hpp"

#include <algorithm>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/integer_models.hpp"
#include "compiler/quantize/parameters.hpp"

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
        to_.steps.resize(values);
        to_.plan.quants.resize(values);
        to_.plan.given.resize(values);
        to_.plan.only_saturates.resize(nodes);
        to_.marks.resize(nodes);
    }

    void note(ValueId id, Steps steps, BoundQuant quant) {
        grow();
        to_.steps[id] = steps;
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

    /// True for steps of one scale that every user makes floats of, at once or after operations that keep
    /// them.
    bool becomes_floats(ValueId id) const {
        const Value& value = from_.value(id);
        const auto returns = [this](NodeId user) {
            return is_named(from_.nodes[user], "dequantize") || keeps_them(from_.nodes[user]);
        };
        return (value.elem == ElemType::i8 || value.elem == ElemType::u8) &&
               value.quant.kind == proto::Quant::PER_TENSOR && !output_[id] &&
               std::all_of(users_[id].begin(), users_[id].end(), returns);
    }

    /// Moves one operand, whose steps its results have. What pad adds is told in steps, so they stay integers.
    bool keeps_them(const Node& node) const {
        const BoundQuant& quant = from_.value(node.inputs[0]).quant;
        const auto is_moved = [&](ValueId id) {
            return absorbed_[id] && equal(from_.value(id).quant, quant);
        };
        return moves(node) && !is_named(node, "pad") && is_data(node.spec(), 0) &&
               data_operands(node).size() == 1 &&
               std::all_of(node.outputs.begin(), node.outputs.end(), is_moved);
    }

    /// Marks a node that stands for quantize. Its operand may be made in its steps where nobody reads it in
    /// another form.
    void mark(const Node& node) {
        const BoundQuant quant = quant_of(node);
        const Range held = representable(quant);
        const ValueId x = mapped(node.inputs[0]);
        const ValueId y = to_.graph.add_node(
            "clamp", {x},
            graph::attributes({graph::real("min_val", held.low), graph::real("max_val", held.high)}),
            {node.source, from_.value(node.outputs[0]).name, from_.value(node.inputs[0]).elem, {}});
        map_[node.outputs[0]] = y;
        note(y, Steps::exact, quant);
        to_.marks.back() = to_.plan.only_saturates.back() = true;
        if (to_.steps[x] == Steps::none && !from_.value(node.inputs[0]).constant() &&
            is_only_read_in(node.inputs[0], quant))
            note(x, Steps::allowed, quant);
    }

    BoundQuant quant_of(const Node& quantize) const {
        const Value& steps = from_.value(quantize.outputs[0]);
        return as_i8(steps.quant, steps.elem);
    }

    bool is_only_read_in(ValueId id, const BoundQuant& quant) const {
        const auto reads = [&](NodeId user) {
            const Node& node = from_.nodes[user];
            return is_named(node, "quantize") && absorbed_[node.outputs[0]] && equal(quant_of(node), quant);
        };
        return !output_[id] && std::all_of(users_[id].begin(), users_[id].end(), reads);
    }

    static bool is_given(const Value& value) {
        const bool type = value.elem == ElemType::i8 || value.elem == ElemType::u8 ||
                          value.elem == ElemType::i4 || value.elem == ElemType::i32;
        return value.constant() && type &&
               (value.quant.kind == proto::Quant::PER_TENSOR ||
                value.quant.kind == proto::Quant::PER_CHANNEL);
    }

    /// Gives a constant that is stored in steps.
    void give(const Node& node) {
        const Value& value = from_.value(node.inputs[0]);
        const auto engine = values::make_fast_backend();
        const Data floats = graph::execute_node(from_, node, {value.data}, *engine)[0];
        const ValueId id =
            to_.graph.add_constant(value.name, from_.value(node.outputs[0]).elem, value.shape, floats);
        map_[node.outputs[0]] = id;
        if (value.elem == ElemType::i32) return;  // a bias: its steps follow from those of the product
        note(id, Steps::exact, as_i8(value.quant, value.elem));
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
        note(id, Steps::exact, std::move(quant));
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
        note(id, Steps::exact, std::move(*quant));
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
            if (in_floats) note(map_[id], Steps::exact, as_i8(value.quant, value.elem));
            id = map_[id];
        }
        to_.graph.nodes.push_back(std::move(made));
        grow();
        // what the host gives in steps: a cache of a language model
        const BoundQuant quant =
            is_named(node, "dequantize") ? from_.value(node.inputs[0]).quant : BoundQuant{};
        if (quant.kind == proto::Quant::PER_TENSOR && from_.value(node.inputs[0]).elem == ElemType::i8)
            note(map_[node.outputs[0]], Steps::exact, quant);
    }

    const Graph& from_;
    std::vector<std::vector<NodeId>> users_;
    std::vector<ValueId> map_;
    std::vector<bool> output_, absorbed_;  ///< indexed by value
    Stripped to_;
};

}  // namespace

Stripped strip_conversions(const Graph& graph) { return Stripper(graph).run(); }

}  // namespace kpu::quantize
