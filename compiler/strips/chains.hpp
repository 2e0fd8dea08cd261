#pragma once
// Chains: operations that follow each other and can be worked off in strips along one dimension of what they hand over
// (rows of pictures, heads or rows of attention), so that a strip stays in L2 where a whole tensor would not. This
// page says what a chain needs; strips.hpp chooses chains and cuts them.
#include <map>
#include <optional>
#include <vector>

#include "compiler/memory/memory.hpp"
#include "compiler/tile_op/tile_op.hpp"

namespace kpu::compiler {

/// A group of nodes, or a node that only renames bytes, in the order of the graph.
struct Step {
    NodeRange nodes;
    bool renames = false;
};

/// Relation of a dimension of a tensor to the indices of a step: index i touches elements [i * step - before,
/// i * step - before + extent).
struct Follow {
    size_t dim = 0;
    Window window;  ///< its axis says nothing
};

/// A step along which the strips run: `extent` indices, and the dimensions that follow them.
struct Strand {
    int64_t extent = 0;
    int64_t quantum = 1;                                   ///< strips of a multiple of it fill the array
    std::map<graph::ValueId, std::vector<Follow>> inputs;  ///< inputs of the step; nothing: it is read whole
    std::map<graph::ValueId, Follow> outputs;
};

/// Half open.
struct Rows {
    int64_t lo = 0, hi = 0;
    int64_t count() const { return hi - lo; }
};

/// Steps [first, last] of a graph, cut along one dimension of each tensor that they make.
struct Chain {
    size_t first = 0, last = 0;
    int64_t strips = 1;
    std::vector<Strand> strands;            ///< strand of each step, the last one first
    std::map<graph::ValueId, size_t> dims;  ///< for what the steps make: the dimension that is cut
    std::map<graph::ValueId, bool> leaves;  ///< somebody outside reads it: it is kept whole
    /// Rows of each value that each strip needs, halo included, and rows that are new in it.
    std::map<graph::ValueId, std::vector<Rows>> needed, fresh;
    /// Values that each strip reads all of, and are copied to L2 beforehand, with the first step that reads
    /// them.
    std::map<graph::ValueId, size_t> held;
};

/// Steps that chains are made of.
class Steps {
  public:
    /// `columns`: of an array, which strips of columns should fill.
    explicit Steps(const graph::Graph& graph, int64_t columns = 1);

    const graph::Graph& graph() const { return graph_; }
    const std::vector<Step>& all() const { return steps_; }
    /// Returns the step that makes a value; -1: none does.
    int maker(graph::ValueId value) const { return maker_[value]; }
    /// Returns the steps that read it, ascending.
    const std::vector<size_t>& readers(graph::ValueId value) const { return readers_[value]; }
    bool is_output(graph::ValueId value) const { return output_[value]; }
    /// Returns the values that others than the step itself read.
    const std::vector<graph::ValueId>& made(size_t step) const { return made_[step]; }
    /// Returns the values that it reads and does not make.
    const std::vector<graph::ValueId>& read(size_t step) const { return read_[step]; }
    const TileOp& op(size_t step) const { return ops_[step]; }

    /// Returns a step cut so that dimension `dim` of `value`, which it makes, follows its indices; nothing:
    /// it cannot be.
    std::optional<Strand> strand(size_t step, graph::ValueId value, size_t dim) const;

  private:
    std::optional<Strand> of_group(size_t step, graph::ValueId value, size_t dim) const;
    std::optional<Strand> of_view(const graph::Node& node, graph::ValueId value, size_t dim) const;

    const graph::Graph& graph_;
    int64_t columns_;
    std::vector<bool> internal_;
    std::vector<Step> steps_;
    std::vector<int> maker_;
    std::vector<std::vector<size_t>> readers_;
    std::vector<bool> output_;
    std::vector<std::vector<graph::ValueId>> made_, read_;
    std::vector<TileOp> ops_;  ///< for each step; empty for one that renames
};

/// Grows chains backwards from the step `last`, whose result is cut along `dim` where its readers leave that open.
class ChainGrower {
  public:
    ChainGrower(const Steps& steps, size_t last, size_t dim);
    /// Takes one more step in, before the first. False: it cannot be cut together with those after it.
    bool grow();
    const Chain& chain() const { return chain_; }

  private:
    const Steps& steps_;
    Chain chain_;
    size_t wanted_dim_ = 0;
};

/// Returns the rows of a dimension of `extent` that indices `range` of a step touch.
Rows rows_of(const Window& window, const Rows& range, int64_t extent);

/// Sets Chain::strips, needed and fresh. False: so many strips would leave one of them without work, or a tensor that is
/// kept whole would be read beyond its strip.
bool cut(const Steps& steps, Chain& chain, int64_t strips);

}  // namespace kpu::compiler
