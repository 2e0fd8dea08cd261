// Products of matrices that are repeated: several heads of queries that share one of keys are rows of one product.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/graph/data.hpp"
#include "compiler/passes/rules.hpp"

namespace kpu::passes {
namespace {

/// A batch of matrices of which each stands `times` times in a row, made of one where it stands once.
struct Repeated {
    ValueId once = 0;
    Dims lead;            ///< dimensions of the batch that stands once
    int64_t times = 1;    ///< number of times that each matrix stands
    bool turned = false;  ///< rows and columns are exchanged on the way
};

bool is_square_swap(const std::vector<int>& perm) {
    const size_t rank = perm.size();
    if (rank < 2 || perm[rank - 1] != static_cast<int>(rank - 2) ||
        perm[rank - 2] != static_cast<int>(rank - 1))
        return false;
    for (size_t d = 0; d + 2 < rank; ++d) {
        if (perm[d] != static_cast<int>(d)) return false;
    }
    return true;
}

bool same_matrices(const Dims& a, const Dims& b) {
    return a.rank >= 2 && b.rank >= 2 && a[a.rank - 1U] == b[b.rank - 1U] && a[a.rank - 2U] == b[b.rank - 2U];
}

/// Matches x + 0, which only repeats: the first dimensions of x are those of the result, the rest of its
/// dimensions repeat.
std::optional<Repeated> repeated_by(const Graph& graph, const Node& node) {
    if (!is(node, "add") || node.inputs.size() != 2) return std::nullopt;
    const graph::Value& y = graph.value(node.outputs[0]);
    for (const size_t zero : {size_t{1}, size_t{0}}) {
        const graph::Value& x = graph.value(node.inputs[1 - zero]);
        const auto number = uniform_number(graph.value(node.inputs[zero]));
        if (!number || *number != 0 || !is_plain_float(x) || x.elem != y.elem ||
            x.shape.rank != y.shape.rank || !same_matrices(x.shape, y.shape))
            continue;
        Repeated of{node.inputs[1 - zero], {}, 1, false};
        for (size_t d = 0; d + 2 < x.shape.rank; ++d) {
            if (of.times == 1 && x.shape[d] == y.shape[d]) {
                of.lead[of.lead.rank++] = x.shape[d];
            } else if (x.shape[d] == 1) {
                of.times *= y.shape[d];
            } else {
                return std::nullopt;
            }
        }
        return of;
    }
    return std::nullopt;
}

/// Looks through transpositions of matrices and reshapes of the batch.
std::optional<Repeated> find_repeated(const Rewriter& rewriter, ValueId value) {
    const Graph& graph = rewriter.graph;
    bool turned = false;
    while (const Node* node = rewriter.producer(value)) {
        if (std::optional<Repeated> of = repeated_by(graph, *node)) {
            of->turned = turned;
            return of->times > 1 ? of : std::nullopt;
        }
        const bool turns = is(*node, "transpose") && is_square_swap(perm_of(*node));
        const bool renames = is(*node, "reshape") &&
                             same_matrices(graph.value(node->inputs[0]).shape, graph.value(value).shape);
        if (!turns && !renames) return std::nullopt;
        turned = turned != turns;
        value = node->inputs[0];
    }
    return std::nullopt;
}

ValueId reshaped(Rewriter& rewriter, ValueId x, const Dims& shape, const graph::Source& source) {
    const graph::Value of = rewriter.graph.value(x);
    if (of.shape == shape) return x;
    return rewriter.add("reshape", {x}, graph::attributes({graph::ints("target_shape", shape_list(shape))}),
                        {source, of.name, of.elem, of.quant});
}

Dims matrices(Dims lead, int64_t rows, int64_t columns) {
    lead[lead.rank++] = rows;
    lead[lead.rank++] = columns;
    return lead;
}

/// True if a product with a matrix that is repeated for its neighbours reads it where it stands once.
bool read_once(Rewriter& rewriter, NodeId id) {
    Graph& graph = rewriter.graph;
    const Node node = graph.nodes[id];
    if (!is_matrix_product(node) || node.inputs.size() != 2) return false;
    const graph::Value a = graph.value(node.inputs[0]), y = graph.value(node.outputs[0]);
    if (!is_plain_float(a) || !is_plain_float(y)) return false;
    const std::optional<Repeated> of = find_repeated(rewriter, node.inputs[1]);
    if (!of) return false;
    const size_t m = a.shape.rank - 2U;
    int64_t rows = a.shape[m];
    const int64_t depth = a.shape[m + 1], columns = y.shape[m + 1];
    Dims lead = of->lead, lead_of_a = of->lead;
    // few rows do not fill an array: those of all neighbours are rows of one matrix
    if (2 * rows <= depth) {
        rows *= of->times;
    } else if (lead.rank + 3 > max_rank) {
        return false;
    } else {
        lead[lead.rank++] = 1;
        lead_of_a[lead_of_a.rank++] = of->times;
    }
    const graph::Value once = graph.value(of->once);
    ValueId b =
        reshaped(rewriter, of->once,
                 of->turned ? matrices(lead, columns, depth) : matrices(lead, depth, columns), node.source);
    if (of->turned) {
        std::vector<int64_t> perm(lead.rank);
        std::iota(perm.begin(), perm.end(), 0);
        perm.push_back(lead.rank + 1);
        perm.push_back(lead.rank);
        b = rewriter.add("transpose", {b}, graph::attributes({graph::ints("perm", std::move(perm))}),
                         {node.source, once.name, once.elem, once.quant});
    }
    const ValueId joined = reshaped(rewriter, node.inputs[0], matrices(lead_of_a, rows, depth), node.source);
    const ValueId product =
        rewriter.add(node.spec().name, {joined, b}, node.attrs, {node.source, y.name, y.elem, y.quant});
    graph.nodes.back().absorbed = node.absorbed;
    become(rewriter, id, "reshape", {product},
           graph::attributes({graph::ints("target_shape", shape_list(y.shape))}));
    return true;
}

}  // namespace

const std::vector<Rule> product_rules = {read_once};

}  // namespace kpu::passes
