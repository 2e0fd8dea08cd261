// Activation functions that a model spells out.
#include <cmath>

#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// constant * product of factors: what a tree of mul, div and pow comes to.
struct Product {
    double constant = 1;
    std::vector<ValueId> factors;
};

/// Multiplies out. Inner nodes count only as long as nobody else reads them: a factor stays a factor.
void multiply_out(const Rewriter& rewriter, ValueId value, NodeId reader, int depth, Product& product) {
    const Graph& graph = rewriter.graph;
    const Node* node = rewriter.producer(value);
    if (const auto number = uniform_number(graph.value(value))) {
        product.constant *= *number;
        return;
    }
    const bool open = node != nullptr && depth > 0 && is_any(*node, {"mul", "div", "pow", "square"}) &&
                      rewriter.read_only_by(value, reader) && is_plain_float(graph.value(value));
    const auto id = static_cast<NodeId>(rewriter.producer_id(value));
    // of div and pow: the number that stands second; NaN: none does
    const double second = open && node->inputs.size() == 2
                              ? uniform_number(graph.value(node->inputs[1])).value_or(std::nan(""))
                              : std::nan("");
    const auto times = [&](size_t operand) {
        multiply_out(rewriter, node->inputs[operand], id, depth - 1, product);
    };
    if (open && is(*node, "mul")) {
        times(0);
        times(1);
    } else if (open && is(*node, "div") && !std::isnan(second)) {
        product.constant /= second;
        times(0);
    } else if (open && is(*node, "square")) {
        product.factors.insert(product.factors.end(), 2, node->inputs[0]);
    } else if (open && is(*node, "pow") && (second == 2 || second == 3)) {
        product.factors.insert(product.factors.end(), static_cast<size_t>(second), node->inputs[0]);
    } else {
        product.factors.push_back(value);
    }
}

Product product_of(const Rewriter& rewriter, ValueId value, NodeId reader) {
    Product product;
    multiply_out(rewriter, value, reader, 6, product);
    return product;
}

/// Returns the product that a node itself is.
Product product_at(const Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    Product product;
    if (is(node, "mul")) {
        for (const ValueId operand : node.inputs) multiply_out(rewriter, operand, id, 6, product);
    } else if (is(node, "div")) {
        if (const auto number = uniform_number(rewriter.graph.value(node.inputs[1]))) {
            multiply_out(rewriter, node.inputs[0], id, 6, product);
            product.constant /= *number;
        }
    }
    return product;
}

/// True for nearly equal numbers: constants of models are rounded to their type.
bool near(const Graph& graph, ValueId value, double number, double expected) {
    const double tolerance = graph.value(value).elem == ElemType::f32 ? 1e-5 : 4e-3;
    return std::fabs(number - expected) <= tolerance * std::fabs(expected);
}

/// Matches value = 1 + f: returns the node that makes f.
const Node* beside_one(const Rewriter& rewriter, ValueId value) {
    const Node* sum = rewriter.producer(value);
    if (sum == nullptr || !is(*sum, "add")) return nullptr;
    for (const size_t i : {size_t{0}, size_t{1}}) {
        if (uniform_number(rewriter.graph.value(sum->inputs[i])) == 1.0)
            return rewriter.producer(sum->inputs[1 - i]);
    }
    return nullptr;
}

/// Matches value = 1 + 0.044715 x^2, or x + 0.044715 x^3 when `power` is 3.
bool is_cubic(const Rewriter& rewriter, ValueId value, ValueId x, size_t power) {
    const Graph& graph = rewriter.graph;
    const Node* sum = rewriter.producer(value);
    if (sum == nullptr || !is(*sum, "add")) return false;
    const auto reader = static_cast<NodeId>(rewriter.producer_id(value));
    for (const size_t i : {size_t{0}, size_t{1}}) {
        const ValueId first = sum->inputs[i];
        const bool starts = power == 3 ? first == x : uniform_number(graph.value(first)) == 1.0;
        if (!starts) continue;
        const Product rest = product_of(rewriter, sum->inputs[1 - i], reader);
        if (rest.factors == std::vector<ValueId>(power, x) && near(graph, x, rest.constant, 0.044715))
            return true;
    }
    return false;
}

bool is_tanh_argument(const Rewriter& rewriter, const Node& tanh, ValueId x) {
    const auto reader = static_cast<NodeId>(rewriter.producer_id(tanh.outputs[0]));
    const Product u = product_of(rewriter, tanh.inputs[0], reader);
    if (!near(rewriter.graph, x, u.constant, 0.79788456080286535588)) return false;  // sqrt(2 / pi)
    if (u.factors.size() == 1) return is_cubic(rewriter, u.factors[0], x, 3);
    if (u.factors.size() != 2 || (u.factors[0] != x && u.factors[1] != x)) return false;
    return is_cubic(rewriter, u.factors[0] == x ? u.factors[1] : u.factors[0], x, 2);
}

