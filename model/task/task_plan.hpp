#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/stream/stream.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

/// An operand of a task, whose address of this iteration a planned stream begins at.
struct OperandRef {
    enum class List : uint8_t { none, inputs, outputs };
    List list = List::none;
    uint16_t index = 0;
};

/// A stream as every execution of a task posts it; task and addresses are filled in then.
struct PlannedStream {
    StreamRequest request;           ///< addresses from the begin of the operands
    OperandRef source, destination;  ///< none: that end is the unit
    Cycles due = 0;                  ///< operand: from the begin, its last byte is late after it
    Cycles earliest =
        0;  ///< operand: from the start, its last byte cannot have passed the unit's port before
};

/// Energy of a task beside that of its streams.
struct EnergyAction {
    enum class Basis : uint8_t {
        task,    ///< `count` of them
        active,  ///< `count`, at most one in each of the unit's own cycles and elements
        idle     ///< the rest of its own cycles and elements
    };
    traces::Component component;
    std::string name;
    uint64_t count = 0;
    Basis basis = Basis::task;
    /// Index in the table of prices, found when it is booked first: a table need not price what never
    /// happens.
    mutable std::optional<traces::ActionId> id{};
};

/// Multiply-accumulates, for utilization by type.
struct MacWork {
    ElemType a = ElemType::none, b = ElemType::none;
    std::string type;              ///< name of the array's rate
    uint64_t device_peak_q16 = 1;  ///< peak of all arrays of the device, per core cycle, in 1/65536
};

/// Plan of a unit for a task: the terms of its formula, its streams, its work, its energy. Nothing here
/// depends on the iteration, so a unit plans a statement once. unit.md has the meaning of the terms; times
/// are core cycles.
struct TaskPlan {
    /// Way in which the time of an execution is known.
    enum class Course : uint8_t {
        formula,  ///< fill, steady state and drain, and what streams were late
        stream,   ///< a mover: the limiters of its one stream
        steps     ///< the unit says (TaskReport::steps)
    };
    Course course = Course::formula;
    bool overlap = false;                ///< the next task may enter before this one completes
    bool prefetch = false;               ///< ... and while the last operands of this one are on their way
    bool result_after_operands = false;  ///< no result leaves before the last operand is in
    Cycles lead = 0;                     ///< from the start until the first operand can be there
    Cycles entry_gap = 0;                ///< after another task's operands, before the first of this one
    Cycles fill = 0, steady = 0, drain = 0;
    Cycles occupancy = 0;              ///< from the begin: operands of no other task enter
    Cycles first_result = 0;           ///< from the begin, without stalls
    Cycles uneven = 0;                 ///< operands that the unit does not ask for evenly are so much later
    uint64_t work = 0;                 ///< done in the steady state: MACs, elements; bytes of a mover
    uint64_t repeated = 0;             ///< MACs beside `work` that other tasks do too, of overlapping tiles
    uint64_t peak_q16 = 1;             ///< its peak per cycle, in 1/65536
    uint64_t unit_cycles_q16 = 65536;  ///< cycles of the unit's own clock in a core cycle, in 1/65536
    uint64_t processing_elements = 0;  ///< processing elements of an array
    std::optional<MacWork> macs;       ///< `work` is multiply-accumulates
    std::vector<PlannedStream> operands, results;
    std::vector<EnergyAction> energy;

    bool moves() const { return course == Course::stream; }
};

}  // namespace kpu::model
