#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::execution {

constexpr int32_t no_slot = -1;

/// Units that may take a task.
struct UnitDemand {
    UnitKind kind = UnitKind::dma;
    int32_t engine = -1;    ///< -1: any (always so for units of the device)
    int32_t instance = -1;  ///< -1: any
    bool operator==(const UnitDemand& o) const {
        return kind == o.kind && engine == o.engine && instance == o.instance;
    }
    /// True if a unit of this kind, engine and instance may take such a task; -1 matches any.
    bool accepts(UnitKind unit, int unit_engine, int unit_instance) const;
};
/// Returns the demand for the unit that executes the task, and for the second one that it occupies.
UnitDemand demand_of(const BoundTask& task);
std::optional<UnitDemand> partner_demand_of(const BoundTask& task);

/// Memory of a thread for one token. It belongs to a task of the thread's own block (depth 0), or it stands
/// for all instances of a task inside loops of that block (depth: how many loops are in between).
struct TokenSlot {
    uint32_t statement = 0;  ///< the task
    uint32_t depth = 0;
    int32_t next =
        no_slot;  ///< slot of the enclosing thread that counts this one, if any statement there refers to it
};

/// A token that a statement needs: slot `slot` of the thread `up` levels above its own; or, with a distance,
/// of the thread that has the same iterations but for that of the loop `inner` levels further up, which is
/// `distance` iterations before.
struct TokenRef {
    uint32_t up = 0;
    uint32_t slot = 0;
    uint32_t inner = 0;
    uint32_t distance = 0;  ///< 0: a token of the same iteration
    bool operator==(const TokenRef& o) const {
        return up == o.up && slot == o.slot && inner == o.inner && distance == o.distance;
    }
};

/// The statements of one control thread: the top level, or the body of a loop.
struct BlockPlan {
    uint32_t first = 0, end = 0;
    uint32_t parent = 0;  ///< block of the loop statement; the top level is its own parent
    uint32_t depth = 0;   ///< enclosing loops
    std::vector<TokenSlot> slots;
    std::vector<uint16_t> demands;  ///< that occur in it, nested loops included
    uint32_t watches = 0;           ///< loops in it that carried tokens look into
    bool carries = false;           ///< carried tokens refer to its slots
};

struct StatementPlan {
    uint32_t next = 0;  ///< the statement after it in its block
    uint32_t block = 0;
    uint32_t body = 0;              ///< loop: its block
    bool idle = false;              ///< nothing to do: a declaration, or a loop without tasks and waits
    int32_t slot = no_slot;         ///< task: of its own token, when anything refers to it
    std::vector<TokenRef> needs;    ///< task, wait
    std::vector<uint32_t> counted;  ///< loop: slots of its thread that count instances inside it
    std::vector<uint16_t> lost;     ///< demands that occur no more in the block after it
    int32_t watch = no_slot;        ///< loop: its number among the watches of its block
};

/// Everything about a program's control flow that does not change from iteration to iteration.
struct ProgramPlan {
    explicit ProgramPlan(const BoundProgram& program);
    std::vector<StatementPlan> statements;
    std::vector<BlockPlan> blocks;  ///< [0] is the top level
    std::vector<UnitDemand> demands;
};

}  // namespace kpu::execution
