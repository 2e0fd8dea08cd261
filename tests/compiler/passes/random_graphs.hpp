#pragma once
// Networks as an importer makes them, random in shape and content, and what tests ask of graphs.
#include <random>
#include <string>
#include <vector>

#include "compiler/passes/passes.hpp"
#include "tests/compiler/graph/graphs.hpp"

namespace kpu::passes::testing {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::ValueId;
using graph::testing::constant;
using graph::testing::named;
using graph::testing::output;
using Random = std::mt19937_64;

int64_t pick(Random& random, int64_t low, int64_t high);
std::vector<float> random_floats(Random& random, uint64_t count, double low = -1, double high = 1);
ValueId random_constant(Graph& graph, Random& random, const std::vector<int64_t>& shape, double low = -1,
                        double high = 1);
/// Returns the attribute of products whose sums are f32.
BoundAttrs accumulate();

/// Nodes as an importer writes them: tensors NCHW, the opcodes' own order between transposes.
struct Builder {
    Graph graph;
    Random random;
    int nodes = 0;

    explicit Builder(uint64_t seed) : random(seed) {}
    graph::NodeOptions next(const std::string& type);
    ValueId node(const std::string& opcode, std::vector<ValueId> operands, BoundAttrs attrs = {});
    ValueId transpose(ValueId x, std::vector<int64_t> perm);
    ValueId reshape(ValueId x, std::vector<int64_t> shape);
    const Dims& shape(ValueId id) const { return graph.value(id).shape; }

    ValueId conv(ValueId nchw, int64_t channels, int64_t kernel, int64_t stride, bool depthwise = false);
    ValueId batch_norm(ValueId nchw);
    ValueId pool(ValueId nchw, const std::string& opcode);
    ValueId mean_of_pixels(ValueId nchw, bool keep);
    ValueId linear(ValueId x, int64_t columns);
    ValueId layer_norm(ValueId x, bool spelled_out);
};

Graph random_conv_net(uint64_t seed);
Graph random_transformer(uint64_t seed);
/// Makes elementwise nodes, views and reductions in any order, with transposes all over.
Graph random_mixture(uint64_t seed);

std::vector<Data> random_inputs(const Graph& graph, Random& random);
/// Returns the host's outputs, f32 all.
std::vector<std::vector<float>> outputs_of(const Graph& graph, const std::vector<Data>& host_inputs);
/// Returns the greatest difference of all outputs, relative to the range of each.
double difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);

values::ComputeBackend& engine();
Options options();
/// Returns the options of a device with an output-stationary array of so many rows and columns, which has all
/// opcodes, and a fast memory.
Options options_of_array(uint64_t side);
/// Returns "conv2d relu", in order.
std::string opcodes_of(const Graph& graph);
size_t count(const Graph& graph, const std::string& opcode);
/// Returns the elements that transposes move.
uint64_t moved(const Graph& graph);
const Node& find(const Graph& graph, const std::string& opcode);
std::vector<std::string> absorbed(const Node& node);

}  // namespace kpu::passes::testing
