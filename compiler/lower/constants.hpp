#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::lower {

/// Part of a constant: elements [first, first + count) of each dimension.
struct Block {
    graph::ValueId value = 0;
    Dims first, count;
    ElemType elem =
        ElemType::none;  ///< stored as this: another type than the constant's for bias that is summed in f32
    bool operator<(const Block& other) const;
};

/// The bytes of constants as DDR holds them: each block dense where it is first needed, and once.
class Constants {
  public:
    explicit Constants(const graph::Graph& graph) : graph_(graph) {}

    /// Byte offset of a block, which is added if it is new.
    int64_t place(const Block& block);
    /// The whole of a constant.
    Block whole(graph::ValueId value) const;
    std::string take() { return std::move(bytes_); }
    uint64_t size() const { return bytes_.size(); }

  private:
    void append(const Block& block);
    void append_nibbles(const uint8_t* numbers, size_t count, bool low);

    const graph::Graph& graph_;
    std::map<Block, int64_t> places_;
    std::string bytes_;
};

}  // namespace kpu::lower
