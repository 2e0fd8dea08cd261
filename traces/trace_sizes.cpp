#include "traces/trace_sizes.hpp"

#include <array>

namespace kpu::traces {

namespace {

// bytes written for one record, means over the examples of the repository
constexpr uint64_t vcd_state = 31, vcd_counter = 8, stall_row = 47, memory_row = 56, perfetto_state = 18,
                   perfetto_task = 160, perfetto_counter = 16, perfetto_flow = 20, konata_task = 155,
                   konata_flow = 14;

}  // namespace

TraceSizes estimate_sizes(const RunInfo& info, const std::vector<Event>& events) {
    std::vector<bool> shown;
    for (const UnitInfo& unit : info.units) shown.push_back(info.view.shows(unit.name));
    std::array<uint64_t, event_kind_count> count{};
    for (const Event& event : events) {
        if (event.time_ps < info.from() || event.time_ps > info.to()) continue;
        const bool of_unit = event.kind == EventKind::cause || event.kind == EventKind::counter ||
                             event.kind == EventKind::begin || event.kind == EventKind::access;
        if (!of_unit || shown[event.unit]) ++count[static_cast<size_t>(event.kind)];
    }
    const auto of = [&count](EventKind kind) { return count[static_cast<size_t>(kind)]; };
    const uint64_t states = of(EventKind::cause), counters = of(EventKind::counter),
                   tasks = of(EventKind::begin), flows = of(EventKind::flow);
    TraceSizes sizes;
    sizes.vcd = states * vcd_state + counters * vcd_counter;
    sizes.stalls = states * stall_row;
    sizes.memory = of(EventKind::access) * memory_row;
    sizes.perfetto =
        states * perfetto_state + tasks * perfetto_task + counters * perfetto_counter + flows * perfetto_flow;
    sizes.konata = tasks * konata_task + flows * konata_flow;
    return sizes;
}

}  // namespace kpu::traces
