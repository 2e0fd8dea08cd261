// Invariants of every program: random ones on devices of one and of four engines.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/diagnostics.hpp"
#include "execution/functional.hpp"
#include "isa/verify.hpp"
#include "tests/model/device_fixture.hpp"
#include "tests/model/random_program.hpp"
#include "traces/ledger.hpp"
#include "traces/power_trace.hpp"

namespace kpu::model {
namespace {

constexpr double tolerance = 1e-9;

void expect_close(double a, double b, const char* what) {
    EXPECT_LE(std::abs(a - b), tolerance * std::max(std::abs(a), std::abs(b))) << what;
}

/// Checks that energy by component, action, operation, time bin and row of ops.csv is the same total.
void expect_energy_closes(traces::EnergyLedger& ledger, const Outcome& r) {
    const traces::EnergyTotals& totals = ledger.totals();
    const double total = totals.total();
    double by_component = 0, by_action = totals.statics, by_op = totals.statics, by_bin = 0, by_row = 0;
    for (const double pj : totals.dynamic_by_component) by_component += pj;
    for (const double pj : totals.static_by_component) by_component += pj;
    for (const double pj : totals.by_action) by_action += pj;
    for (const double pj : totals.by_op) by_op += pj;
    for (size_t bin = 0; bin < ledger.bins().count(); ++bin) by_bin += ledger.bins().total(bin);
    for (const traces::OpRow& row : r.ops) by_row += row.energy_pj;
    expect_close(by_component, total, "components");
    expect_close(by_action, total, "actions");
    expect_close(by_op, total, "operations");
    expect_close(by_bin, total, "power bins");
    expect_close(by_row, total, "rows of ops.csv");
    expect_close(r.stats.real("energy.total_uj") * 1e6, total, "energy.total_uj");
}

/// Checks that what the statistics count is what the memory sockets of the units moved.
void expect_sockets_moved_all_bytes(const Device& device, const traces::StatSet& stats) {
    std::array<uint64_t, 3> read{}, written{};
    for (size_t u = 0; u < device.units().size(); ++u) {
        const Device::SocketBytes bytes = device.socket_bytes(static_cast<uint16_t>(u));
        for (size_t level = 0; level < read.size(); ++level) {
            read[level] += bytes.read[level];
            written[level] += bytes.written[level];
        }
    }
    static_assert(static_cast<int>(Level::ddr) == 0 && static_cast<int>(Level::l1) == 2);
    const char* names[] = {"dram", "l2", "l1"};
    for (size_t level = 0; level < read.size(); ++level) {
        EXPECT_EQ(read[level], stats.integer(std::string("bytes.") + names[level] + ".read"));
        EXPECT_EQ(written[level], stats.integer(std::string("bytes.") + names[level] + ".write"));
    }
}

/// Power by unit and by operation, in bins and in halves of them, sums to the statistics to the last digit; every
/// picojoule has a unit.
void expect_power_closes(const proto::Platform& platform, const BoundProgram& program, Device& device,
                         const Outcome& r) {
    traces::RunInfo info;
    info.core_hz = platforms::core_clock(platform).hz();
    info.end_ps = info.clock().edge(r.cycles);
    info.units = r.units;
    info.ops.resize(program.ops.size());
    info.prices = device.ledger().prices();
    const Picoseconds width = 2 * std::max<Picoseconds>(1, info.end_ps / 14);
    const traces::Events events(r.events);
    const traces::PowerTrace trace = power_trace(info, events, width, {true, true}),
                             half = power_trace(info, events, width / 2, {true, false});
    traces::Yoctojoules all = 0;
    for (size_t bin = 0; bin < trace.count; ++bin) {
        traces::Yoctojoules units = 0;
        for (size_t u = 0; u < trace.units.size(); ++u) {
            const auto second = 2 * bin + 1 < half.count ? half.units[u].of(2 * bin + 1) : 0;
            EXPECT_TRUE(half.units[u].of(2 * bin) + second == trace.units[u].of(bin)) << "unit " << u;
            units += trace.units[u].of(bin);
        }
        EXPECT_TRUE(units == trace.total(bin)) << "bin " << bin;
        EXPECT_TRUE(trace.units.back().of(bin) == 0) << "energy of no unit";
        all += trace.total(bin);
    }
    EXPECT_EQ(traces::uj_of(all), r.stats.real("energy.total_uj"));
    for (const auto& [name, column] : trace.by_op(info)) {
        for (size_t bin = 0; bin < trace.count; ++bin) all -= column.of(bin);
    }
    EXPECT_TRUE(all == 0) << "operations";
}

/// Measures a run in steps of `step` cycles, cut off after `limit`.
Outcome measure(const proto::Platform& platform, const BoundProgram& program, DeviceOptions options,
                values::MemoryImage* memory = nullptr, Cycles step = Device::no_limit,
                Cycles limit = Device::no_limit) {
    traces::EventLog log;
    options.sink = &log;
    Device device(platform, program, memory, options);
    Outcome r;
    do {
        const Cycles until = step == Device::no_limit ? limit : std::min(limit, device.now() + step);
        r.stop = device.run(until);
    } while (r.stop == RunStatus::paused && device.now() < limit);
    r.cycles = device.now();
    for (const Device::UnitState& unit : device.state().units)
        EXPECT_NE(unit.cause, traces::Cause::unattributed);
    device.finish(r.stats);
    if (r.stop == RunStatus::finished) expect_sockets_moved_all_bytes(device, r.stats);
    r.ops = device.op_rows();
    r.events = log.take_sorted().to_vector();
    r.units = device.units();
    for (size_t k = 0; k < r.hazards.size(); ++k)
        r.hazards[k] = device.hazards()->count(static_cast<execution::HazardKind>(k));
    expect_energy_closes(device.ledger(), r);
    expect_power_closes(platform, program, device, r);
    return r;
}

void expect_every_cycle_has_a_cause(const proto::Platform& platform, const Outcome& r) {
    for (const traces::UnitInfo& unit : r.units) EXPECT_EQ(cause_sum(r, unit.name), r.cycles) << unit.name;
    EXPECT_EQ(stat(r, "cycles.unattributed"), 0u);
    EXPECT_EQ(stat(r, "cycles.compute") + stat(r, "cycles.memory_stall") + stat(r, "cycles.other"), r.cycles);
    Cycles charged = 0;
    std::map<traces::Cause, Cycles> by_cause;
    for (const traces::OpRow& row : r.ops) {
        charged += row.charged_cycles;
        for (int c = 0; c < traces::unit_cause_count; ++c)
            by_cause[static_cast<traces::Cause>(c)] += row.causes[static_cast<size_t>(c)];
    }
    EXPECT_EQ(charged, r.cycles);
    EXPECT_EQ(recorded_causes_differ(r, platforms::core_clock(platform)), "");
    for (const auto& [cause, cycles] : by_cause) {
        Cycles units = 0;
        for (const traces::UnitInfo& unit : r.units) {
            if (unit.kind > UnitKind::sdma) continue;
            units += stat(r, "units." + unit.name + "." + std::string(traces::full_name_of(cause)));
        }
        EXPECT_EQ(cycles, units) << "unit cycles by operation, " << traces::full_name_of(cause);
    }
}

/// A task as the events tell it, with the bytes that it reads and writes.
struct Execution {
    uint32_t statement = 0;
    std::map<int, int64_t> loops;  ///< indexed by depth
    uint64_t begin = 0, end = 0;   ///< ps
    bool began = false;
    struct Bytes {
        Level level;
        uint16_t engine;
        uint64_t first, end;
    };
    std::vector<Bytes> reads, writes;
};

std::vector<Execution::Bytes> bytes_of(const BoundProgram& program, const std::vector<uint32_t>& regions,
                                       const LoopValues& loops) {
    std::vector<Execution::Bytes> bytes;
    for (const uint32_t index : regions) {
        const BoundRegion& region = program.regions[index];
        const auto first = static_cast<uint64_t>(region.address.eval(loops));
        bytes.push_back({region.level, region.engine, first, first + region.extent});
    }
    return bytes;
}

std::map<uint32_t, Execution> executions_of(const BoundProgram& program, const Outcome& r) {
    std::map<uint32_t, Execution> tasks;
    std::map<uint32_t, int64_t> innermost;
    for (const traces::Event& event : r.events) {
        Execution& task = tasks[event.task];
        if (event.kind == traces::EventKind::issue) {
            task.statement = event.op;
            innermost[event.task] = event.value;
        }
        if (event.kind == traces::EventKind::loop) task.loops[event.unit] = event.value;
        if (event.kind == traces::EventKind::begin) {
            task.began = true;
            task.begin = event.time_ps;
            task.end = ~uint64_t{0};
        }
        if (event.kind == traces::EventKind::end) task.end = event.time_ps;
    }
    tasks.erase(traces::no_task);
    for (auto& [serial, task] : tasks) {
        LoopValues loops;
        for (const auto& [depth, value] : task.loops) loops.push(value);
        if (program.statements[task.statement].parent >= 0) loops.push(innermost[serial]);
        const BoundTask& bound = program.tasks[program.statements[task.statement].index];
        task.reads = bytes_of(program, bound.inputs, loops);
        task.writes = bytes_of(program, bound.outputs, loops);
    }
    return tasks;
}

/// Pairs of tasks that overlapped in time on common bytes, found again from the events alone: where there are
/// any, races were reported. (Their number may differ: races are counted with the last writer and the readers
/// since, also of tasks that did not overlap in time.)
void expect_overlaps_reported(const BoundProgram& program, const Outcome& r) {
    const auto common = [](const std::vector<Execution::Bytes>& a, const std::vector<Execution::Bytes>& b) {
        for (const auto& x : a) {
            for (const auto& y : b) {
                if (x.level == y.level && x.engine == y.engine && x.first < y.end && y.first < x.end)
                    return true;
            }
        }
        return false;
    };
    const auto tasks = executions_of(program, r);
    uint64_t raw = 0, war = 0, waw = 0;
    for (const auto& [serial_a, a] : tasks) {
        for (const auto& [serial_b, b] : tasks) {
            const bool later =
                a.began && b.began && std::tie(b.begin, serial_b) > std::tie(a.begin, serial_a);
            if (!later || b.begin >= a.end) continue;
            raw += common(b.reads, a.writes);
            war += common(b.writes, a.reads);
            waw += common(b.writes, a.writes);
        }
    }
    uint64_t races = 0;
    for (const auto kind : {execution::HazardKind::raw, execution::HazardKind::war,
                            execution::HazardKind::waw, execution::HazardKind::stale})
        races += r.hazards[static_cast<size_t>(kind)];
    EXPECT_TRUE(raw + war + waw == 0 || races > 0) << "tasks in flight together met, and nothing was said";
}

/// Records of one instant in an order of their own: runs in steps hear of a memory's state at other times.
Outcome in_any_order(Outcome r) {
    std::sort(r.events.begin(), r.events.end(), [](const traces::Event& a, const traces::Event& b) {
        return a.time_ps != b.time_ps ? a.time_ps < b.time_ps : std::memcmp(&a, &b, sizeof a) < 0;
    });
    return r;
}

void expect_same(const Outcome& a, const Outcome& b, const char* what) {
    EXPECT_EQ(a.stop, b.stop) << what;
    EXPECT_EQ(stats_differ(a, b), "") << what;
    EXPECT_EQ(a.hazards, b.hazards) << what;
    ASSERT_EQ(a.events.size(), b.events.size()) << what;
    for (size_t i = 0; i < a.events.size(); ++i)
        ASSERT_EQ(std::memcmp(&a.events[i], &b.events[i], sizeof(traces::Event)), 0)
            << what << ", event " << i;
}

values::MemoryImage filled_image(const proto::Platform& platform, const BoundProgram& program,
                                 uint64_t seed) {
    std::vector<uint64_t> l1 = program.l1_bytes;
    l1.resize(platforms::engines_of(platform).size(), 0);
    values::MemoryImage image(program.ddr_bytes, program.l2_bytes, l1);
    std::mt19937_64 random(seed);
    for (const TensorSpec& input : program.inputs) {
        const BoundBuffer& buffer = program.buffers[input.buffer];
        std::vector<uint8_t> bytes(buffer.size);
        for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
        image.level(buffer.level, buffer.engine).write(buffer.base, bytes.data(), bytes.size());
    }
    return image;
}

bool same_bytes(const values::MemoryImage& a, const values::MemoryImage& b, const BoundProgram& program) {
    const auto same = [&](Level level, unsigned engine, uint64_t bytes) {
        return std::memcmp(a.level(level, engine).data(), b.level(level, engine).data(), bytes) == 0;
    };
    bool all = same(Level::ddr, 0, program.ddr_bytes) && same(Level::l2, 0, program.l2_bytes);
    for (size_t k = 0; k < program.l1_bytes.size(); ++k)
        all = all && same(Level::l1, static_cast<unsigned>(k), program.l1_bytes[k]);
    return all;
}

/// Two seeds in three change the device: dispatch, tokens, units, clock, array, ports.
std::vector<Change> random_changes(uint64_t seed) {
    std::vector<Change> changes;
    if (seed % 3 == 0) return changes;
    std::mt19937_64 random(seed);
    const auto maybe = [&](const char* path, std::vector<const char*> values) {
        if (random() % 3 == 0) changes.emplace_back(path, values[random() % values.size()]);
    };
    maybe("sequencer.dispatch_cycles", {"1", "3", "40"});
    maybe("sequencer.max_active_tokens", {"1", "3", "8"});
    maybe("clock.core_mhz", {"333", "1499.5"});
    maybe("engine.dma.channels", {"1", "3"});
    maybe("engine.dma.bytes_per_cycle", {"8", "128"});
    maybe("engine.dma.descriptor_cycles", {"1", "200"});
    maybe("engine.array.timing", {"compat"});
    maybe("engine.array.dataflow", {"ws", "is"});
    maybe("engine.vector.lanes", {"1", "256"});
    maybe("engine.l1.banks", {"1", "4"});
    maybe("ddr.fidelity", {"burst"});
    maybe("ddr.ranks", {"2"});
    maybe("ddr.controller.power_down_nck", {"20"});
    maybe("ddr.controller.self_refresh_nck", {"400"});
    maybe("ddr.controller.read_queue", {"2"});
    maybe("system_dma.channels", {"1", "2"});
    maybe("system_dma.max_outstanding_bursts", {"1", "4"});
    return changes;
}

/// Returns the program with a token written down that others imply: of a task, what one of its producers
/// waits for.
std::optional<BoundProgram> with_implied_token(const BoundProgram& program, uint64_t seed) {
    std::vector<std::pair<size_t, uint32_t>> choices;  // task, statement
    const auto parent = [&](uint32_t statement) { return program.statements[statement].parent; };
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const std::vector<uint32_t>& deps = program.tasks[program.statements[s].index].deps;
        for (const uint32_t dep : deps) {
            if (parent(dep) != parent(s)) continue;
            for (const uint32_t implied : program.tasks[program.statements[dep].index].deps) {
                const bool known = std::find(deps.begin(), deps.end(), implied) != deps.end();
                if (!known && parent(implied) == parent(s))
                    choices.emplace_back(program.statements[s].index, implied);
            }
        }
    }
    if (choices.empty()) return std::nullopt;
    BoundProgram more = program;
    const auto [task, implied] = choices[seed % choices.size()];
    more.tasks[task].deps.push_back(implied);
    return more;
}

/// Checks that a token which others imply changes neither the schedule nor any cause.
void expect_implied_token_changes_nothing(const proto::Platform& platform, const BoundProgram& program,
                                          uint64_t seed) {
    const std::optional<BoundProgram> more = with_implied_token(program, seed);
    if (!more) return;
    const auto states = [&](const BoundProgram& p) {
        Outcome r = in_any_order(measure(platform, p, {}));
        const auto other = [](const traces::Event& event) { return event.kind != traces::EventKind::cause; };
        r.events.erase(std::remove_if(r.events.begin(), r.events.end(), other), r.events.end());
        return r;
    };
    expect_same(states(*more), states(program), "a token that others imply");
}

/// Checks every property of one program; true when it ran to its end without a hazard.
bool check_program(const proto::Platform& platform, uint64_t seed, bool careless, bool all_opcodes) {
    const RandomProgram random(platform, seed, careless, all_opcodes);
    const auto module = std::make_shared<Module>(random.program().build());
    Diagnostics diagnostics;
    const std::optional<BoundProgram> bound = verify(module, platforms::limits_of(platform), {}, diagnostics);
    if (!bound) {
        ADD_FAILURE() << "the program is not legal: " << diagnostics.to_string();
        return false;
    }
    const BoundProgram& program = *bound;
    const auto backend = values::make_fast_backend();
    auto image = filled_image(platform, program, seed);
    DeviceOptions options;
    options.backend = backend.get();
    Outcome timed = measure(platform, program, options, &image);
    EXPECT_TRUE(timed.stop == RunStatus::finished || timed.stop == RunStatus::deadlock);
    expect_every_cycle_has_a_cause(platform, timed);
    expect_overlaps_reported(program, timed);

    // the other runs compute no values, so they cannot tell that a race changes nothing
    timed.stats.set("hazards.benign", uint64_t{0}, "count", "");
    expect_same(measure(platform, program, {}), timed, "timing without values");
    expect_implied_token_changes_nothing(platform, program, seed);
    const Outcome any_order = in_any_order(timed);
    expect_same(in_any_order(measure(platform, program, {}, nullptr, 1 + seed * 37 % 500)), any_order,
                "steps");
    const Cycles limit = timed.cycles * (seed % 7 + 1) / 9;
    const Outcome cut = measure(platform, program, {}, nullptr, Device::no_limit, limit);
    EXPECT_EQ(cut.cycles, limit);
    expect_every_cycle_has_a_cause(platform, cut);
    DeviceOptions oracle;
    oracle.oracle_stepper = true;
    expect_same(in_any_order(measure(platform, program, oracle)), any_order, "oracle stepper");
    DeviceOptions shuffled;
    shuffled.construction_seed = seed + 1;
    expect_same(measure(platform, program, shuffled), timed, "shuffled construction");

    const bool clean = timed.stop == RunStatus::finished && stat(timed, "hazards.count") == 0;
    EXPECT_TRUE(careless || stat(timed, "hazards.count") == 0);
    // a race that this run did not meet may go the other way in another order
    if (!clean || careless) return clean;
    auto functional = filled_image(platform, program, seed);
    execution::FunctionalOptions order;
    order.random_order = seed % 2 == 1;
    order.seed = seed;
    order.num_engines = static_cast<uint32_t>(platforms::engines_of(platform).size());
    execution::FunctionalDriver driver(program, functional, *backend, order);
    EXPECT_EQ(driver.run(), execution::RunStatus::finished);
    EXPECT_TRUE(same_bytes(image, functional, program)) << "values differ from the functional driver's";
    return true;
}

/// KPUSIM_RANDOM_PROGRAMS=N tries N programs a platform, KPUSIM_RANDOM_SEED=S begins with seed S.
uint64_t setting(const char* name, uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class RandomPrograms : public ::testing::TestWithParam<const char*> {};

// Causes, charges, events, energy, values: all close and agree on programs that nobody thought of.
TEST_P(RandomPrograms, EverythingAddsUpAndAgrees) {
    const uint64_t count = setting("KPUSIM_RANDOM_PROGRAMS", 25), first = setting("KPUSIM_RANDOM_SEED", 1);
    uint64_t clean = 0;
    for (uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " on " + GetParam());
        const bool failed_before = HasFailure();
        clean += check_program(platform_with(GetParam(), random_changes(seed)), seed, seed % 5 == 0,
                               seed % 2 == 0);
        if (HasFailure() && !failed_before) std::printf("seed %llu fails\n", (unsigned long long)seed);
    }
    EXPECT_GE(clean * 3, count);
}

// Programs in which the sequencer's next dispatch and a unit that becomes free fall on the same instant: the
// unit counts as free, whichever process the kernel runs first.
TEST(RandomProgramRegressions, FreedUnitsCountBeforeADispatchOfTheSameInstant) {
    check_program(platform_with("tile32"), 102, false, false);
    check_program(platform_with("npm_lite"), 521, false, false);
}

// Two tasks of an array, which overlap, end in one instant, and the one that started later was issued
// earlier: they are charged in the order in which they had the array.
TEST(RandomProgramRegressions, TasksThatEndTogetherAreChargedInOrderOfStart) {
    check_program(platform_with("tile32", random_changes(20413)), 20413, false, false);
}

INSTANTIATE_TEST_SUITE_P(Devices, RandomPrograms,
                         ::testing::Values("npm_lite", "tile32", "npm_pro", "swkpu-v1"));

}  // namespace
}  // namespace kpu::model
