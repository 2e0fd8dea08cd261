// Normalisations and softmax that a model spells out.
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// The node that makes `value`, if it is of this opcode and computes with floats.
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

/// value = x * c or x / (1 / c) with one number c.
std::optional<double> scaled_by(const Graph& graph, const Node& node, ValueId& x) {
    if (!is_any(node, {"mul", "div"})) return {};
    for (const size_t c : {size_t{1}, size_t{0}}) {
        const auto number = uniform_number(graph.value(node.inputs[c]));
        if (!number || (c == 0 && is(node, "div"))) continue;
        x = node.inputs[1 - c];
        return is(node, "div") ? 1 / *number : *number;
    }
    return {};
}

/// A mean, also as the sum times 1/n.
std::optional<Reduced> mean(const Rewriter& rewriter, ValueId value) {
    if (const auto found = reduced(rewriter, value, "reduce_mean")) return found;
    const Node* node = rewriter.producer(value);
    ValueId sum = 0;
    const auto factor = node == nullptr ? std::nullopt : scaled_by(rewriter.graph, *node, sum);
    const auto found = factor ? reduced(rewriter, sum, "reduce_sum") : std::nullopt;
    if (!found) return {};
    const auto n =
        static_cast<double>(rewriter.graph.value(found->x).shape[static_cast<size_t>(found->axis)]);
    return std::fabs(*factor * n - 1) < 1e-6 ? found : std::nullopt;
}

/// The x of x * x.
std::optional<ValueId> squared(const Rewriter& rewriter, ValueId value) {
    const Node* node = rewriter.producer(value);
    if (node == nullptr || !is_plain_float(rewriter.graph.value(value))) return {};
    if (is(*node, "square")) return node->inputs[0];
    if (is(*node, "mul") && node->inputs[0] == node->inputs[1]) return node->inputs[0];
    if (is(*node, "pow") && uniform_number(rewriter.graph.value(node->inputs[1])) == 2.0)
        return node->inputs[0];
    return {};
}

/// value = sqrt(mean(d * d) + epsilon)
struct Root {
    ValueId d = 0;
    int64_t axis = 0;
    double epsilon = 0;
};

std::optional<Root> radicand(const Rewriter& rewriter, ValueId value) {
    Root result;
    if (const Node* sum = made_by(rewriter, value, "add")) {
        for (const size_t c : {size_t{0}, size_t{1}}) {
            const auto number = uniform_number(rewriter.graph.value(sum->inputs[c]));
            if (!number || *number < 0) continue;
            result.epsilon = *number;
            value = sum->inputs[1 - c];
            break;
        }
    }
    const auto variance = mean(rewriter, value);
    const auto d = variance ? squared(rewriter, variance->x) : std::nullopt;
    if (!d) return {};
    result.d = *d;
    result.axis = variance->axis;
    return result;
}

/// node = d / root: as a quotient, or a product with the inverse.
std::optional<Root> divided_by_root(const Rewriter& rewriter, const Node& node) {
    const auto matching = [&](ValueId d, std::optional<Root> root) {
        return root && root->d == d ? root : std::nullopt;
    };
    if (is(node, "div")) {
        const Node* root = made_by(rewriter, node.inputs[1], "sqrt");
        return root == nullptr ? std::nullopt : matching(node.inputs[0], radicand(rewriter, root->inputs[0]));
    }
    for (const size_t i : {size_t{0}, size_t{1}}) {
        if (!is(node, "mul")) break;
        const Node* inverse = made_by(rewriter, node.inputs[i], "rsqrt");
        if (inverse == nullptr) {
            const Node* reciprocal = made_by(rewriter, node.inputs[i], "reciprocal");
            inverse = reciprocal == nullptr ? nullptr : made_by(rewriter, reciprocal->inputs[0], "sqrt");
        }
        if (inverse == nullptr) continue;
        if (auto found = matching(node.inputs[1 - i], radicand(rewriter, inverse->inputs[0]))) return found;
    }
    return {};
}

bool find_norm(Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    if (!is_any(node, {"div", "mul"}) || !is_plain_float(rewriter.graph.value(node.outputs[0]))) return false;
    const auto root = divided_by_root(rewriter, node);
    if (!root) return false;
    const BoundAttrs attrs =
        graph::attributes({graph::integer("axis", root->axis), graph::real("epsilon", root->epsilon)});
    if (const Node* difference = made_by(rewriter, root->d, "sub")) {
        const auto centre = mean(rewriter, difference->inputs[1]);
        if (centre && centre->x == difference->inputs[0] && centre->axis == root->axis) {
            become(rewriter, id, "layernorm", {centre->x}, attrs);
            return true;
        }
    }
    become(rewriter, id, "rmsnorm", {root->d}, attrs);
    return true;
}

ValueId vector_constant(Rewriter& rewriter, const std::string& name, ElemType elem,
                        const std::vector<double>& elements) {
    return rewriter.add_constant(name, elem, graph::dims({static_cast<int64_t>(elements.size())}),
                                 graph::make_numbers(elem, elements));
}

/// norm(x) * scale, norm(x) + bias.
bool take_scale_and_bias(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!is_any(node, {"mul", "add"})) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
        const Node* norm = rewriter.producer(node.inputs[i]);
        if (norm == nullptr || norm->spec().op_class != OpcodeClass::norm) continue;
        if (!is_any(*norm, {"layernorm", "rmsnorm"}) || !rewriter.read_only_by(node.inputs[i], id)) continue;
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

/// The x of exp(x) that is summed up along an axis.
std::optional<Reduced> sum_of_exp(const Rewriter& rewriter, ValueId sum, ValueId& exponential) {
    const auto total = reduced(rewriter, sum, "reduce_sum");
    const Node* exp = total ? made_by(rewriter, total->x, "exp") : nullptr;
    if (exp == nullptr) return {};
    exponential = total->x;
    return Reduced{exp->inputs[0], total->axis};
}

/// x instead of x - max(x), which softmax subtracts itself.
ValueId without_maximum(const Rewriter& rewriter, const Reduced& z) {
    const Node* difference = made_by(rewriter, z.x, "sub");
    const auto top =
        difference == nullptr ? std::nullopt : reduced(rewriter, difference->inputs[1], "reduce_max");
    return top && top->axis == z.axis && top->x == difference->inputs[0] ? top->x : z.x;
}

/// exp(z) / sum exp(z)
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

/// log softmax(x), and z - log sum exp(z)
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
