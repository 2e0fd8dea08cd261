#pragma once
// Rewriting of graphs. Each pass is a file and a row of the table; each keeps what the graph computes, which its
// test checks by executing graphs before and after.
#include <functional>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/graph/supports.hpp"
#include "values/compute.hpp"

namespace kpu::passes {

using graph::Graph;
using graph::Node;

/// `groups` products of M x K by K x N.
struct ProductShape {
    ElemType a, b, result;
    uint64_t m, n, k, groups;
};

struct Options {
    values::ComputeBackend& backend;  ///< folds constants
    /// Transposes at inputs and outputs are the host's: they move into Port::perm. false: they stay nodes.
    bool host_layout = true;
    /// Folding makes no constant of more bytes than this, unless it is smaller than what it is made of.
    uint64_t largest_folded = uint64_t{64} << 20;
    /// Type of the device's floats; none: as they are. With a float type integer weights of quantised models
    /// are folded to floats, without they stay integers after their `dequantize`.
    ElemType precision = ElemType::none;
    /// Products that make outputs of the network leave the accumulators as f32, whatever `precision` is.
    bool f32_outputs = true;
    /// Computations of the device: nodes that are kept in a type of their own (Node::kept) need it.
    graph::Supports supports = {};
    /// Bytes of an engine's L1: what its tiles must fit into. 0: not known, all nodes stay whole.
    uint64_t l1_bytes = 0;
    /// Cycles of an engine's array for a product; empty: not known. Bytes that DRAM brings in each.
    std::function<double(const ProductShape& product)> product_cycles = {};
    double ddr_bytes_per_cycle = 1;
    /// Number of passes of the table that the graph has been through, of all stages in their order: they do
    /// not run again.
    size_t passed = 0;
};

/// Bound on how much a pass may change the numbers.
enum class Exactness : uint8_t {
    bits,      ///< nothing, but that a zero may change its sign
    rounding,  ///< roundings are fewer or others: a few units in the last place of what is summed up
    type,      ///< the element type changes
};

enum class Stage : uint8_t {
    rewrite,  ///< makes the network simpler, whatever the device
    types,    ///< numbers become those of the device; quantisation comes here too
    /// Decides what is computed together, and in which order: values change no more than by their rounding.
    schedule,
};

struct Pass {
    std::string_view name;
    void (*run)(Graph& graph, const Options& options);
    std::string_view description;
    Exactness exactness;
    Stage stage;
};

/// Returns all passes, in the order in which they run; a name may stand more than once.
const std::vector<Pass>& pass_table();
bool is_pass(std::string_view name);

using AfterPass = std::function<void(const Pass& pass, const Graph& graph, double seconds)>;
/// Returns the place of a pass of the table, and of a stage's first one.
size_t place_of(const Pass& pass);
size_t first_of(Stage stage);
/// Runs the passes of one stage; `after` is called after each, with the time that it took.
void run_passes(Graph& graph, const Options& options, Stage stage, const AfterPass& after = {});

// ---- the passes

void simplify(Graph& graph, const Options& options);
void fold_constants(Graph& graph, const Options& options);
void find_patterns(Graph& graph, const Options& options);
void assign_layouts(Graph& graph, const Options& options);
void sink_reshapes(Graph& graph, const Options& options);
void fold_batch_norm(Graph& graph, const Options& options);
void add_bias(Graph& graph, const Options& options);
void pool_globally(Graph& graph, const Options& options);
void convert_precision(Graph& graph, const Options& options);
void merge_groups(Graph& graph, const Options& options);
void fit_tiles(Graph& graph, const Options& options);
void read_strided(Graph& graph, const Options& options);
void fuse(Graph& graph, const Options& options);
void order(Graph& graph, const Options& options);

/// Converts all floats to `precision` (f16, bf16, f32): each constant rounded once from what it was. Nodes
/// that are kept compute in their own type, between casts.
void convert(Graph& graph, ElemType precision, bool f32_outputs = true, const graph::Supports& supports = {});

/// Gives nodes that are kept in another type than `precision` operands of their type, and their readers
/// casts. Returns, for each value, whether it has its type for good.
std::vector<bool> hold_kept(Graph& graph, ElemType precision, const graph::Supports& supports);
/// True if the device computes the node in the type `kept`; a product may have factors of `precision` and
/// sums in it.
bool can_keep(const Graph& graph, const Node& node, ElemType kept, ElemType precision,
              const graph::Supports& supports);
/// Keeps in f32 what is inside of a normalisation that is spelled out and has become no opcode, wherever the device has that:
/// from x - mean and the squares to the product with the inverse root.
void keep_norms_wide(Graph& graph, ElemType precision, const graph::Supports& supports);
/// Throws UserError for a node that is kept in a type which the device does not have for it.
void check_kept(const Graph& graph, ElemType precision, const graph::Supports& supports);
/// Returns the largest finite number of a float type.
double largest(ElemType elem);
/// Returns a float constant in another type; finite numbers stay finite.
graph::Data rounded(const graph::Value& value, ElemType elem);

/// Returns the most bytes of values that live at the same time when the nodes run in their order: inputs,
/// outputs and all between, constants not. Nodes of a group are one step, values inside a group cost nothing;
/// a reshape is another name for the same bytes.
uint64_t peak_bytes(const Graph& graph);

}  // namespace kpu::passes
