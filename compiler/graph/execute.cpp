#include "compiler/graph/execute.hpp"

#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "compiler/graph/data.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::graph {
namespace {

/// A dense operand as the engine takes it.
struct Operand {
    Data data;
    Dims shape;
    BoundQuant quant;
};

/// Returns dimensions that the engines take: they have no tensors of rank 0.
Dims with_rank(Dims shape) {
    if (shape.rank == 0) {
        shape.rank = 1;
        shape[0] = 1;
    }
    return shape;
}

/// Returns the quantisation of an operand that is repeated to a larger shape: its axis counts from the last
/// dimension.
BoundQuant broadcast_quant(BoundQuant quant, const Dims& from, const Dims& to) {
    if (!quant || quant.kind == proto::Quant::PER_TENSOR) return quant;
    const int moved = quant.axis + to.rank - from.rank;
    if (from[static_cast<size_t>(quant.axis)] == 1 && to[static_cast<size_t>(moved)] != 1) {
        quant.kind = proto::Quant::PER_TENSOR;
        quant.axis = 0;
    } else {
        quant.axis = moved;
    }
    return quant;
}

/// Returns the shape in which an opcode reads an operand.
Dims read_shape(const Graph& graph, const Node& node, size_t i) {
    const Dims& own = graph.value(node.inputs[i]).shape;
    if (node.spec().traits.elementwise) return graph.value(node.outputs.at(0)).shape;
    const bool factor = node.spec().traits.needs == Needs::matrix && i == 1;
    return factor ? repeated_factor(graph.value(node.inputs[0]).shape, own) : own;
}

Operand prepare(const Graph& graph, const Node& node, size_t i, const Data& data) {
    const Value& value = graph.value(node.inputs[i]);
    const uint64_t size = element_bytes(value.elem);
    const Dims result = read_shape(graph, node, i);
    if (value.shape == result) return {aligned(data, size), with_rank(value.shape), value.quant};
    return {broadcast_to(data, size, value.shape, result), with_rank(result),
            broadcast_quant(value.quant, value.shape, result)};
}

values::Tensor tensor_of(ElemType elem, const Operand& operand) {
    // engines take operands and results alike; operands they only read
    return {elem, operand.shape, &operand.quant, const_cast<uint8_t*>(operand.data.bytes)};
}

std::vector<Operand> make_results(const Graph& graph, const Node& node,
                                  const std::vector<Operand>& operands) {
    std::vector<TypedShape> shapes;
    for (size_t i = 0; i < operands.size(); ++i)
        shapes.push_back({graph.value(node.inputs[i]).elem, operands[i].shape});
    // of what the engine sees, which has no rank 0
    const std::vector<Dims> expected = infer_shapes(node.spec(), shapes, node.attrs);
    if (expected.size() != node.outputs.size())
        throw InternalError(fmt::format("graph: node {} has another number of outputs", node.source.name));
    std::vector<Operand> results;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
        const Value& value = graph.value(node.outputs[o]);
        if (expected[o].product() != value.shape.product())
            throw InternalError(fmt::format("graph: {} has another shape", value.name));
        results.push_back(
            {new_data(data_bytes(value.elem, value.elements())).data, expected[o], value.quant});
    }
    return results;
}

/// Executes the whole operation as one launch.
void execute_kernel(const kernels::Operation& operation, const std::vector<values::Tensor>& inputs,
                    const std::vector<values::Tensor>& outputs, const BoundAttrs& attrs) {
    std::vector<values::kernel::Bytes> storage;
    kernels::Shapes in, out;
    std::vector<ElemType> types;
    const auto take = [&](const values::Tensor& tensor, kernels::Shapes& shapes) {
        shapes.push_back(tensor.shape);
        storage.push_back({tensor.data, data_bytes(tensor.type, tensor.elements())});
    };
    for (const values::Tensor& tensor : inputs) {
        take(tensor, in);
        types.push_back(tensor.type);
    }
    for (const values::Tensor& tensor : outputs) take(tensor, out);
    const kernels::Launch launch = operation.launch(in, out, attrs);
    const kernels::Instance& instance =
        kernels::instance_of(operation, kernels::data_type(operation, types), launch);
    try {
        values::kernel::run_launch(*instance.code, {static_cast<uint64_t>(launch.workgroups), 1, 1},
                                   {launch.scalars.begin(), launch.scalars.end()}, storage, {});
    } catch (const SimulationError& error) {  // an index outside: the operands are wrong
        throw UserError(error.what());
    }
}

}  // namespace

