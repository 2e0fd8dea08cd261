#pragma once

#include <string>
#include <vector>

#include "explain/run_graph.hpp"

namespace kpu::explain {

/// Use of a cycle that is charged to an operation: the state of the unit that its task ran on, or nothing at
/// all.
struct Term {
    enum class Kind : uint8_t {
        compute,  ///< an array or vector unit computes: useful, fill_drain, padding, or starved by a limiter
        move,     ///< a DMA or a store moves data: useful at its port's rate, or held up by a limiter
        waiting   ///< a task waits, and nothing runs on the device
    };
    Kind kind = Kind::waiting;
    traces::Cause cause = traces::Cause::device_idle_other;
    Cycles cycles = 0;
};
/// Returns "ideal compute", "fill and drain", "DRAM bandwidth", ...
std::string text_of(Term::Kind kind, traces::Cause cause);

/// Tasks of an operation that do the same.
struct WorkTerm {
    uint32_t statement = 0;
    uint32_t work = 0;  ///< index into RunInfo::works
    uint64_t count = 0;
};

/// Cycles in which tasks of an operation were held up, by cause and unit, and who used the same resource.
struct Holdup {
    traces::Cause cause = traces::Cause::idle_no_work;
    uint16_t unit = traces::no_unit;
    Cycles cycles = 0;                      ///< unit-cycles
    uint32_t competitor = traces::no_task;  ///< statement that most often used the resource meanwhile
    uint16_t competitor_unit = traces::no_unit;
    Cycles competitor_cycles = 0;
};

/// Terms of the cycles that are charged to one operation.
struct OpTerms {
    uint32_t op = traces::background_op;
    uint64_t tasks = 0;
    Cycles charged = 0;       ///< sums to cycles.total over all operations, the background included
    Cycles span = 0;          ///< first issue to last end
    std::vector<Term> terms;  ///< sum to charged
    std::vector<WorkTerm> works;
    std::vector<Holdup> holdups;    ///< most cycles first
    uint64_t macs = 0;              ///< done by arrays
    uint64_t operations = 0;        ///< 2 per MAC, 1 per element of a vector unit
    uint64_t bytes[3] = {0, 0, 0};  ///< read and written, by Level
};

/// Returns one entry per operation, in the order of the program; the background last.
std::vector<OpTerms> op_terms(const RunGraph& graph);
/// Returns the same for the run as a whole: terms of all operations together.
std::vector<Term> sum_of(const std::vector<OpTerms>& ops);

}  // namespace kpu::explain
