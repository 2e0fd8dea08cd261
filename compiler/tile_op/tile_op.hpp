#pragma once
// Tile space of a group of nodes, which is all that lowering knows of it: the space it iterates over, and
// which part of each operand a tile of that space touches. Everything after it (choice of tiles, memory,
// tasks) is the same for all opcodes.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/tile_op/window.hpp"

namespace kpu::compiler {

/// Sequence of tiles along an axis.
enum class Walk : uint8_t {
    loop,    ///< iterations of a loop of the program
    unroll,  ///< statements of their own: constants are packed, or quantised, tile by tile
    sum,     ///< parts of a sum, which continue in an accumulator within one iteration
};

struct Axis {
    std::string name;  ///< as in "m", "n", "k"; for reports
    int64_t extent = 1;
    Walk walk = Walk::loop;
    bool whole = false;   ///< must not be cut
    int64_t quantum = 1;  ///< tiles of this multiple fill the array
    /// Cut whatever the others do. Loop axes that are not are cut from the outermost inwards, so that tiles stay
    /// long rows of memory.
    bool independent = false;
    int64_t least_last = 1;  ///< indices that the last tile has at least
    bool single = false;     ///< tiles have one index
};

enum class Place : uint8_t {
    input,     ///< comes from memory
    internal,  ///< made and used by the group, stays in L1
    output,    ///< goes to memory
};

struct TileOperand {
    graph::ValueId value = 0;
    std::vector<Window> windows;  ///< one for each dimension of the value; a rank-0 value has one
    Place place = Place::input;
    bool in_place = false;  ///< a kernel copies parts of it from memory
};

/// A node of the group, its operands as indices into TileOp::operands.
struct TileNode {
    graph::NodeId node = 0;
    std::vector<size_t> inputs, outputs;
};

struct TileOp {
    std::vector<Axis> axes;
    std::vector<TileOperand> operands;
    std::vector<TileNode> nodes;
    size_t anchor = 0;     ///< index into `nodes`
    std::string name;      ///< name of the operation: NodeRange::name
    graph::Source source;  ///< source of its anchor
    std::vector<graph::Source> fused;
};

/// Returns the dimensions of a value as operands have them: a scalar counts as one dimension of 1.
Dims shape_of(const graph::Value& value);

/// Returns the type that a kernel for the node works on.
ElemType data_type(const graph::Graph& graph, const graph::Node& node);

/// Describes the group [first, last) of graph.nodes. `internal[v]`: the value is used by this group alone.
/// Throws UserError naming the node where an opcode cannot be lowered.
TileOp describe(const graph::Graph& graph, graph::NodeId first, graph::NodeId last,
                const std::vector<bool>& internal);

}  // namespace kpu::compiler
