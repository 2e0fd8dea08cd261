#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/unit/command_protocol.hpp"
#include "platforms/platform.pb.h"

namespace kpu::model {

/// MACs, bytes and accesses of completed tasks: of the device, and what one task adds to its operation.
class WorkCounts {
  public:
    explicit WorkCounts(const proto::Platform& platform) : platform_(platform) {}

    struct Task {
        uint64_t macs = 0;
        uint64_t bytes[3] = {0, 0, 0};  ///< read and written, by level
    };
    Task add(const TaskCommand& command, bool on_array);

    uint64_t macs() const;
    /// sum over types of MACs / MACs per cycle of all arrays of the device
    double cycles_at_peak() const;
    uint64_t bytes(Level level, bool read) const { return bytes_[static_cast<size_t>(level)][read ? 0 : 1]; }
    /// Scratchpads have no cache. Hits: accesses of what asks this level first that it served (of L1: operand
    /// reads of compute tasks; of L2: reads by or for the engines); misses: those served from below it.
    uint64_t hits(Level level) const { return hits_[static_cast<size_t>(level)]; }
    uint64_t misses(Level level) const { return misses_[static_cast<size_t>(level)]; }

  private:
    struct TypeWork {
        uint64_t macs = 0;
        uint64_t peak_q16 = 0;  ///< of all arrays
    };
    void count_hits(const StreamUse& use, bool mover);
    TypeWork& type_of(const execution::TaskInstance& task);
    TypeWork& type_named(const std::string& name, ElemType a, ElemType b);

    const proto::Platform& platform_;
    std::map<std::string, TypeWork> by_type_;
    TypeWork* of_operands_[elem_type_count][elem_type_count] = {};  ///< null: none came yet
    uint64_t bytes_[3][2] = {};
    uint64_t hits_[3] = {}, misses_[3] = {};
};

}  // namespace kpu::model
