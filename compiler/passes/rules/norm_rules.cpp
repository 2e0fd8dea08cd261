// Scale and bias of normalisations, and softmax that a model spells out.
#include "compiler/graph/data.hpp"
#include "compiler/passes/rules.hpp"
#include "compiler/passes/rules/norm_forms.hpp"

namespace kpu::passes {
namespace {

/// Returns the node that makes `value`, if it is of this opcode and computes with floats.
const Node* made_by(const Rewriter& rewriter, ValueId value, std::string_view opcode) {
    const Node* node = rewriter.producer(value);
    if (node == nullptr || !is(*node, opcode) || !is_plain_float(rewriter.graph.value(value))) return nullptr;
    return node;
}

/// value = reduction of x along one axis, which stays with size 1.
struct Reduced {
    ValueId x = 0;
    int64_t axis = 0;
};

std::optional<Reduced> reduced(const Rewriter& rewriter, ValueId value, std::string_view opcode) {
    const Node* node = made_by(rewriter, value, opcode);
    if (node == nullptr || node->attrs.integer("keepdims", 0) == 0) return {};
    const std::vector<int64_t> axes = ints_of(*node, "axes");
    const size_t rank = rewriter.graph.value(node->inputs[0]).shape.rank;
    if (axes.size() != 1) return {};
    return Reduced{node->inputs[0], static_cast<int64_t>(from_front(axes[0], rank))};
}

ValueId vector_constant(Rewriter& rewriter, const std::string& name, ElemType elem,
                        const std::vector<double>& elements) {
    return rewriter.add_constant(name, elem, graph::dims({static_cast<int64_t>(elements.size())}),
                                 graph::make_numbers(elem, elements));
}

/// Takes norm(x) * scale, norm(x) + bias.
bool take_scale_and_bias(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_any(node, {"mul", "add"})) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
        const Node* norm = rewriter.producer(node.inputs[i]);
        if (norm == nullptr || !is_any(*norm, {"layernorm", "rmsnorm"}) ||
            !rewriter.read_only_by(node.inputs[i], id))
            continue;
        const graph::Value& c = graph.value(node.inputs[1 - i]);
        const Dims& shape = graph.value(node.outputs[0]).shape;
        if (!(shape == graph.value(norm->outputs[0]).shape)) continue;
        const size_t axis = from_front(norm->attrs.integer("axis", 0), shape.rank);
        const auto elements = along_axis(c, shape, axis);
        const size_t operands = is(node, "mul") ? 1 : 2;  // a scale comes before any bias
        const bool room = norm->inputs.size() <= operands && norm->spec().inputs.size() > operands;
        if (!elements || !room) continue;
        std::vector<ValueId> inputs = norm->inputs;
        const std::string name = c.name;
        const ElemType elem = c.elem;
        const Node before = *norm;
        if (inputs.size() < operands) {
            inputs.push_back(vector_constant(rewriter, name, elem, std::vector<double>(elements->size(), 1)));
        }
        inputs.push_back(vector_constant(rewriter, name, elem, *elements));
        std::swap(graph.nodes[id].source,
                  graph.nodes[static_cast<size_t>(rewriter.producer_id(before.outputs[0]))].source);
        become(rewriter, id, before.spec().name, inputs, before.attrs);
        return true;
    }
    return false;
}

/// Returns the x of exp(x) that is summed up along an axis.
std::optional<Reduced> sum_of_exp(const Rewriter& rewriter, ValueId sum, ValueId& exponential) {
    const auto total = reduced(rewriter, sum, "reduce_sum");
    const Node* exp = total ? made_by(rewriter, total->x, "exp") : nullptr;
    if (exp == nullptr) return {};
    exponential = total->x;
    return Reduced{exp->inputs[0], total->axis};
}

/// Returns x instead of x - max(x), which softmax subtracts itself.
ValueId without_maximum(const Rewriter& rewriter, const Reduced& z) {
    const Node* difference = made_by(rewriter, z.x, "sub");
    const auto top =
        difference == nullptr ? std::nullopt : reduced(rewriter, difference->inputs[1], "reduce_max");
    return top && top->axis == z.axis && top->x == difference->inputs[0] ? top->x : z.x;
}

/// Matches exp(z) / sum exp(z).
bool find_softmax(Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    if (!is(node, "div")) return false;
    ValueId exponential = 0;
    const auto z = sum_of_exp(rewriter, node.inputs[1], exponential);
    if (!z || exponential != node.inputs[0]) return false;
    become(rewriter, id, "softmax", {without_maximum(rewriter, *z)},
           graph::attributes({graph::integer("axis", z->axis)}));
    return true;
}

/// Matches log softmax(x), and z - log sum exp(z).
bool find_log_softmax(Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    if (is(node, "log")) {
        const Node* softmax = made_by(rewriter, node.inputs[0], "softmax");
        if (softmax == nullptr || !rewriter.read_only_by(node.inputs[0], id)) return false;
        become(rewriter, id, "log_softmax", softmax->inputs, softmax->attrs);
        return true;
    }
    const Node* log = is(node, "sub") ? made_by(rewriter, node.inputs[1], "log") : nullptr;
    ValueId exponential = 0;
    const auto z = log == nullptr ? std::nullopt : sum_of_exp(rewriter, log->inputs[0], exponential);
    if (!z || z->x != node.inputs[0]) return false;
    become(rewriter, id, "log_softmax", {without_maximum(rewriter, *z)},
           graph::attributes({graph::integer("axis", z->axis)}));
    return true;
}

}  // namespace

const std::vector<Rule> norm_rules = {find_norm, take_scale_and_bias, find_softmax, find_log_softmax};

}  // namespace kpu::passes
