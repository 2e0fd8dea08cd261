#include "compiler/memory/block.hpp"

#include <tuple>

#include "compiler/tile_op/tile_op.hpp"

namespace kpu::compiler {

bool Block::operator<(const Block& other) const {
    const auto key = [](const Block& b) { return std::tie(b.value, b.first.v, b.count.v, b.elem); };
    return key(*this) < key(other);
}

Block whole_block(const graph::Graph& graph, graph::ValueId value) {
    Block block;
    block.value = value;
    block.count = shape_of(graph.value(value));
    block.first.rank = block.count.rank;
    block.elem = graph.value(value).elem;
    return block;
}

}  // namespace kpu::compiler