/// Returns the opcode that x * w is, times a constant; "" none.
std::string_view gelu_of(const Rewriter& rewriter, double constant, ValueId x, ValueId w) {
    const Node* f = beside_one(rewriter, w);
    if (f == nullptr || !near(rewriter.graph, x, constant, 0.5)) return "";
    const auto reader = static_cast<NodeId>(rewriter.producer_id(f->outputs[0]));
    if (is(*f, "erf")) {
        const Product u = product_of(rewriter, f->inputs[0], reader);
        const bool fits = u.factors == std::vector<ValueId>{x} &&
                          near(rewriter.graph, x, u.constant, 0.70710678118654752440);
        return fits ? "gelu" : "";
    }
    return is(*f, "tanh") && is_tanh_argument(rewriter, *f, x) ? "gelu_tanh" : "";
}

/// Matches w = min(max(x + 3, 0), 6).
bool is_clamped_by_six(const Rewriter& rewriter, const Node& w, ValueId x) {
    if (!is(w, "clamp") || w.attrs.real("min_val", 1) != 0 || w.attrs.real("max_val", 0) != 6) return false;
    const Node* sum = rewriter.producer(w.inputs[0]);
    if (sum == nullptr || !is(*sum, "add")) return false;
    const Graph& graph = rewriter.graph;
    return (sum->inputs[0] == x && uniform_number(graph.value(sum->inputs[1])) == 3.0) ||
           (sum->inputs[1] == x && uniform_number(graph.value(sum->inputs[0])) == 3.0);
}

bool is_hard_sigmoid(const Rewriter& rewriter, const Node& w, ValueId x) {
    return is(w, "hard_sigmoid") && w.inputs[0] == x && w.attrs.real("beta", 0) == 0.5 &&
           near(rewriter.graph, x, w.attrs.real("alpha", 0), 1.0 / 6);
}

/// Matches mish: tanh(softplus(x)).
bool is_tanh_of_softplus(const Rewriter& rewriter, const Node& w, ValueId x) {
    const Node* inner = is(w, "tanh") ? rewriter.producer(w.inputs[0]) : nullptr;
    return inner != nullptr && is(*inner, "softplus") && inner->inputs[0] == x;
}

std::string_view activation_of(const Rewriter& rewriter, double constant, ValueId x, ValueId w) {
    const Node* f = rewriter.producer(w);
    if (f == nullptr || !is_elementwise(*f)) return "";
    if (constant == 1) {
        if (is(*f, "sigmoid") && f->inputs[0] == x) return "silu";
        if (is_hard_sigmoid(rewriter, *f, x)) return "hard_swish";
        if (is_tanh_of_softplus(rewriter, *f, x)) return "mish";
        return "";
    }
    if (near(rewriter.graph, x, constant, 1.0 / 6) && is_clamped_by_six(rewriter, *f, x)) return "hard_swish";
    return gelu_of(rewriter, constant, x, w);
}

bool find_activation(Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    if (!is_any(node, {"mul", "div"}) || !is_plain_float(rewriter.graph.value(node.outputs[0]))) return false;
    const Product product = product_at(rewriter, id);
    if (product.factors.size() != 2) return false;
    for (const size_t i : {size_t{0}, size_t{1}}) {
        const ValueId x = product.factors[i];
        const std::string_view name = activation_of(rewriter, product.constant, x, product.factors[1 - i]);
        const bool same_shape = rewriter.graph.value(x).shape == rewriter.graph.value(node.outputs[0]).shape;
        if (name.empty() || !find_opcode(name) || !same_shape) continue;
        become(rewriter, id, name, {x});
        return true;
    }
    return false;
}

/// Matches 1 / sqrt(x), 1 / x.
bool find_inverse(Rewriter& rewriter, NodeId id) {
    const Graph& graph = rewriter.graph;
    const Node& node = graph.nodes[id];
    if (!find_opcode("rsqrt") || !is_plain_float(graph.value(node.outputs[0]))) return false;
    const bool quotient = is(node, "div") && uniform_number(graph.value(node.inputs[0])) == 1.0;
    if (!quotient && !is(node, "reciprocal")) return false;
    const ValueId x = node.inputs.back();
    if (!(graph.value(x).shape == graph.value(node.outputs[0]).shape)) return false;
    const Node* root = rewriter.producer(x);
    const bool of_root = root != nullptr && is(*root, "sqrt") && rewriter.read_only_by(x, id);
    if (!of_root && !quotient) return false;
    become(rewriter, id, of_root ? "rsqrt" : "reciprocal", {of_root ? root->inputs[0] : x});
    return true;
}

}  // namespace

const std::vector<Rule> activation_rules = {find_activation, find_inverse};

}  // namespace kpu::passes
