#include "compiler/precision/layers.hpp"

#include <algorithm>
#include <map>

#include "compiler/passes/passes.hpp"

namespace kpu::precision {
namespace {

using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool has_floats(const graph::Graph& graph, const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return is_float(graph.value(id).elem); });
}

/// Returns the multiply-accumulates of the arrays in a cycle.
double peak(const compiler::Target& target, ElemType type) {
    double sum = 0;
    for (const proto::Engine& engine : target.engines) {
        const auto [a, b] = graph::factors_of(type);
        const timing::SystolicArray array = timing::array_for(engine.array(), a, b);
        sum += double(array.peak_q16()) / 65536 * engine.array().count();
    }
    return sum;
}

double lanes(const compiler::Target& target) {
    double sum = 0;
    for (const proto::Engine& engine : target.engines) sum += engine.vector().lanes();
    return sum;
}

class Finder {
  public:
    Finder(const graph::Graph& graph, ElemType precision, const compiler::Target& target)
        : graph_(graph), precision_(precision), target_(target), of_value_(graph.values.size(), none) {}

    std::vector<Layer> run() {
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            if (has_floats(graph_, graph_.nodes[n])) place(n);
        }
        for (Layer& layer : layers_) choose_type(layer);
        return std::move(layers_);
    }

  private:
    static constexpr size_t none = SIZE_MAX;

    void place(NodeId n) {
        const Node& node = graph_.nodes[n];
        size_t at = none;
        if (const auto same = by_source_.find(node.source.name); same != by_source_.end()) at = same->second;
        for (size_t i = 0; at == none && !graph::is_product(node.spec()) && i < node.inputs.size(); ++i)
            at = of_value_[node.inputs[i]];
        if (at == none) {
            at = layers_.size();
            layers_.push_back(
                {node.source.name, node.source.type, {}, 0, 0, 0, ElemType::none, false, false});
        }
        by_source_.emplace(node.source.name, at);
        Layer& layer = layers_[at];
        layer.nodes.push_back(n);
        layer.kept = layer.kept || node.kept != ElemType::none;
        for (const ValueId id : node.outputs) of_value_[id] = at;
        if (node.spec().macs != nullptr)
            layer.macs +=
                node.spec().macs(graph_.value(node.inputs[0]).shape, graph_.value(node.inputs[1]).shape,
                                 graph_.value(node.outputs[0]).elements(), node.attrs);
    }

    void choose_type(Layer& layer) const {
        const auto supports = [this](std::string_view opcode, const auto& inputs, const auto& outputs) {
            return target_.takes(opcode, inputs, outputs);
        };
        for (const ElemType type : {ElemType::f16, ElemType::bf16, ElemType::f32}) {
            const bool wider = bit_width(type) > bit_width(precision_);
            const bool possible =
                wider && std::all_of(layer.nodes.begin(), layer.nodes.end(), [&](NodeId n) {
                    return passes::can_keep(graph_, graph_.nodes[n], type, precision_, supports);
                });
            if (!possible) continue;
            layer.wide = type;
            break;
        }
        if (layer.wide == ElemType::none) return;
        const double macs = double(layer.macs);
        const bool array = layer.macs > 0;
        const bool has_products = array && target_.has_rate(layer.wide, layer.wide);
        layer.sums_only = array && !has_products;
        layer.narrow_cycles = array ? macs / peak(target_, precision_) : 0;
        layer.wide_cycles = array ? macs / peak(target_, has_products ? layer.wide : precision_) : 0;
        const Node& last = graph_.nodes[layer.nodes.back()];
        layer.wide_cycles += double(graph_.value(last.outputs[0]).elements()) / lanes(target_);
    }

    const graph::Graph& graph_;
    ElemType precision_;
    const compiler::Target& target_;
    std::vector<size_t> of_value_;  ///< the layer that makes it
    std::map<std::string, size_t> by_source_;
    std::vector<Layer> layers_;
};

}  // namespace

std::vector<Layer> layers_of(const graph::Graph& graph, ElemType precision, const compiler::Target& target) {
    return Finder(graph, precision, target).run();
}

}  // namespace kpu::precision
