#pragma once
// Executing a graph node by node, with the engines of kpu::values: the oracle of every pass, the numbers of
// calibration, and what folds constants.
#include <functional>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "values/compute.hpp"

namespace kpu::graph {

class GraphExecutor {
  public:
    /// Receives every value as it is made, inputs of the graph too, constants not. The tensor is gone when
    /// the call ends.
    using Observer = std::function<void(ValueId, const values::Tensor&)>;

    /// Makes an executor. Both must outlive it; the graph must not change.
    GraphExecutor(const Graph& graph, values::ComputeBackend& backend);

    /// inputs: one for each of Graph::inputs, in the type, shape and order of dimensions of its VALUE. Result:
    /// the same of Graph::outputs. Values are freed after their last use. Throws UserError on another number
    /// or size of inputs, and where an opcode refuses its operands.
    std::vector<Data> run(const std::vector<Data>& inputs, const Observer& observe = {});

  private:
    using Frame = std::vector<Data>;  ///< indexed by value; empty: not there, or no longer
    void take_inputs(const std::vector<Data>& inputs, const Observer& observe, Frame& frame) const;
    void execute(const Node& node, Frame& frame);
    values::Tensor tensor(ValueId id, const Data& data) const;

    const Graph& graph_;
    values::ComputeBackend& backend_;
    std::vector<size_t> last_use_;  ///< for each value: node after which it is freed
};

/// Executes one node on these operands, broadcasting where the graph does. Result: its outputs.
std::vector<Data> execute_node(const Graph& graph, const Node& node, const std::vector<Data>& operands,
                               values::ComputeBackend& backend);

// ---- the host's arrays

/// Returns the shape of the host's array.
Dims host_shape(const Graph& graph, const Port& port);
/// Returns the bytes of the host's array: C order, int64 8 bytes, boolean 1, i4 1.
uint64_t host_bytes(const Graph& graph, const Port& port);
/// Returns the value of an input for the host's array: order of dimensions, type (floats are rounded once, or
/// quantised as the value is). Throws UserError on another size, and on an int64 that does not fit.
Data from_host(const Graph& graph, const Port& port, const Data& array);
/// Returns the host's array of an output, or of an input.
Data to_host(const Graph& graph, const Port& port, const Data& value);

/// Does run() on the host's arrays.
std::vector<Data> run_on_host(const Graph& graph, values::ComputeBackend& backend,
                              const std::vector<Data>& arrays);

}  // namespace kpu::graph
