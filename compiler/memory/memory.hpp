#pragma once
// Where the tensors of a graph live: which share their bytes, when they are alive, and their places in L2 and DDR.
#include <map>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/mapping/tiling.hpp"
#include "compiler/tile_op/groups.hpp"

namespace kpu::compiler {

/// Bytes that one or more values live in, from the first group that writes them to the last that reads them.
struct Storage {
    std::string name;  ///< name of the value that it was made for
    ElemType elem = ElemType::none;
    uint64_t bytes = 0;
    uint32_t first = 0, last = 0;  ///< groups, in order; first > last: none touches it, and it has no place
    Home home = Home::ddr;
    bool input = false, output = false;  ///< the host gives or takes it: a buffer of its own
    uint64_t address = 0;                ///< in its arena: that of L2, that of DDR, or 0 in its own buffer
    uint64_t traffic = 0;                ///< bytes that groups write to it and read from it
    bool constant = false;               ///< DDR has it anyhow
};

/// Returns the bytes from one inference's to the next's, of what the host gives or takes.
inline uint64_t host_step(const Storage& storage) { return align_up(storage.bytes); }
/// Returns the bytes of all inferences.
inline uint64_t host_bytes(const Storage& storage, uint64_t inferences) {
    return inferences > 1 ? inferences * host_step(storage) : storage.bytes;
}

/// A value as a window of its storage.
struct View {
    uint32_t storage = 0;
    int64_t offset = 0;        ///< elements
    Dims strides;              ///< elements; of shape_of(value)
    int64_t per_position = 0;  ///< elements further for each position of the program
};

/// A constant that several groups read, from the first of them to the last.
struct SharedConstant {
    graph::ValueId value = 0;
    uint32_t first = 0, last = 0;
    uint64_t bytes = 0;    ///< that it takes of L2
    uint64_t traffic = 0;  ///< that it saves there
};

/// Bytes for tensors.
struct Room {
    uint64_t l2 = 0, ddr = 0;
    int64_t channel = 0,
            all_channels = 0;  ///< bytes of DRAM before it goes on in the next channel, in the same one
};

class MappingWishes;

struct MemoryPlan {
    std::vector<View> views;  ///< indexed by value; constants have none
    std::vector<Storage> storages;
    std::map<graph::ValueId, uint32_t> shared;  ///< constants that have a storage in L2
    /// Groups of nodes that become tasks; nodes that only rename bytes are in none.
    std::vector<NodeRange> groups;
    std::vector<bool> internal;            ///< for each value: made and used by one group
    uint64_t l2_bytes = 0, ddr_bytes = 0;  ///< sizes of the two arenas
    /// Gap of each group: bytes of the L2 arena that no storage has meanwhile.
    struct Gap {
        uint64_t address = 0, bytes = 0;
    };
    std::vector<Gap> spare;
};

/// Returns the strides of an operation's operands: elements, where they stand at home.
std::vector<Dims> strides_at_home(const graph::Graph& graph, const MemoryPlan& memory, const TileOp& op);

/// Returns the host's name of a value: an input or output, or another view of an input's bytes.
const std::string& host_name(const graph::Graph& graph, const MemoryPlan& memory, graph::ValueId id);

/// Returns the bytes that groups read from DDR and write to it if each reads its operands once.
uint64_t ddr_traffic(const graph::Graph& graph, const MemoryPlan& memory);

/// Returns a node that copies a value, for the operation `source`.
graph::Node copy_of(graph::Graph& graph, graph::ValueId value, const graph::Source& source);
/// Copies where a value cannot share bytes: a concatenation's input that others made, a reshape of a window.
void insert_copies(graph::Graph& graph);
/// Throws UserError when DDR is too small.
/// `wishes`: homes that are fixed; those in L2 are placed first. Throws UserError when one finds no place there.
/// `shared`: constants that get a place in L2 if that saves more than what else could live there.
MemoryPlan plan_memory(const graph::Graph& graph, GroupList groups, const Room& room,
                       const MappingWishes& wishes, const std::vector<SharedConstant>& shared = {});

}  // namespace kpu::compiler
