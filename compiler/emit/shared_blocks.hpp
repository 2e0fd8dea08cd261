#pragma once

#include <map>
#include <optional>

#include "compiler/plan/plan.hpp"

namespace kpu::compiler {

/// Byte offsets in L2 of blocks of shared constants, as they are read for the first time.
class SharedBlocks {
  public:
    explicit SharedBlocks(const Plan& plan) : memory_(plan.memory), cuts_(plan.shared) {}

    /// None: it is not there yet.
    std::optional<int64_t> find(const Block& block) const;
    /// None: there is no room left, or most operations cut the constant in another way.
    std::optional<int64_t> add(const Block& block);

  private:
    const MemoryPlan& memory_;
    const std::map<graph::ValueId, BlockCut>& cuts_;
    BlockPlaces places_;
    std::map<graph::ValueId, uint64_t> used_;
};

}  // namespace kpu::compiler
