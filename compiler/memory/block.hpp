#pragma once

#include <map>

#include "compiler/graph/graph.hpp"

namespace kpu::compiler {

/// Part of a constant: elements [first, first + count) of each dimension.
struct Block {
    graph::ValueId value = 0;
    Dims first, count;
    ElemType elem =
        ElemType::none;  ///< stored as this: another type than the constant's for bias that is summed in f32
    bool operator<(const Block& other) const;
};
/// Returns the whole of a constant.
Block whole_block(const graph::Graph& graph, graph::ValueId value);

/// Byte offsets of blocks.
using BlockPlaces = std::map<Block, int64_t>;

}  // namespace kpu::compiler
