#include "compiler/quantize/quantize.hpp"

#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "compiler/quantize/correct_bias.hpp"
#include "compiler/quantize/rewrite.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

void check_not_quantized(const Graph& graph) {
    for (const Value& value : graph.values) {
        if (value.quant)
            throw UserError(
                fmt::format("`{}` is quantized already. Fix: compile the model as it is, or give the "
                            "float model.",
                            value.name));
    }
}

}  // namespace

graph::Graph split_addends(graph::Graph graph) {
    std::vector<Node> nodes;
    for (Node& node : graph.nodes) {
        const bool splits = is_product(node.spec()) && node.inputs.size() == 3 &&
                            is_float(graph.value(node.inputs[2]).elem) &&
                            !graph.value(node.inputs[2]).constant();
        if (!splits) {
            nodes.push_back(std::move(node));
            continue;
        }
        const ValueId out = node.outputs[0], addend = node.inputs[2];
        const ElemType elem = graph.value(out).elem;
        node.inputs.pop_back();
        node.outputs[0] = graph.add_value(graph.value(out).name, elem, graph.value(out).shape);
        Node sum;
        sum.opcode = *find_opcode("add");
        sum.inputs = {node.outputs[0], addend};
        sum.outputs = {out};
        sum.source = node.source;
        sum.kept = node.kept;
        nodes.push_back(std::move(node));
        nodes.push_back(std::move(sum));
    }
    graph.nodes = std::move(nodes);
    return graph;
}

QuantizeResult quantize(const Graph& graph, const std::vector<Range>& ranges, const QuantizeOptions& options,
                        const Samples* samples) {
    check_not_quantized(graph);
    const Plan plan = make_plan(graph, ranges, options.real, options.supports);
    QuantizeResult result;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
        const Node& node = graph.nodes[n];
        if (plan.modes[n] == Mode::real)
            result.in_floats.push_back(
                fmt::format("{} ({}): {}", node.source.name, node.spec().name, plan.reasons[n]));
    }
    result.graph = rewrite(graph, plan, options);
    if (samples == nullptr) return result;
    result.calibrated = samples->calibrated();
    result.samples = samples->count();
    if (samples->calibrated()) correct_biases(result.graph, graph, *samples);
    return result;
}

std::vector<Range> checked_ranges(const Graph& graph, const Samples& samples, const RangeOptions& options) {
    std::vector<Range> ranges = calibrate(graph, samples, options);
    for (const graph::Port& port : graph.inputs) {
        if (!is_float(graph.value(port.value).elem) || ranges[port.value].all_finite) continue;
        throw UserError(fmt::format(
            "the samples of input `{}` hold NaN or infinity. Fix: give samples of finite numbers.",
            port.name));
    }
    return ranges;
}

QuantizeResult quantize(const Graph& graph, const Samples& samples, const QuantizeOptions& options) {
    const Graph split = split_addends(graph);
    return quantize(split, checked_ranges(split, samples, options.ranges), options, &samples);
}

}  // namespace kpu::quantize
