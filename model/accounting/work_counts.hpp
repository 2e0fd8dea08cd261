#pragma once

#include <map>
#include <string>
#include <vector>

#include "isa/mac_share.hpp"
#include "model/task/task_observer.hpp"

namespace kpu::model {

/// MACs, bytes and accesses of completed tasks, of the device and of each operation.
class WorkCounts : public TaskObserver {
  public:
    explicit WorkCounts(const BoundProgram& program);
    void completed(const TaskCommand& command) override;

    struct OpWork {
        uint64_t macs = 0;       ///< that the graph asks for
        uint64_t done_macs = 0;  ///< MACs with those that overlapping tiles repeat
        MacShare share;
        double cycles_at_peak = 0;      ///< cycles of its MACs on the arrays that did them, fractions kept
        uint64_t bytes[3] = {0, 0, 0};  ///< read and written, by level
    };
    const OpWork& of_op(size_t op) const { return ops_[op]; }  ///< the background last

    uint64_t macs() const;
    /// Returns the sum over types of MACs / MACs per cycle of all arrays of the device.
    double cycles_at_peak() const;
    uint64_t bytes(Level level, bool read) const { return bytes_[static_cast<size_t>(level)][read ? 0 : 1]; }
    /// Scratchpads have no cache. Hits: accesses of what asks this level first that it served (of L1: operand
    /// reads of compute tasks; of L2: reads by or for the engines); misses: those served from below it.
    uint64_t hits(Level level) const { return hits_[static_cast<size_t>(level)]; }
    uint64_t misses(Level level) const { return misses_[static_cast<size_t>(level)]; }

  private:
    struct TypeWork {
        uint64_t macs = 0;
        uint64_t peak_q16 = 0;  ///< peak of all arrays
    };
    void count_hits(const StreamUse& use, bool mover);
    TypeWork& type_of(const MacWork& macs);

    std::vector<OpWork> ops_;
    std::map<std::string, TypeWork> by_type_;
    TypeWork* of_operands_[elem_type_count][elem_type_count] = {};  ///< null: none came yet
    uint64_t bytes_[3][2] = {};
    uint64_t hits_[3] = {}, misses_[3] = {};
};

}  // namespace kpu::model
