#pragma once

#include <map>
#include <string>
#include <vector>

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

/// Byte offsets of blocks.
using BlockPlaces = std::map<Block, int64_t>;

/// Where DDR holds constants: each block dense where it is first needed, and once.
class Constants {
  public:
    explicit Constants(const graph::Graph& graph) : graph_(graph) {}

    /// Byte offset of a block, which is added if it is new.
    int64_t place(const Block& block);
    /// The whole of a constant.
    Block whole(graph::ValueId value) const;
    BlockPlaces take() { return std::move(places_); }
    uint64_t size() const { return size_; }

  private:
    const graph::Graph& graph_;
    BlockPlaces places_;
    uint64_t size_ = 0;
};

/// The bytes that DDR holds.
std::string bytes_of(const graph::Graph& graph, const BlockPlaces& places);

}  // namespace kpu::compiler
