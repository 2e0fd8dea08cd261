// The forms in which exporters spell out a normalisation. All are read as one: a numerator times a constant power -1/2 of
// factor * statistic + epsilon, where the statistic is a mean of squares along axes of x.
#include "compiler/passes/rules/norm_forms.hpp"

#include <algorithm>
#include <cmath>

#include "compiler/graph/data.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

enum class Kind : uint8_t {
    mean,      ///< mean of x
    square,    ///< the mean of x * x
    variance,  ///< the mean of (x - mean) * (x - mean)
};

/// value = factor * statistic of x along axes, one number for each row of x.
struct Statistic {
    Kind kind = Kind::mean;
    ValueId x = 0;
    std::vector<size_t> axes;  ///< from the front, sorted
    double factor = 1;
};

/// sqrt(factor * (statistic + epsilon))
struct Root {
    Statistic of;
    double epsilon = 0;
};

/// A constant that multiplies or divides.
struct Factor {
    std::string_view opcode;  ///< mul or div
    ValueId constant = 0;
};

/// 1 / root, times constants.
struct Inverse {
    Root root;
    std::vector<Factor> factors;
};

/// Computation of a node: (x - mean) / root, or x / root, times constants.
struct Norm {
    Root root;
    std::vector<Factor> factors;
};

