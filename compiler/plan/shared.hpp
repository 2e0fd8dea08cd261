#pragma once
// Constants that several operations read, such as the steps of an LSTM. Whoever reads a block of one first leaves it in L2,
// as it stands in DDR, for those behind.
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/memory/constants.hpp"
#include "compiler/memory/memory.hpp"

namespace kpu::compiler {

struct PlannedOp;
struct Target;

/// Those that more than one of the operations bring to L1 from DDR, with what it saves to keep them. `inferences`: how often
/// the operations run, one behind the other; what is shared stays through all.
std::vector<SharedConstant> shared_constants(const graph::Graph& graph, const std::vector<PlannedOp>& ops,
                                             uint64_t inferences);

/// What the first reader of each takes, which brings it: Tiling::cycles and dram.
void judge_first(const graph::Graph& graph, const Target& target, const MemoryPlan& memory,
                 uint64_t arena_bytes, std::vector<PlannedOp>& ops);

/// Byte offsets of their blocks, as they are read for the first time.
class SharedBlocks {
  public:
    explicit SharedBlocks(const MemoryPlan& memory) : memory_(memory) {}
    /// Blocks are those that most of the operations cut a constant into, once all tiles are known.
    void choose_blocks(const graph::Graph& graph, const std::vector<PlannedOp>& ops);

    /// In the L2 arena; none: it is not there yet.
    std::optional<int64_t> find(const Block& block) const;
    /// None: there is no room left, or most operations cut the constant in another way.
    std::optional<int64_t> add(const Block& block);

  private:
    const MemoryPlan& memory_;
    struct Cut {
        Dims tile, shape;
    };
    std::map<graph::ValueId, Cut> blocks_;
    BlockPlaces places_;
    std::map<graph::ValueId, uint64_t> used_;
};

}  // namespace kpu::compiler
