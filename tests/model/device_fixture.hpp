#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "execution/hazards.hpp"
#include "isa/bound_program.hpp"
#include "isa/builder.hpp"
#include "model/device/device.hpp"
#include "platforms/platform.hpp"
#include "traces/event_log.hpp"
#include "values/compute.hpp"

namespace kpu::model {

using Change = std::pair<std::string, std::string>;

inline proto::Platform platform_with(const std::string& name, const std::vector<Change>& changes = {}) {
    return platforms::load(name, changes);
}

inline BoundProgram bound(const builder::Program& program, const proto::Platform& platform) {
    return bind(std::make_shared<Module>(program.build()), {}, platforms::limits_of(platform));
}

/// Results of a run, for comparing.
struct Outcome {
    RunStatus stop = RunStatus::deadlock;
    Cycles cycles = 0;
    traces::StatSet stats;
    std::vector<traces::OpRow> ops;
    std::vector<traces::Event> events;
    std::vector<traces::UnitInfo> units;
    std::vector<Device::Completed> tasks;                          ///< when stepped by task
    std::array<uint64_t, execution::hazard_kind_count> hazards{};  ///< indexed by kind
};

inline Outcome run(const proto::Platform& platform, const BoundProgram& program, DeviceOptions options = {},
                   values::MemoryImage* memory = nullptr) {
    traces::EventLog log;
    options.sink = &log;
    Device device(platform, program, memory, options);
    Outcome result;
    result.stop = device.run();
    result.cycles = device.now();
    device.finish(result.stats);
    result.ops = device.op_rows();
    result.events = log.take_sorted().to_vector();
    result.units = device.units();
    return result;
}

/// Returns every completion, by stepping from task to task.
inline Outcome run_by_task(const proto::Platform& platform, const BoundProgram& program) {
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, program, nullptr, options);
    Outcome result;
    for (;;) {
        const uint32_t before = device.last_completed().serial;
        result.stop = device.run(Device::no_limit, true);
        if (device.last_completed().serial != before) result.tasks.push_back(device.last_completed());
        if (result.stop != RunStatus::paused) break;
    }
    result.cycles = device.now();
    result.units = device.units();
    device.finish(result.stats);
    return result;
}

inline uint64_t stat(const Outcome& run, const std::string& key) { return run.stats.integer(key); }

/// Adds a gemm of one tile whose operands are already in L1.
inline void l1_gemm(builder::Program& p, int64_t m, int64_t n, int64_t k, ElemType type = ElemType::i8) {
    using builder::tensor;
    const int64_t width = bit_width(type) / 8;
    const auto buffer = p.l1_buffer("all", 0, (m * k + k * n + m * n) * width);
    const auto a = p.region("a", buffer, 0, tensor(type, {m, k}));
    const auto b = p.region("b", buffer, m * k * width, tensor(type, {k, n}));
    const auto y = p.region("y", buffer, (m * k + k * n) * width, tensor(type, {m, n}));
    p.compute("gemm", {a, b}, {y}, "g").attr("accum_type", is_float(type) ? ElemType::f32 : ElemType::i32);
}

