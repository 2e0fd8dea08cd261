#pragma once
// A program in the making: its buffers, its tasks so far, and what these have left where. It lives for one emit().
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/emit/constants.hpp"
#include "compiler/emit/order.hpp"
#include "compiler/emit/shared_blocks.hpp"
#include "compiler/emit/throttle.hpp"
#include "compiler/plan/plan.hpp"
#include "isa/builder.hpp"

namespace kpu::compiler {

/// Buffers that the plan asks for.
struct Buffers {
    Buffers(builder::Program& program, const Plan& plan, const Target& target);

    std::map<uint32_t, builder::Buffer> host;  ///< indexed by storage: inputs and outputs
    builder::Buffer weights, activations;      ///< in DDR
    builder::Buffer table, resident, held;     ///< in L2
    std::vector<builder::Buffer> l1, staging;  ///< indexed by engine: its L1, and as much of L2
    /// Returns the buffer of a storage.
    builder::Buffer of(uint32_t index, const Storage& storage) const;
};

/// Last loads of an engine, by operand. Later ones wait for them: all at once, they would share the way, and
/// the one that is needed first would be there last.
struct Loads {
    std::map<size_t, builder::Task> into_l2, into_l1;
};

/// Kernels that tasks launch.
struct Kernels {
    std::map<uint32_t, kernels::Work> launches;  ///< indexed by statement
    bool needs_values = false;                   ///< the time of some of them depends on values
    std::set<std::string> carried;               ///< names of those that the program has
};

/// Numbers of Span::frame, by storage, offset, strides (-1 of dimensions of size 1).
class Frames {
  public:
    uint32_t of(std::vector<int64_t> origin) {
        return numbers_.try_emplace(std::move(origin), static_cast<uint32_t>(numbers_.size() + 1))
            .first->second;
    }

  private:
    std::map<std::vector<int64_t>, uint32_t> numbers_;
};

struct Emission {
    Emission(const Plan& of, const Target& its_target)
        : plan(of),
          graph(*of.graph),
          target(its_target),
          program(graph.name),
          position(of.graph->positions.any() ? program.param("position", of.graph->positions.count - 1, 0,
                                                             of.graph->positions.count - 1)
                                             : builder::Expr(0)),
          buffers(program, of, target),
          throttle(program, order, target.limits.max_active_tokens),
          shared(of),
          held_tiles(of.ops.size()) {
        if (of.held_bytes > 0) order.write_once(buffers.held);
        if (of.table.bytes > 0) order.write_once(buffers.table);
        for (const auto& [number, buffer] : buffers.host) {
            if (!of.memory.storages[number].output) order.write_once(buffer);
        }
    }
    Emission(const Emission&) = delete;
    Emission& operator=(const Emission&) = delete;

    const Plan& plan;
    const graph::Graph& graph;
    const Target& target;
    builder::Program program;
    const builder::Expr position;  ///< the program's parameter, if it has one
    bool in_form = false;  ///< true if what is written now is for one form of a value, and may not run
    const Buffers buffers;
    Order order;
    Throttle throttle;
    Constants constants;
    Frames frames;
    Kernels kernels;
    // what stands where
    SharedBlocks shared;
    std::vector<std::set<std::vector<int64_t>>>
        held_tiles;  ///< indexed by operation: tiles that the first inference left in L2
    // who waits for whom, beside the order of bytes
    std::map<size_t, Loads> loads;       ///< indexed by engine
    std::vector<builder::Task> streams;  ///< loads of large constants from DDR, in order
    uint32_t turns = 0;                  ///< stages so far: they take turns in the halves of L1
};

}  // namespace kpu::compiler