bool near(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

class Reader {
  public:
    explicit Reader(const Rewriter& rewriter) : rewriter_(rewriter), graph_(rewriter.graph) {}

    /// Matches a product or quotient.
    std::optional<Norm> quotient(const Node& node) const {
        const size_t operands = node.inputs.size();
        for (size_t i = 0; i < operands && operands == 2; ++i) {
            std::optional<Inverse> inverse;
            if (is(node, "mul")) inverse = inverse_at(node.inputs[i], most_steps);
            if (is(node, "div") && i == 1) inverse = over_root(node.inputs[1]);
            if (!inverse || !meets(graph_.value(node.inputs[i]).shape, inverse->root.of)) continue;
            Norm norm{inverse->root, inverse->factors};
            if (is_numerator(node.inputs[1 - i], norm)) return norm;
        }
        return {};
    }

    /// Matches x * inverse - mean * inverse; of a sum, `addend` gets what is added: x * inverse + (addend -
    /// mean * inverse).
    std::optional<Norm> difference(const Node& node, ValueId& addend) const {
        if (is(node, "sub")) return product_less(node.inputs[0], node.inputs[1]);
        for (const size_t i : {size_t{0}, size_t{1}}) {
            const Node* rest = made_by(node.inputs[1 - i], "sub");
            if (rest == nullptr || !graph_.value(rest->inputs[0]).constant()) continue;
            addend = rest->inputs[0];
            if (auto norm = product_less(node.inputs[i], rest->inputs[1])) return norm;
        }
        return {};
    }

  private:
    static constexpr int most_steps = 12;  ///< from a norm's end to a reduction, one form within the other

    const Node* maker(ValueId id) const {
        const Node* node = rewriter_.producer(id);
        return node != nullptr && is_plain_float(graph_.value(id)) ? node : nullptr;
    }
    const Node* made_by(ValueId id, std::string_view opcode) const {
        const Node* node = maker(id);
        return node != nullptr && is(*node, opcode) ? node : nullptr;
    }

    /// Returns what a value was before casts between floats.
    ValueId bare(ValueId id) const {
        for (const Node* node = made_by(id, "cast"); node != nullptr; node = made_by(id, "cast")) {
            if (!is_plain_float(graph_.value(node->inputs[0]))) break;
            id = node->inputs[0];
        }
        return id;
    }
    bool same(ValueId a, ValueId b) const { return bare(a) == bare(b); }

    // ---- where the numbers of rows stand

    static bool reduces(const Statistic& of, size_t d) {
        return std::binary_search(of.axes.begin(), of.axes.end(), d);
    }
    uint64_t rows(const Statistic& of) const {
        const Dims& shape = graph_.value(of.x).shape;
        uint64_t count = 1;
        for (size_t d = 0; d < shape.rank; ++d) count *= reduces(of, d) ? 1 : static_cast<uint64_t>(shape[d]);
        return count;
    }
    int64_t row_size(const Statistic& of) const {
        int64_t count = 1;
        for (const size_t axis : of.axes) count *= graph_.value(of.x).shape[axis];
        return count;
    }
    /// True if an operand of this shape gives each element of x a number of its row, not of another one.
    bool meets(const Dims& shape, const Statistic& of) const {
        const Dims& whole = graph_.value(of.x).shape;
        if (shape.rank > whole.rank) return false;
        const size_t missing = static_cast<size_t>(whole.rank - shape.rank);
        for (size_t d = 0; d < whole.rank; ++d) {
            const int64_t size = d < missing ? 1 : shape[d - missing];
            if (size != whole[d] && !(reduces(of, d) && size == 1)) return false;
        }
        return true;
    }
    /// True if a step from one value to another leaves each number with its row: in the order of rows, or
    /// where it meets x.
    bool keeps_rows(const Statistic& of, ValueId from, ValueId to) const {
        const graph::Value &a = graph_.value(from), &b = graph_.value(to);
        if (a.elements() == rows(of) && b.elements() == rows(of)) return true;
        return meets(a.shape, of) && meets(b.shape, of) && made_by(to, "reshape") == nullptr;
    }

    // ---- statistics

    /// Returns the x of x * x.
    std::optional<ValueId> squared(ValueId value) const {
        const Node* node = maker(bare(value));
        if (node == nullptr) return {};
        const bool square = is(*node, "square") ||
                            (is(*node, "mul") && same(node->inputs[0], node->inputs[1])) ||
                            (is(*node, "pow") && uniform_number(graph_.value(node->inputs[1])) == 2.0);
        if (!square) return {};
        const Node* size = made_by(bare(node->inputs[0]), "abs");
        return size != nullptr ? size->inputs[0] : node->inputs[0];
    }

    std::optional<Statistic> reduced(const Node& node) const {
        if (!is_any(node, {"reduce_sum", "reduce_mean", "reduce_l2"})) return {};
        Statistic found;
        found.x = node.inputs[0];
        for (const int64_t axis : ints_of(node, "axes"))
            found.axes.push_back(from_front(axis, graph_.value(found.x).shape.rank));
        std::sort(found.axes.begin(), found.axes.end());
        if (found.axes.empty()) return {};
        if (!is(node, "reduce_mean")) found.factor = static_cast<double>(row_size(found));
        if (is(node, "reduce_l2")) return of_squares(found, found.x);
        if (const auto x = squared(found.x)) return of_squares(found, *x);
        return found;
    }

    /// Returns the mean of d * d, where d may be x - mean.
    Statistic of_squares(Statistic found, ValueId d) const {
        found.kind = Kind::square;
        found.x = d;
        if (const auto x = centred(d, found)) {
            found.kind = Kind::variance;
            found.x = *x;
        }
        return found;
    }

    /// Returns the x of d = x - mean along the axes of another statistic.
    std::optional<ValueId> centred(ValueId d, const Statistic& like) const {
        const Node* node = made_by(bare(d), "sub");
        if (node == nullptr) return {};
        const ValueId x = node->inputs[0], mean = node->inputs[1];
        return is_mean(mean, x, like.axes) ? std::optional(x) : std::nullopt;
    }
    bool is_mean(ValueId value, ValueId x, const std::vector<size_t>& axes) const {
        const auto mean = statistic(value, most_steps);
        return mean && mean->kind == Kind::mean && same(mean->x, x) && mean->axes == axes &&
               near(mean->factor, 1) && meets(graph_.value(value).shape, *mean);
    }

    std::optional<Statistic> statistic(ValueId value, int steps) const {
        const Node* node = maker(value);
        if (node == nullptr || steps == 0) return {};
        if (is(*node, "reduce_l2")) return {};
        if (auto found = reduced(*node)) return found;
        if (is(*node, "sub")) return difference_of_means(value, *node, steps);
        double factor = 1;
        bool positive = false;
        const auto from = step(*node, factor, positive);
        auto found = from ? statistic(*from, steps - 1) : std::nullopt;
        if (!found || !keeps_rows(*found, *from, value) || (positive && found->kind == Kind::mean)) return {};
        found->factor *= factor;
        return found;
    }

    /// Returns the operand of a step that changes a statistic by a factor alone. `positive`: negative numbers
    /// become 0.
    std::optional<ValueId> step(const Node& node, double& factor, bool& positive) const {
        if (is_view(node)) return node.inputs[0];
        positive = is(node, "relu") || (is(node, "clamp") && node.attrs.real("min_val", 1) <= 0 &&
                                        node.attrs.real("max_val", 0) > 1e38);
        if (positive) return node.inputs[0];
        if (!is_any(node, {"add", "mul", "div", "max"})) return {};
        for (const size_t c : {size_t{1}, size_t{0}}) {
            const auto number = uniform_number(graph_.value(node.inputs[c]));
            if (!number || (c == 0 && is(node, "div"))) continue;
            positive = is(node, "max");
            if (is(node, "mul")) factor = *number;
            if (is(node, "div")) factor = 1 / *number;
            const bool nothing = is(node, "add") ? *number == 0
                                 : positive      ? *number <= 0
                                                 : std::isnormal(factor) && factor > 0;
            return nothing ? std::optional(node.inputs[1 - c]) : std::nullopt;
        }
        return {};
    }
    bool is_view(const Node& node) const {
        return is(node, "reshape") || (is(node, "cast") && is_plain_float(graph_.value(node.inputs[0])));
    }

    /// Matches mean(x * x) - mean(x) * mean(x).
    std::optional<Statistic> difference_of_means(ValueId value, const Node& node, int steps) const {
        auto squares = statistic(node.inputs[0], steps - 1);
        const auto root = squared(node.inputs[1]);
        const auto mean = root ? statistic(*root, steps - 1) : std::nullopt;
        if (!squares || !mean || squares->kind != Kind::square || mean->kind != Kind::mean) return {};
        if (!same(squares->x, mean->x) || squares->axes != mean->axes ||
            !near(squares->factor, mean->factor * mean->factor))
            return {};
        for (const ValueId from : node.inputs) {
            if (!keeps_rows(*squares, from, value)) return {};
        }
        squares->kind = Kind::variance;
        return squares;
    }

    // ---- roots

    /// Returns what the root is drawn of.
    std::optional<Root> radicand(ValueId value, int steps) const {
        if (const auto of = statistic(value, most_steps)) return root_of(*of, 0);
        const Node* node = maker(value);
        if (node == nullptr || steps == 0) return {};
        std::optional<Root> found;
        ValueId from = node->inputs[0];
        if (is(*node, "add")) {
            for (const size_t c : {size_t{0}, size_t{1}}) {
                const auto number = uniform_number(graph_.value(node->inputs[c]));
                if (!number || !(*number >= 0)) continue;
                from = node->inputs[1 - c];
                found = *number > 0 ? plus(statistic(from, most_steps), *number) : radicand(from, steps - 1);
            }
        } else if (is_view(*node)) {
            found = radicand(from, steps - 1);
        }
        return found && keeps_rows(found->of, from, value) ? found : std::nullopt;
    }
    static std::optional<Root> plus(const std::optional<Statistic>& of, double epsilon) {
        return of ? root_of(*of, epsilon) : std::nullopt;
    }
    static std::optional<Root> root_of(const Statistic& of, double epsilon) {
        if (of.kind == Kind::mean) return {};
        return Root{of, epsilon / of.factor};
    }

    std::optional<double> exponent(const Node& node) const {
        return is(node, "pow") ? uniform_number(graph_.value(node.inputs[1])) : std::nullopt;
    }

    std::optional<Root> root(ValueId value, int steps) const {
        const Node* node = maker(value);
        if (node == nullptr || steps == 0) return {};
        if (is(*node, "sqrt") || exponent(*node) == 0.5) return radicand(node->inputs[0], steps - 1);
        if (is(*node, "reduce_l2")) return plus(reduced(*node), 0);
        if (!is_view(*node) && !adds_nothing(*node)) return {};
        const ValueId from = operand_of_view(*node);
        auto found = root(from, steps - 1);
        return found && keeps_rows(found->of, from, value) ? found : std::nullopt;
    }
    /// True for an expansion: -0 is added.
    bool adds_nothing(const Node& node) const {
        return is(node, "add") && (uniform_number(graph_.value(node.inputs[0])) == 0.0 ||
                                   uniform_number(graph_.value(node.inputs[1])) == 0.0);
    }
    ValueId operand_of_view(const Node& node) const {
        return node.inputs[adds_nothing(node) && graph_.value(node.inputs[0]).constant() ? 1 : 0];
    }

    std::optional<Inverse> over_root(ValueId value) const {
        const auto found = root(value, most_steps);
        return found ? std::optional(Inverse{*found, {}}) : std::nullopt;
    }

    std::optional<Inverse> inverse_at(ValueId value, int steps) const {
        const Node* node = maker(value);
        if (node == nullptr || steps == 0) return {};
        if (is(*node, "rsqrt") || exponent(*node) == -0.5) {
            const auto found = radicand(node->inputs[0], steps - 1);
            return found ? std::optional(Inverse{*found, {}}) : std::nullopt;
        }
        if (is(*node, "reciprocal")) return over_root(node->inputs[0]);
        if (is_any(*node, {"mul", "div"})) return scaled_inverse(*node, steps);
        if (!is_view(*node) && !adds_nothing(*node)) return {};
        const ValueId from = operand_of_view(*node);
        auto found = inverse_at(from, steps - 1);
        const bool plain = found && (found->factors.empty() || is(*node, "cast"));
        return plain && keeps_rows(found->root.of, from, value) ? found : std::nullopt;
    }

    /// Matches c / root, c * inverse, inverse / c.
    std::optional<Inverse> scaled_inverse(const Node& node, int steps) const {
        for (const size_t c : {size_t{0}, size_t{1}}) {
            if (!graph_.value(node.inputs[c]).constant()) continue;
            const bool below = is(node, "div") && c == 0;
            auto found = below ? over_root(node.inputs[1]) : inverse_at(node.inputs[1 - c], steps - 1);
            if (!found || !meets(graph_.value(node.inputs[1 - c]).shape, found->root.of)) continue;
            found->factors.push_back({below ? "mul" : node.spec().name, node.inputs[c]});
            return found;
        }
        return {};
    }

    // ---- numerators

    /// True if it is what the root belongs to, perhaps times a constant, which joins the factors.
    bool is_numerator(ValueId value, Norm& norm) const {
        const Statistic& of = norm.root.of;
        value = bare(value);
        for (const Node* node = made_by(value, "mul"); of.kind == Kind::variance && node != nullptr;
             node = made_by(value, "mul")) {
            const size_t c = graph_.value(node->inputs[1]).constant() ? 1 : 0;
            if (!graph_.value(node->inputs[c]).constant()) return false;
            norm.factors.push_back({"mul", node->inputs[c]});
            value = bare(node->inputs[1 - c]);
        }
        if (of.kind == Kind::square) return same(value, of.x);
        const auto x = centred(value, of);
        return x && same(*x, of.x);
    }

    std::optional<Norm> product_less(ValueId product, ValueId rest) const {
        const Node *whole = made_by(product, "mul"), *shift = made_by(rest, "mul");
        if (whole == nullptr || shift == nullptr) return {};
        for (const size_t i : {size_t{0}, size_t{1}}) {
            const auto inverse = inverse_at(whole->inputs[i], most_steps);
            if (!inverse || inverse->root.of.kind != Kind::variance) continue;
            const Statistic& of = inverse->root.of;
            const size_t own = same(shift->inputs[0], whole->inputs[i]) ? 0 : 1;
            if (!same(shift->inputs[own], whole->inputs[i]) || !same(whole->inputs[1 - i], of.x) ||
                !meets(graph_.value(whole->inputs[i]).shape, of) ||
                !is_mean(shift->inputs[1 - own], of.x, of.axes))
                continue;
            return Norm{inverse->root, inverse->factors};
        }
        return {};
    }

    const Rewriter& rewriter_;
    const Graph& graph_;
};

/// Puts a norm, and what follows it, in the place of a node.
class Writer {
  public:
    Writer(Rewriter& rewriter, NodeId id, const Norm& norm)
        : rewriter_(rewriter), graph_(rewriter.graph), id_(id), norm_(norm) {}

    bool run(const ValueId* addend) {
        const Statistic& of = norm_.root.of;
        const graph::Value& y = graph_.value(graph_.nodes[id_].outputs[0]);
        if (!(y.shape == graph_.value(of.x).shape)) return false;
        for (size_t i = 1; i < of.axes.size(); ++i) {
            if (of.axes[i] != of.axes[i - 1] + 1)
                return false;  // rows in pieces: their inner part is kept wide instead
        }
        const Dims whole = y.shape;
        steps_.push_back({"cast", {}, {}});
        if (of.axes.size() > 1) reshape(joined(whole, of.axes));
        steps_.push_back({of.kind == Kind::variance ? "layernorm" : "rmsnorm",
                          {},
                          graph::attributes({graph::integer("axis", static_cast<int64_t>(of.axes[0])),
                                             graph::real("epsilon", norm_.root.epsilon)})});
        if (of.axes.size() > 1) reshape(whole);
        if (!near(of.factor, 1)) multiply(1 / std::sqrt(of.factor));
        for (const Factor& factor : norm_.factors) steps_.push_back({factor.opcode, {factor.constant}, {}});
        if (addend != nullptr) steps_.push_back({"add", {*addend}, {}});
        write();
        return true;
    }

  private:
    struct Step {
        std::string_view opcode;
        std::vector<ValueId> constants;
        BoundAttrs attrs;
    };

    static Dims joined(const Dims& shape, const std::vector<size_t>& axes) {
        std::vector<int64_t> sizes;
        for (size_t d = 0; d < shape.rank; ++d) {
            if (d > axes.front() && d <= axes.back()) {
                sizes.back() *= shape[d];
            } else {
                sizes.push_back(shape[d]);
            }
        }
        return graph::dims(sizes);
    }
    void reshape(const Dims& to) {
        steps_.push_back({"reshape", {}, graph::attributes({graph::ints("target_shape", shape_list(to))})});
    }
    void multiply(double number) {
        const graph::Value& y = graph_.value(graph_.nodes[id_].outputs[0]);
        const ElemType elem = y.elem;
        const std::string name = y.name;
        steps_.push_back(
            {"mul", {rewriter_.add_constant(name, elem, {}, graph::make_numbers(elem, {number}))}, {}});
    }

    /// Writes the norm: the last step takes the node's place.
    void write() {
        const Node node = graph_.nodes[id_];
        const graph::Value y = graph_.value(node.outputs[0]);
        ValueId value = norm_.root.of.x;
        if (graph_.value(value).elem == y.elem) steps_.erase(steps_.begin());
        for (size_t i = 0; i < steps_.size(); ++i) {
            Step& step = steps_[i];
            std::vector<ValueId> operands{value};
            for (const ValueId constant : step.constants) operands.push_back(in_type(constant, y.elem));
            if (i + 1 == steps_.size()) {
                become(rewriter_, id_, step.opcode, std::move(operands), std::move(step.attrs));
            } else {
                value = rewriter_.add(step.opcode, std::move(operands), std::move(step.attrs),
                                      {node.source, y.name, y.elem, {}});
            }
        }
    }
    ValueId in_type(ValueId id, ElemType elem) {
        const graph::Value from = graph_.value(id);
        if (from.elem == elem) return id;
        return rewriter_.add_constant(from.name, elem, from.shape,
                                      graph::make_numbers(elem, graph::numbers(from)));
    }

    Rewriter& rewriter_;
    Graph& graph_;
    NodeId id_;
    Norm norm_;
    std::vector<Step> steps_;
};

}  // namespace

bool find_norm(Rewriter& rewriter, NodeId id) {
    const Node& node = rewriter.graph.nodes[id];
    if (!is_any(node, {"div", "mul", "add", "sub"}) || !is_plain_float(rewriter.graph.value(node.outputs[0])))
        return false;
    const Reader reader(rewriter);
    ValueId addend = 0;
    const bool joins = is_any(node, {"add", "sub"});
    const auto norm = joins ? reader.difference(node, addend) : reader.quotient(node);
    return norm && Writer(rewriter, id, *norm).run(is(node, "add") ? &addend : nullptr);
}

}  // namespace kpu::passes