/// `tiles` rows of X (tiles x 64 x 64, i8) times W, relu, back to Y; double buffered slots in L2 and L1.
inline void tiled_pipeline(builder::Program& p, int64_t tiles, int64_t window) {
    using builder::Expr;
    using builder::tensor;
    constexpr int64_t tile = 64 * 64;
    const auto x = p.buffer("X", Level::ddr, tiles * tile), w = p.buffer("W", Level::ddr, tile);
    const auto y = p.buffer("Y", Level::ddr, tiles * tile);
    const auto l2 = p.buffer("L2buf", Level::l2, (2 * window + 1) * tile);
    const auto l1 = p.l1_buffer("L1buf", 0, (2 * window + 1) * tile);
    const auto type = tensor(ElemType::i8, {64, 64});
    const auto at = [&](const char* name, builder::Buffer buffer, const Expr& offset) {
        return p.region(name, buffer, offset, type);
    };
    const auto w2 = at("w2", l2, 2 * window * tile), w1 = at("w1", l1, 2 * window * tile);
    const auto load_w2 = p.transfer("load_w2", w2, at("w", w, 0));
    const auto load_w1 = p.transfer("load_w1", w1, w2).after({load_w2});
    p.loop("i", 0, tiles - 1, window, [&](Expr i) {
        const Expr slot = i % window * tile;
        const auto x2 = at("x2", l2, slot), x1 = at("x1", l1, slot);
        const auto y1 = at("y1", l1, slot + window * tile), y2 = at("y2", l2, slot + window * tile);
        const auto load2 = p.transfer("load2", x2, at("x", x, i * tile));
        const auto load1 = p.transfer("load1", x1, x2).after({load2});
        const auto work = p.compute("gemm", {x1, w1}, {y1}, "work")
                              .attr("accum_type", ElemType::i32)
                              .after({load1, load_w1});
        const auto act = p.compute("relu", {y1}, {y1}, "act").after({work});
        const auto save = p.store("save", y2, y1).after({act});
        p.transfer("out", at("y", y, i * tile), y2).after({save});
    });
}

/// Returns the sum of every cause of a unit.
inline uint64_t cause_sum(const Outcome& run, const std::string& unit) {
    uint64_t sum = 0;
    const std::string prefix = "units." + unit + ".";
    for (const auto& [key, stat] : run.stats.all()) {
        if (key.compare(0, prefix.size(), prefix) == 0) sum += std::get<uint64_t>(stat.value);
    }
    return sum;
}

/// Returns "" when two runs have the same statistics; else those that differ.
inline std::string stats_differ(const Outcome& a, const Outcome& b) {
    std::string text;
    int shown = 0;
    for (const auto& [key, stat] : a.stats.all()) {
        if (shown == 6) return text + "...\n";
        const bool both = b.stats.contains(key);
        if (both && stat.value == b.stats.all().find(key)->second.value) continue;
        ++shown;
        text += key + ": " + std::to_string(a.stats.real(key)) + " and " +
                (both ? std::to_string(b.stats.real(key)) : "nothing") + "\n";
    }
    if (a.stats.all().size() != b.stats.all().size()) text += "other keys\n";
    return text;
}

/// "" when the recorded causes of every unit, summed by cause, are its statistics; else the first that
/// differs.
inline std::string recorded_causes_differ(const Outcome& run, const Clock& core) {
    struct State {
        Cycles at = 0;
        traces::Cause cause = traces::Cause::idle_no_work;
    };
    std::map<uint16_t, State> states;
    std::map<std::pair<uint16_t, traces::Cause>, Cycles> sums;
    for (const traces::Event& event : run.events) {
        if (event.kind != traces::EventKind::cause) continue;
        State& state = states[event.unit];
        const Cycles at = std::min(core.edges_before(event.time_ps), run.cycles);
        sums[{event.unit, state.cause}] += at - state.at;
        state = {at, static_cast<traces::Cause>(event.cause)};
    }
    for (size_t u = 0; u < run.units.size(); ++u) {
        const auto unit = static_cast<uint16_t>(u);
        const State& state = states[unit];
        sums[{unit, state.cause}] += run.cycles - state.at;
        for (int c = 0; c < traces::cause_count; ++c) {
            const auto cause = static_cast<traces::Cause>(c);
            const std::string key =
                "units." + run.units[u].name + "." + std::string(traces::full_name_of(cause));
            const Cycles sum = sums[{unit, cause}];
            const Cycles counted = run.stats.contains(key) ? stat(run, key) : 0;
            if (counted != sum)
                return key + ": counted " + std::to_string(counted) + ", recorded " + std::to_string(sum);
        }
    }
    return {};
}

}  // namespace kpu::model
