#include "compiler/precision/parts.hpp"

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "values/scalar.hpp"

namespace kpu::precision {
namespace {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::ValueId;

/// Gives each part a number, and has the views of the graph move these.
class Labels {
  public:
    Labels(const Graph& graph, values::ComputeBackend& engine)
        : graph_(graph), engine_(engine), producers_(graph::producers(graph)) {}

    Data of(ValueId id) {
        const Node* maker = producers_[id] < 0 ? nullptr : &graph_.nodes[size_t(producers_[id])];
        if (maker == nullptr || !only_moves(*maker))
            return graph::make_numbers(graph_.value(id).elem,
                                       std::vector<double>(graph_.value(id).elements(), next_++));
        std::vector<Data> operands;
        for (const ValueId operand : maker->inputs) operands.push_back(of(operand));
        return graph::execute_node(graph_, *maker, operands, engine_)[0];
    }

  private:
    static bool only_moves(const Node& node) {
        return node.spec().traits.reorders || node.spec().name == "concat";
    }

    const Graph& graph_;
    values::ComputeBackend& engine_;
    std::vector<int32_t> producers_;
    double next_ = 0;
};

}  // namespace

std::vector<size_t> parts_of_output(const Graph& graph, const graph::Port& output,
                                    values::ComputeBackend& engine) {
    graph::Port plain = output;  // labels stay in the type of the value
    plain.elem = graph.value(output.value).elem;
    plain.host = graph::HostType::same;
    const Data labels = graph::to_host(graph, plain, Labels(graph, engine).of(output.value));
    std::vector<size_t> parts(graph.value(output.value).elements());
    for (size_t i = 0; i < parts.size(); ++i)
        parts[i] = static_cast<size_t>(values::load_float(plain.elem, labels.bytes, static_cast<int64_t>(i)));
    return parts;
}

}  // namespace kpu::precision
