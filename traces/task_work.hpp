#pragma once

#include <cstdint>
#include <vector>

#include "base/types.hpp"
#include "traces/event.hpp"

namespace kpu::traces {

/// A resource that the bytes of a stream pass, and how many cycles each burst waits there at least, without
/// those that moving its bytes takes.
struct StreamHop {
    uint16_t unit = no_unit;  ///< link, l2, l1; of the DRAM the first channel, for all of them
    Cycles latency = 0;
    bool operator==(const StreamHop& o) const { return unit == o.unit && latency == o.latency; }
};

/// Request of one stream of a task to the memory system; model/memory/memory_system.md has the formula.
struct StreamWork {
    enum class Role : uint8_t { move, operand, result };
    /// A memory level, or the unit itself.
    struct End {
        bool is_memory = false;
        Level level = Level::ddr;
        uint16_t engine = 0;
        bool operator==(const End& o) const {
            return is_memory == o.is_memory && level == o.level && engine == o.engine;
        }
    };
    Role role = Role::move;
    End source, destination;
    uint64_t bytes = 0;
    uint64_t runs = 1;  ///< contiguous runs of the side that has more of them
    /// Rows of the bytes of its DRAM side: so many bytes each, so far apart. No rows: it has none.
    struct Rows {
        uint64_t count = 0, bytes = 0, stride = 0;
        bool operator==(const Rows& o) const {
            return count == o.count && bytes == o.bytes && stride == o.stride;
        }
    };
    Rows dram_rows;
    uint32_t port_bytes_per_cycle = 1, burst_bytes = 64, max_outstanding = 1;
    uint32_t descriptor_cycles = 0, row_cycles = 0;
    /// Operand: cycles from the begin after which its last byte is late. Result: cycles from the begin until
    /// the first of it can leave.
    Cycles due = 0;
    std::vector<StreamHop> hops;  ///< in the order in which the bytes pass them

    /// True if all but the hops, which follow from the rest, is the same.
    bool same_request(const StreamWork& o) const {
        return role == o.role && source == o.source && destination == o.destination && bytes == o.bytes &&
               runs == o.runs && dram_rows == o.dram_rows && port_bytes_per_cycle == o.port_bytes_per_cycle &&
               burst_bytes == o.burst_bytes && max_outstanding == o.max_outstanding &&
               descriptor_cycles == o.descriptor_cycles && row_cycles == o.row_cycles && due == o.due;
    }
};

/// The terms of a task's formula and its streams, without what contention adds: equal for all tasks that do
/// the same. model/unit/unit.md has the meaning of the terms.
struct TaskWork {
    bool mover = false;     ///< transfer or store: one stream, no formula terms
    bool overlaps = false;  ///< the unit takes the next task before this one completes
    Cycles lead = 0, fill = 0, steady = 0, drain = 0;
    Cycles uneven = 0;          ///< more than steady, for operand ports that are too narrow for whole folds
    Cycles occupancy = 0;       ///< cycles of the unit's entrance, from the first operand on
    uint64_t work = 0;          ///< MACs, elements, bytes
    uint64_t peak_q16 = 65536;  ///< its peak per core cycle, in 1/65536
    uint64_t macs = 0;          ///< algorithmic multiply-accumulates
    std::vector<StreamWork> streams;

    bool same_request(const TaskWork& o) const;
};

}  // namespace kpu::traces
