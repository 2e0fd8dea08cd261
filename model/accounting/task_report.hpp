#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/stream/stream.hpp"
#include "traces/event.hpp"

namespace kpu::model {

/// A stream of a task: what was asked, and what is known of it.
struct StreamUse {
    const StreamRequest* request = nullptr;
    const StreamResult* result = nullptr;
    bool is_result = false;
    Cycles due = 0;  ///< operand: from the begin, when its last byte is late
};

/// How a unit spent the time of one task, in core cycles. The formula's terms are filled in at the start, the
/// rest at completion: end - start = operand_wait + fill + steady + operand_stall + drain + result_stall for
/// compute tasks. Where tasks overlap in a unit, the earlier one's work hides the later one's wait and fill.
struct TaskReport {
    bool mover = false;  ///< transfer or store: time is bytes and limiters of its one stream
    Cycles start = 0, end = 0;
    Cycles operand_wait = 0;  ///< before the first operand enters
    Cycles fill = 0, steady = 0, drain = 0;
    Cycles own_cycles = 0;  ///< of fill, steady and drain, what no other task of the unit shares
    Cycles lead = 0, occupancy = 0, first_result = 0, uneven = 0;  ///< as in Job (worker.hpp)
    bool overlap = false;                                          ///< the next task may enter meanwhile
    uint64_t work = 0;                 ///< done in the steady state: MACs, elements; bytes of a mover
    uint64_t peak_q16 = 1;             ///< of that, per cycle, in 1/65536
    uint64_t unit_cycles_q16 = 65536;  ///< cycles of the unit's own clock in a core cycle, in 1/65536
    uint32_t passes = 1;               ///< of a vector unit over its operands
    uint64_t processing_elements = 0;  ///< of an array
    Cycles operand_stall = 0, result_stall = 0;
    traces::Cause operand_cause = traces::Cause::stalled_operand_interconnect;
    traces::Cause result_cause = traces::Cause::stalled_backpressure;
    std::vector<StreamUse> streams;

    /// As new, but keeps the list's memory.
    void clear() {
        std::vector<StreamUse> list = std::move(streams);
        list.clear();
        *this = {};
        streams = std::move(list);
    }
};

}  // namespace kpu::model
