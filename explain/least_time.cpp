#include "explain/least_time.hpp"

#include <algorithm>

namespace kpu::explain {

using traces::no_unit;
using traces::StreamWork;
using traces::TaskWork;

namespace {

/// Buffers of a unit hold blocks of so many cycles (model/unit/unit.md).
constexpr double block_cycles = 16;

uint64_t channels_of(const RunGraph& graph) {
    const auto& units = graph.info().units;
    return static_cast<uint64_t>(std::count_if(
        units.begin(), units.end(), [](const traces::UnitInfo& unit) { return unit.kind == UnitKind::ddr; }));
}

}  // namespace

double peak_of(const RunGraph& graph, uint16_t unit) {
    const traces::UnitInfo& info = graph.info().units[unit];
    const double peak = info.peak_per_cycle;
    return info.kind == UnitKind::ddr ? peak * static_cast<double>(channels_of(graph)) : peak;
}

Cycles whole(double cycles) {
    constexpr double rounding = 1e-6;
    return cycles <= rounding ? 0 : static_cast<Cycles>(cycles - rounding);
}

bool LeastTime::floats(const TaskRun& task) const {
    if (task.unit == no_unit) return false;
    return graph_.info().units[task.unit].engine >= 0 && graph_.info().statements[task.statement].engine < 0;
}

double LeastTime::moving(uint16_t unit, double bytes) const {
    const double peak = peak_of(graph_, unit);
    return bytes <= 0 || peak <= 0 || is_free(unit) ? 0 : bytes / peak;
}

/// A transfer passes the port of its unit, and that of its partner.
double LeastTime::port_cycles(const TaskRun& task, const StreamWork& stream, double bytes) const {
    if (stream.role != StreamWork::Role::move || task.partner == no_unit)
        return is_free(task.unit) ? 0 : bytes / stream.port_bytes_per_cycle;
    return std::max(moving(task.unit, bytes), moving(task.partner, bytes));
}

/// Returns the time from the post of the descriptor to the delivery of its last byte:
/// model/memory/memory_system.md without waits.
Cycles LeastTime::of_stream(const TaskRun& task, const StreamWork& stream) const {
    if (stream.bytes == 0) return 1;
    const bool of_unit = stream.role != StreamWork::Role::move;
    double burst = stream.burst_bytes;
    bool window = true;
    Cycles transit = 0;
    const bool elsewhere = floats(task);
    for (const traces::StreamHop& hop : stream.hops) {
        if (elsewhere && graph_.info().units[hop.unit].kind == UnitKind::link) continue;
        const bool l1 = graph_.info().units[hop.unit].kind == UnitKind::l1;
        // blocks of operands and results are cut to the narrower of unit and L1: faster ones, other blocks
        if (of_unit && ((l1 && is_free(hop.unit)) || is_free(task.unit))) {
            window = false;
            burst = std::max({burst, block_cycles * stream.port_bytes_per_cycle,
                              block_cycles * graph_.info().units[hop.unit].peak_per_cycle});
        }
        transit += hop.latency + (is_free(hop.unit) ? 0 : 1);
    }
    const double before_last = std::max(0.0, static_cast<double>(stream.bytes) - burst);
    double longest = port_cycles(task, stream, before_last) +
                     static_cast<double>(std::max<uint64_t>(stream.runs, 1) - 1) * stream.row_cycles;
    for (const traces::StreamHop& hop : stream.hops) {
        const bool dram = graph_.info().units[hop.unit].kind == UnitKind::ddr;
        // a burst of every channel may come at once, and what controllers hold be written later
        const double at_once =
            dram ? static_cast<double>(channels_of(graph_) * graph_.info().dram_burst_bytes +
                                       graph_.info().dram_posted_bytes)
                 : 0;
        longest = std::max(longest, moving(hop.unit, std::max(0.0, before_last - at_once)));
    }
    if (window) {
        const uint64_t bursts =
            std::max<uint64_t>(stream.runs, (stream.bytes + stream.burst_bytes - 1) / stream.burst_bytes);
        const uint64_t windows = (std::max<uint64_t>(bursts, 1) - 1) / stream.max_outstanding;
        longest = std::max(longest, static_cast<double>(windows) * static_cast<double>(transit));
    }
    const Cycles first = stream.descriptor_cycles + (stream.runs > 0 ? stream.row_cycles : 0);
    return std::max<Cycles>(1, first + whole(longest) + transit);
}

Cycles LeastTime::of(const TaskRun& task) const {
    const TaskWork* work = graph_.work_of(task);
    if (work == nullptr || task.unit == no_unit) return 0;
    if (work->mover) return of_stream(task, work->streams.front());
    const bool free = is_free(task.unit);
    const Cycles after_fill = (free ? 0 : work->steady + work->uneven) + work->drain;
    const Cycles formula = work->fill + after_fill;
    Cycles least = work->lead + formula;
    for (const StreamWork& stream : work->streams) {
        const Cycles moved = of_stream(task, stream);
        if (stream.role == StreamWork::Role::result) {
            least = std::max(least, (free ? work->lead : work->lead + stream.due) + moved);
        } else if (stream.role == StreamWork::Role::operand) {
            const Cycles rest = free ? work->drain : formula - std::min(formula, stream.due + work->uneven);
            least = std::max(least, moved + rest);
        }
    }
    return least;
}

Cycles LeastTime::occupancy(const TaskRun& task) const {
    const TaskWork* work = graph_.work_of(task);
    if (work == nullptr) return 0;
    if (work->mover || !work->overlaps) return of(task);
    return is_free(task.unit) ? 0 : work->occupancy;
}

Cycles LeastTime::after_occupancy(const TaskRun& task) const {
    const TaskWork* work = graph_.work_of(task);
    if (work == nullptr || work->mover || !work->overlaps) return 0;
    const bool free = is_free(task.unit);
    const Cycles formula = work->fill + (free ? 0 : work->steady + work->uneven) + work->drain;
    return formula - std::min(formula, free ? 0 : work->occupancy);
}

}  // namespace kpu::explain
