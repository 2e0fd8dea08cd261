#pragma once

#include <string>

#include "compiler/memory/block.hpp"

namespace kpu::compiler {

/// Places of constants in DDR: each block dense where it is first needed, and once.
class Constants {
  public:
    /// Returns the byte offset of a block, which is added if it is new.
    int64_t place(const Block& block);
    BlockPlaces take() { return std::move(places_); }
    uint64_t size() const { return size_; }

  private:
    BlockPlaces places_;
    uint64_t size_ = 0;
};

/// Returns the bytes that DDR holds.
std::string bytes_of(const graph::Graph& graph, const BlockPlaces& places);

}  // namespace kpu::compiler
