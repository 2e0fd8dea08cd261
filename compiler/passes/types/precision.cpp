// Floats become another float type. Arrays of the host keep theirs: they are converted at load and store.
#include <algorithm>
#include <cmath>

#include "base/parallel.hpp"
#include "compiler/graph/data.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/passes/rules.hpp"
#include "values/posit.hpp"

namespace kpu::passes {

double largest(ElemType elem) {
    switch (elem) {
        case ElemType::f16:
            return 65504;
        case ElemType::bf16:
            return 0x1.fep127;
        case ElemType::f8e4m3:
            return 448;
        case ElemType::f8e5m2:
            return 57344;
        case ElemType::f6e2m3:
            return 7.5;
        case ElemType::f6e3m2:
            return 28;
        case ElemType::f4e2m1:
            return 6;
        default:
            return 0x1.fffffep127;  // posits stop at their largest by themselves
    }
}

namespace {

/// The values that stay f32: results of products that the host gets as they are, or seen through views. It may want them
/// in the device's type: then they are rounded there, and DRAM moves half of the bytes.
class WideOutputs {
  public:
    WideOutputs(Graph& graph, ElemType precision, const graph::Supports& supports)
        : rewriter_(graph), supports_(supports), wide_(graph.values.size(), false) {
        std::vector<NodeId> products;
        for (const graph::Port& port : graph.outputs) {
            if (port.host == graph::HostType::same && port.elem == precision) continue;
            const std::vector<ValueId> path = path_to_product(port.value);
            if (path.empty() || wide_[path.back()]) continue;
            products.push_back(static_cast<NodeId>(rewriter_.producer_id(path.back())));
            for (const ValueId id : path) wide_[id] = true;
        }
        for (const NodeId id : products) accumulate(id);
        wide_.resize(graph.values.size(), true);  // the biases that were added
    }

    bool wide(ValueId id) const { return wide_[id]; }

  private:
    /// Returns the values from the output back to the result of a product, if nobody else reads what lies
    /// between.
    std::vector<ValueId> path_to_product(ValueId id) const {
        std::vector<ValueId> path{id};
        while (true) {
            const Node* node = rewriter_.producer(path.back());
            const bool last = path.size() == 1;
            if (node == nullptr || rewriter_.users(path.back()).size() != (last ? 0 : 1)) return {};
            if (!last && rewriter_.is_output(path.back())) return {};
            if (is_plain_product(*node)) return path;
            const bool moves = is(*node, "transpose") &&
                               graph::is_supported(supports_, "transpose", {ElemType::f32}, {ElemType::f32});
            if (!moves && !is(*node, "reshape")) return {};
            path.push_back(node->inputs[0]);
        }
    }

    bool is_plain_product(const Node& node) const {
        const Graph& graph = rewriter_.graph;
        if (node.kept != ElemType::none || node.spec().traits.sums_form.empty() ||
            !is_plain_float(graph.value(node.outputs[0])))
            return false;
        return node.inputs.size() < 3 || graph.value(node.inputs[2]).constant();
    }

    void accumulate(NodeId id) {
        Graph& graph = rewriter_.graph;
        const Node node = graph.nodes[id];
        std::vector<ValueId> operands = node.inputs;
        if (operands.size() > 2) {
            const graph::Value bias = graph.value(operands[2]);
            operands[2] = rewriter_.add_constant(bias.name, ElemType::f32, bias.shape,
                                                 graph::make_numbers(ElemType::f32, graph::numbers(bias)));
        }
        rewriter_.replace_node(id, node.spec().traits.sums_form, operands, node.attrs);
    }

