#include "runtime/schedule_engine/timing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "compiler/tile_schedule/lower.hpp"
#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"

namespace kpu::tile_schedule {
namespace {

constexpr size_t most_runs = 8;  ///< different schedules that are remembered

/// Times at which units began and ended tasks: they do it in order of time.
class TaskEdges final : public traces::EventSink {
  public:
    void record(const traces::Event& event) override {
        const bool begin = event.kind == traces::EventKind::begin;
        if (begin || event.kind == traces::EventKind::end)
            edges_.push_back({event.time_ps, event.unit, begin});
    }
    void pulse(uint16_t, traces::Cause, Picoseconds, Picoseconds) override {}

    /// Returns core cycles in which a unit that is `wanted` executes a task.
    uint64_t busy_cycles(const std::vector<traces::UnitInfo>& units, bool (*wanted)(const UnitKindRow&),
                         const Clock& clock) const {
        uint64_t cycles = 0;
        uint32_t active = 0;
        Cycles since = 0;
        for (const Edge& edge : edges_) {
            if (!wanted(row_of(units.at(edge.unit).kind))) continue;
            const Cycles now = clock.edges_before(edge.time);
            if (edge.begin && active++ == 0) since = now;
            if (!edge.begin && --active == 0) cycles += now - since;
        }
        return cycles;
    }

  private:
    struct Edge {
        Picoseconds time;
        uint16_t unit;
        bool begin;
    };
    std::vector<Edge> edges_;
};

/// Returns a platform. Shipped ones are read once: that takes as long as simulating a small schedule.
platforms::Platform load_platform(const std::string& name) {
    if (!platforms::is_shipped(name)) return platforms::load(name);
    static std::mutex mutex;
    static std::map<std::string, platforms::Platform> known;
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = known.find(name);
    return found != known.end() ? found->second : known.emplace(name, platforms::load(name)).first->second;
}

}  // namespace

ScheduleTiming time_schedule(const Schedule& schedule, const std::string& platform, uint64_t arena_bytes) {
    AnalysisOptions options;
    options.arena_bytes = arena_bytes;
    const Analysis analysis = analyse(schedule, options);
    platforms::Platform device = load_platform(platform);
    for (auto& engine : *device.mutable_engine()) {
        if (schedule.header.format.arena != Level::l1 || engine.l1().size_bytes() >= analysis.peak_bytes)
            continue;
        platforms::apply_override(device, "engine.l1.size_bytes", fmt::format("{}", arena_bytes));
        platforms::validate(device);
        break;
    }
    runtime::SimulationOptions simulation_options;
    simulation_options.mode = runtime::Mode::timing;
    simulation_options.hazards = false;
    TaskEdges edges;
    simulation_options.observer = &edges;
    runtime::Simulation simulation(std::make_shared<Module>(lower(schedule, analysis, "schedule")), &device,
                                   simulation_options);
    if (simulation.run() != runtime::RunStatus::finished)
        throw InternalError("a schedule did not end: " + simulation.deadlock_report());
    const auto units = simulation.units();
    const Clock clock = platforms::core_clock(device);
    const auto loads = [](const UnitKindRow& row) { return row.role == UnitRole::mover && !row.per_engine; };
    const auto multiplies = [](const UnitKindRow& row) { return row.macs; };
    return {simulation.now(), edges.busy_cycles(units, loads, clock),
            edges.busy_cycles(units, multiplies, clock)};
}

void TimedRuns::add(const std::vector<Op>& ops, const Header& header) {
    const auto same =
        std::find_if(runs_.rbegin(), runs_.rend(), [&](const Run& run) { return run.ops == ops; });
    if (same != runs_.rend()) {
        ++same->count;
        return;
    }
    if (runs_.size() == most_runs) {
        settle(runs_.front(), header);
        runs_.erase(runs_.begin());
    }
    Run run;
    run.ops = ops;
    run.count = 1;
    runs_.push_back(std::move(run));
}

void TimedRuns::settle(Run& run, const Header& header) {
    if (run.count == 0) return;
    if (!run.known) {
        Schedule schedule;
        schedule.origin = "schedule";
        schedule.has_header = true;
        schedule.header = header;
        schedule.ops = run.ops;
        run.timing = time_schedule(schedule, platform_, arena_bytes_);
        run.known = true;
    }
    total_.cycles += run.count * run.timing.cycles;
    total_.dma_busy += run.count * run.timing.dma_busy;
    total_.compute_busy += run.count * run.timing.compute_busy;
    run.count = 0;
}

ScheduleTiming TimedRuns::total(const Header& header) {
    for (Run& run : runs_) settle(run, header);
    return total_;
}

}  // namespace kpu::tile_schedule