std::vector<Data> execute_node(const Graph& graph, const Node& node, const std::vector<Data>& operands,
                               values::ComputeBackend& backend) {
    std::vector<Operand> inputs;
    for (size_t i = 0; i < operands.size(); ++i) inputs.push_back(prepare(graph, node, i, operands[i]));
    std::vector<values::Tensor> in, out;
    for (size_t i = 0; i < inputs.size(); ++i)
        in.push_back(tensor_of(graph.value(node.inputs[i]).elem, inputs[i]));
    try {
        std::vector<Operand> results = make_results(graph, node, inputs);
        for (size_t o = 0; o < results.size(); ++o)
            out.push_back(tensor_of(graph.value(node.outputs[o]).elem, results[o]));
        if (const kernels::Operation* kernel = kernels::find(node.opcode)) {
            execute_kernel(*kernel, in, out, node.attrs);
        } else {
            backend.execute(node.opcode, in, out, node.attrs);
        }
        std::vector<Data> made;
        for (Operand& operand : results) made.push_back(std::move(operand.data));
        return made;
    } catch (const UserError& error) {
        throw UserError(fmt::format("operator `{}`: {}", node.source.name, error.what()));
    }
}

GraphExecutor::GraphExecutor(const Graph& graph, values::ComputeBackend& backend)
    : graph_(graph), backend_(backend), last_use_(graph.values.size(), 0) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        for (const ValueId output : graph.nodes[i].outputs) last_use_[output] = i;
        for (const ValueId operand : graph.nodes[i].inputs) last_use_[operand] = i;
    }
    for (const Port& port : graph.outputs) last_use_[port.value] = graph.nodes.size();
}

values::Tensor GraphExecutor::tensor(ValueId id, const Data& data) const {
    const Value& value = graph_.value(id);
    return {value.elem, value.shape, &value.quant, const_cast<uint8_t*>(data.bytes)};
}

void GraphExecutor::take_inputs(const std::vector<Data>& inputs, const Observer& observe,
                                Frame& frame) const {
    if (inputs.size() != graph_.inputs.size()) {
        throw UserError(fmt::format("`{}` has {} inputs, {} are given. Fix: give one array for each.",
                                    graph_.name, graph_.inputs.size(), inputs.size()));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Port& port = graph_.inputs[i];
        const Value& value = graph_.value(port.value);
        const uint64_t needed = data_bytes(value.elem, value.elements());
        if (inputs[i].size != needed) {
            throw UserError(fmt::format("input `{}` has {} bytes, {}{} needs {}. Fix: give all elements.",
                                        port.name, inputs[i].size, name_of(value.elem),
                                        shape_text(value.shape), needed));
        }
        frame[port.value] = aligned(inputs[i], element_bytes(value.elem));
        if (observe) observe(port.value, tensor(port.value, frame[port.value]));
    }
}

void GraphExecutor::execute(const Node& node, Frame& frame) {
    std::vector<Data> operands;
    for (const ValueId operand : node.inputs) {
        const Value& value = graph_.value(operand);
        operands.push_back(value.constant() ? value.data : frame[operand]);
        if (!operands.back()) throw InternalError(fmt::format("graph: {} is read too early", value.name));
    }
    std::vector<Data> results = execute_node(graph_, node, operands, backend_);
    for (size_t o = 0; o < results.size(); ++o) frame[node.outputs[o]] = std::move(results[o]);
}

std::vector<Data> GraphExecutor::run(const std::vector<Data>& inputs, const Observer& observe) {
    Frame frame(graph_.values.size());
    take_inputs(inputs, observe, frame);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
        const Node& node = graph_.nodes[i];
        execute(node, frame);
        for (const ValueId output : node.outputs) {
            if (observe) observe(output, tensor(output, frame[output]));
        }
        for (const std::vector<ValueId>* ids : {&node.inputs, &node.outputs}) {
            for (const ValueId id : *ids) {
                if (last_use_[id] == i) frame[id] = {};
            }
        }
    }
    std::vector<Data> results;
    for (const Port& port : graph_.outputs) {
        const Value& value = graph_.value(port.value);
        results.push_back(value.constant() ? value.data : frame[port.value]);
    }
    return results;
}

}  // namespace kpu::graph