    Rewriter rewriter_;
    const graph::Supports& supports_;
    std::vector<bool> wide_;
};

void set_type(graph::Value& value, ElemType elem) {
    if (!is_plain_float(value) || value.elem == elem) return;
    if (value.constant()) value.data = rounded(value, elem);
    value.elem = elem;
}

/// True for a narrower float that only casts make and read: who wrote both wants the rounding.
bool is_rounding(const Rewriter& rewriter, ValueId id, ElemType precision) {
    const graph::Value& value = rewriter.graph.value(id);
    if (!is_plain_float(value) || bit_width(value.elem) >= bit_width(precision)) return false;
    const Node* producer = rewriter.producer(id);
    if (producer == nullptr || !is(*producer, "cast") || rewriter.is_output(id)) return false;
    const auto& users = rewriter.users(id);
    return std::all_of(users.begin(), users.end(),
                       [&](NodeId user) { return is(rewriter.graph.nodes[user], "cast"); });
}

}  // namespace

/// Finite numbers stay finite: a mask of -3e38 must not become an infinity, whose differences are NaN. Posits have no
/// infinities: the largest numbers stand for those of masks, which would else be NaR.
namespace {

/// Returns the elements [first, first + count) of a constant.
graph::Data rounded_part(const graph::Value& value, ElemType elem, uint64_t first, uint64_t count) {
    graph::Value part;
    part.elem = value.elem;
    part.shape = graph::dims({static_cast<int64_t>(count)});
    part.data = value.data;
    part.data.bytes += graph::data_bytes(value.elem, first);
    part.data.size = graph::data_bytes(value.elem, count);
    std::vector<double> elements = graph::numbers(part);
    const double limit = largest(elem);
    for (double& element : elements) {
        if (std::isfinite(element) || (is_posit(elem) && std::isinf(element)))
            element = std::clamp(element, -limit, limit);
    }
    return graph::make_numbers(elem, elements);
}

}  // namespace

/// Part by part: binary64 of all would need several times the memory of the constant.
graph::Data rounded(const graph::Value& value, ElemType elem) {
    constexpr uint64_t each = 1 << 16;
    constexpr size_t most_workers = 8;
    const uint64_t count = value.elements();
    const graph::NewData result = graph::new_data(graph::data_bytes(elem, count));
    const auto parts = static_cast<size_t>((count + each - 1) / each);
    parallel_for(parts, workers_for(parts, most_workers), [&](size_t, size_t i) {
        const uint64_t first = i * each;
        const graph::Data part = rounded_part(value, elem, first, std::min(each, count - first));
        std::copy_n(part.bytes, part.size, result.bytes + graph::data_bytes(elem, first));
    });
    return result.data;
}

void convert(Graph& graph, ElemType precision, bool f32_outputs, const graph::Supports& supports) {
    if (!is_float(precision)) throw InternalError("convert: to a type that is not a float");
    std::vector<bool> wide(graph.values.size(), false);
    if (f32_outputs && precision != ElemType::f32) {
        const WideOutputs outputs(graph, precision, supports);
        wide.resize(graph.values.size());
        for (ValueId id = 0; id < wide.size(); ++id) wide[id] = outputs.wide(id);
    }
    std::vector<bool> rounding(graph.values.size(), false);
    {
        const Rewriter before(graph);
        for (ValueId id = 0; id < graph.values.size(); ++id)
            rounding[id] = is_rounding(before, id, precision);
    }
    const std::vector<bool> held = hold_kept(graph, precision, supports);
    rounding.resize(graph.values.size(), false);
    wide.resize(graph.values.size(), false);
    for (ValueId id = 0; id < graph.values.size(); ++id) {
        if (!rounding[id] && !held[id]) set_type(graph.value(id), wide[id] ? ElemType::f32 : precision);
    }
    Rewriter rewriter(graph);  // casts between floats have become casts to the same type
    apply_rules(rewriter, arithmetic_rules);
    rewriter.finish();
}

void convert_precision(Graph& graph, const Options& options) {
    if (options.precision != ElemType::none)
        convert(graph, options.precision, options.f32_outputs, options.supports);
}

}  // namespace kpu::passes
