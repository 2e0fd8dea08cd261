// Every platform parameter changes some result the right way: none is read and forgotten.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "compiler/front_ends.hpp"
#include "platforms/parameters.hpp"
#include "runtime/simulation.hpp"
#include "tests/bench/gemm_program.hpp"

namespace kpu {
namespace {

enum class Change { up, down, differs };

struct Turned {
    const char* parameter;
    const char* from;
    const char* to;
    Change change;  ///< change of the statistic, from -> to
    const char* program = "gemm_relu";
    const char* platform = "npm_lite";
    const char* stat = "cycles.total";
    platforms::Overrides also = {};
};

/// Independent tasks on one kind of unit: what a second one is for.
Module parallel_program(const std::string& opcode) {
    using namespace builder;
    Program p(opcode);
    const Buffer x = p.buffer("x", Level::ddr, 8192, 64), mid = p.buffer("mid", Level::l2, 8192, 64);
    const Buffer in = p.buffer("in", Level::l1, 8192, 64), out = p.buffer("out", Level::l1, 8 * 8192, 64);
    const auto halves = tensor(ElemType::f16, {4096});
    Task load = p.transfer("load", p.region("m", mid, 0, halves), p.region("d", x, 0, halves));
    Task feed =
        p.transfer("feed", p.region("s", in, 0, halves), p.region("m2", mid, 0, halves)).after({load});
    for (int i = 0; i < 8; ++i) {
        if (opcode == "transfer") {  // short: issue and latency count, not bandwidth
            p.transfer("", p.bytes("", out, i * 8192, 256), p.bytes("", mid, i * 256, 256)).after({load});
            continue;
        }
        const Region source = p.region("", in, 0, halves);
        const Region target =
            opcode == "quantize"
                ? p.region("", out, i * 8192, tensor(ElemType::i8, {4096}).quant(per_tensor(0.01)))
                : p.region("", out, i * 8192, halves);
        p.compute(opcode, {source}, {target}).after({feed});
    }
    return p.build();
}

/// Transfers DDR -> L1 and L2 -> L1 at once, so that DMAs of both kinds want the link of the engine.
Module shared_link_program(int64_t engine) {
    using namespace builder;
    Program p("shared_link");
    constexpr int64_t bytes = 16384, count = 4;
    const Buffer x = p.buffer("x", Level::ddr, count * bytes, 64);
    const Buffer mid = p.buffer("mid", Level::l2, count * bytes, 64);
    const Buffer in = p.l1_buffer("in", engine, 2 * count * bytes, 64);
    for (int64_t i = 0; i < count; ++i) {
        p.transfer("", p.bytes("", in, i * bytes, bytes), p.bytes("", x, i * bytes, bytes));
        p.transfer("", p.bytes("", in, (count + i) * bytes, bytes), p.bytes("", mid, i * bytes, bytes));
    }
    return p.build();
}

/// Reads and writes of DDR at once.
Module copies_program() {
    using namespace builder;
    Program p("copies");
    constexpr int64_t bytes = 16384, count = 4;
    const Buffer x = p.buffer("x", Level::ddr, count * bytes, 64);
    const Buffer y = p.buffer("y", Level::ddr, count * bytes, 64);
    const Buffer in = p.buffer("in", Level::l2, count * bytes, 64);
    const Buffer out = p.buffer("out", Level::l2, count * bytes, 64);
    for (int64_t i = 0; i < count; ++i) {
        p.transfer("", p.bytes("", in, i * bytes, bytes), p.bytes("", x, i * bytes, bytes));
        p.transfer("", p.bytes("", y, i * bytes, bytes), p.bytes("", out, i * bytes, bytes));
    }
    return p.build();
}

std::shared_ptr<const Module> program(const std::string& name) {
    static std::map<std::string, std::shared_ptr<const Module>> loaded;
    auto& module = loaded[name];
    if (module) return module;
    if (name == "tiled_gemm") {
        module = std::make_shared<const Module>(bench::tiled_gemm_reloading(512, 128));
    } else if (name == "copies") {
        module = std::make_shared<const Module>(copies_program());
    } else if (name == "shared_link" || name == "far_engine") {
        module = std::make_shared<const Module>(shared_link_program(name == "far_engine" ? 4 : 0));
    } else if (name == "quantize" || name == "relu" || name == "transfer") {
        module = std::make_shared<const Module>(parallel_program(name));
    } else {
        Diagnostics diagnostics;
        module = compiler::load_program(
            std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem", {}, diagnostics);
    }
    return module;
}

double measure(const Turned& c, const char* value) {
    platforms::Overrides overrides = c.also;
    overrides.emplace_back(c.parameter, value);
    const auto platform = platforms::load(c.platform, overrides);
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation simulation(program(c.program), &platform, options);
    simulation.run();
    const auto& stat = simulation.stats().all().find(c.stat)->second.value;
    return std::visit([](auto number) { return static_cast<double>(number); }, stat);
}

constexpr const char* energy = "energy.total_uj";
constexpr const char* static_energy = "energy.static_uj";
constexpr const char* cycles = "cycles.total";
const platforms::Overrides burst = {{"ddr.fidelity", "burst"}};
/// Writes as soon as one waits.
const platforms::Overrides eager = {
    {"ddr.fidelity", "burst"}, {"ddr.controller.write_high", "1"}, {"ddr.controller.write_low", "0"}};
const platforms::Overrides by_priority = {{"interconnect.arbitration", "priority"},
                                          {"interconnect.link_bytes_per_cycle", "8"}};
const platforms::Overrides first_come = {{"engine.dma.priority", "9"},
                                         {"interconnect.link_bytes_per_cycle", "8"}};
const platforms::Overrides two_movers = {{"ddr.fidelity", "burst"}, {"system_dma.channels", "2"}};
const platforms::Overrides weights_stay = {{"engine.array.dataflow", "ws"}};
const platforms::Overrides short_commands = {{"engine.array.dataflow", "ws"},
                                             {"engine.array.command_rows", "16"}};
const platforms::Overrides five_engines = {{"engine.count", "5"}};
constexpr const char* engine_dma_waits = "units.e0_dma0.stalled.operand_interconnect";
constexpr const char* gemm = "tiled_gemm";
constexpr const char* tile32 = "tile32";

const std::vector<Turned>& cases() {
    static const std::vector<Turned> table = {
        {"clock.core_mhz", "1000", "500", Change::up, "gemm_relu", "npm_lite", "time.total_us"},
        {"sequencer.max_active_tokens", "64", "2", Change::up, "conv_pool"},
        {"sequencer.dispatch_cycles", "2", "400", Change::up, "digits"},
        {"sequencer.launch_cycles", "0", "700", Change::up, "digits"},
        {"engine.count", "1", "2", Change::up, "digits", "tile32", static_energy},
        {"engine.array.count", "1", "2", Change::down, gemm, tile32},
        {"engine.array.rows", "32", "16", Change::up, gemm, tile32},
        {"engine.array.cols", "32", "16", Change::up, gemm, tile32},
        {"engine.array.dataflow", "os", "ws", Change::differs, gemm, tile32},
        {"engine.array.timing", "physical", "compat", Change::up, gemm, tile32},
        {"engine.array.rate.relative", "1", "0.5", Change::up, gemm, tile32},
        {"engine.array.operand_bytes_per_cycle", "64", "4", Change::up, gemm, tile32},
        {"engine.array.result_bytes_per_cycle", "128", "4", Change::up, gemm, tile32},
        {"engine.vector.cstl_count", "2", "1", Change::up, "relu"},
        {"engine.vector.vpu_count", "1", "2", Change::down, "quantize"},
        {"engine.vector.lanes", "64", "8", Change::up, "digits"},
        {"engine.vector.pipeline_latency_cycles", "8", "800", Change::up, "digits"},
        {"engine.array.command_rows", "0", "16", Change::up, gemm, tile32, cycles, weights_stay},
        {"engine.array.command_cycles", "0", "40", Change::up, gemm, tile32, cycles, short_commands},
        {"engine.vector.operand_bytes_per_cycle", "256", "4", Change::up, "digits"},
        {"engine.vector.result_bytes_per_cycle", "256", "4", Change::up, "digits"},
        {"engine.vector.cost.cycles_per_element", "1", "16", Change::up, "gemm_rmsnorm", tile32},
        {"engine.vector.cost.passes", "2", "8", Change::up, "gemm_rmsnorm", tile32},
        {"engine.l1.size_bytes", "524288", "2097152", Change::up, "digits", "npm_lite", energy},
        {"engine.l1.banks", "16", "1", Change::up, gemm, tile32},
        {"engine.l1.bank_width_bytes", "64", "4", Change::up, gemm, tile32},
        {"engine.l1.interleave_bytes", "64", "65536", Change::up, gemm, tile32},
        {"engine.l1.ports", "4", "1", Change::up, gemm, tile32},
        {"engine.l1.bytes_per_cycle", "128", "8", Change::up, gemm, tile32},
        {"engine.l1.read_latency_cycles", "4", "400", Change::up},
        {"engine.l1.write_latency_cycles", "2", "400", Change::up},
        {"engine.l1.access_width_bytes", "64", "256", Change::up, "digits", "npm_lite", energy},
        {"engine.dma.channels", "2", "1", Change::up, "transfer"},
        {"engine.dma.bytes_per_cycle", "64", "8", Change::up},
        {"engine.dma.descriptor_cycles", "16", "500", Change::up},
        {"engine.dma.row_cycles", "1", "800", Change::up},
        {"engine.dma.burst_bytes", "64", "16", Change::up, "gemm_relu", "npm_lite", energy},
        {"engine.dma.max_outstanding_bursts", "32", "1", Change::up},
        {"l2.size_bytes", "1048576", "4194304", Change::up, "digits", "npm_lite", energy},
        {"l2.banks", "16", "1", Change::up},
        {"l2.bank_width_bytes", "64", "4", Change::up},
        {"l2.interleave_bytes", "64", "262144", Change::up},
        {"l2.ports", "4", "1", Change::up},
        {"l2.bytes_per_cycle", "128", "8", Change::up},
        {"l2.read_latency_cycles", "6", "400", Change::up},
        {"l2.write_latency_cycles", "3", "400", Change::up},
        {"l2.access_width_bytes", "64", "256", Change::up, "gemm_relu", "npm_lite", energy},
        {"system_dma.channels", "1", "2", Change::down},
        {"system_dma.bytes_per_cycle", "64", "4", Change::up},
        {"system_dma.descriptor_cycles", "16", "500", Change::up},
        {"system_dma.row_cycles", "1", "50", Change::up},
        {"system_dma.burst_bytes", "64", "16", Change::up, "gemm_relu", "npm_lite", energy},
        {"system_dma.max_outstanding_bursts", "32", "1", Change::up},
        {"clock.array_mhz", "1000", "500", Change::up, gemm, tile32},
        {"clock.sram_mhz", "1000", "100", Change::up},
        {"clock.interconnect_mhz", "1000", "100", Change::up},
        {"engine.l1.turnaround_cycles", "0", "50", Change::up},
        {"l2.turnaround_cycles", "0", "200", Change::up, gemm, tile32},
        {"engine.dma.priority", "0", "9", Change::differs, "shared_link", tile32, engine_dma_waits,
         by_priority},
        {"system_dma.priority", "0", "9", Change::down, "shared_link", tile32, engine_dma_waits, by_priority},
        {"interconnect.topology", "crossbar", "mesh", Change::up, "far_engine", tile32, cycles, five_engines},
        {"interconnect.arbitration", "age", "priority", Change::differs, "shared_link", tile32,
         engine_dma_waits, first_come},
        {"interconnect.queue_bursts", "0", "1", Change::up},
        {"interconnect.link_bytes_per_cycle", "64", "4", Change::up},
        {"interconnect.system_link_bytes_per_cycle", "64", "4", Change::up},
        {"interconnect.hop_latency_cycles", "2", "300", Change::up},
        {"ddr.device", "LPDDR4-3200", "LPDDR5-6400", Change::down},
        {"ddr.channels", "2", "1", Change::up},
        {"ddr.mapping", "bank_group_interleaved", "row_bank_column", Change::differs, gemm, tile32},
        {"ddr.data_rate_mtps", "3200", "800", Change::up},
        {"ddr.controller_latency_ns", "20", "2000", Change::up},
        {"ddr.channel_interleave_bytes", "256", "1048576", Change::up},
        {"ddr.fidelity", "simple", "burst", Change::differs},
        {"ddr.ranks", "1", "2", Change::up, "digits", "npm_lite", static_energy},
        {"ddr.controller.read_queue", "32", "1", Change::up, gemm, tile32, cycles, burst},
        {"ddr.controller.write_queue", "1", "64", Change::down, gemm, tile32, cycles, eager},
        {"ddr.controller.write_high", "26", "7", Change::differs, "copies", tile32, cycles, two_movers},
        {"ddr.controller.write_low", "6", "25", Change::differs, "copies", tile32, cycles, two_movers},
        {"ddr.controller.row_hit_cap", "16", "1", Change::differs, gemm, tile32, cycles, burst},
        {"ddr.controller.request_nck", "1", "200", Change::up, gemm, tile32, cycles, burst},
        {"ddr.controller.response_nck", "1", "200", Change::up, gemm, tile32, cycles, burst},
        {"ddr.controller.power_down_nck", "0", "64", Change::down, "digits", "npm_lite", energy, burst},
        {"ddr.controller.self_refresh_nck", "0", "64", Change::down, "digits", "npm_lite", energy, burst},
        {"energy.corner", "low", "high", Change::up, "digits", "npm_lite", energy},
        {"energy.node_nm", "16", "7", Change::down, "digits", "npm_lite", energy},
        {"energy.vdd", "0.8", "0.9", Change::up, "digits", "npm_lite", energy},
        {"clock.core_vdd", "0.8", "0.9", Change::up, "digits", "npm_lite", energy},
        {"clock.array_vdd", "0.8", "0.9", Change::up, "digits", "npm_lite", energy},
        {"clock.sram_vdd", "0.8", "0.9", Change::up, "digits", "npm_lite", energy},
        {"clock.interconnect_vdd", "0.8", "0.9", Change::up, "digits", "npm_lite", energy},
        {"energy.temp_c", "85", "105", Change::up, "digits", "npm_lite", static_energy},
        {"energy.clock_gating", "true", "false", Change::up, "digits", "npm_lite", static_energy},
        {"energy.idle_to_gate_cycles", "0", "100000", Change::up, "digits", "npm_lite", static_energy},
        {"store_on_dma", "false", "true", Change::down, gemm, tile32, "units.e0_cstl0.busy.useful"},
    };
    return table;
}

void PrintTo(const Turned& c, std::ostream* out) { *out << c.parameter; }

class Sensitivity : public testing::TestWithParam<Turned> {};

TEST_P(Sensitivity, ParameterChangesTheResult) {
    const Turned& c = GetParam();
    const double before = measure(c, c.from), after = measure(c, c.to);
    switch (c.change) {
        case Change::up:
            EXPECT_GT(after, before) << c.parameter << ": " << c.from << " -> " << c.to;
            break;
        case Change::down:
            EXPECT_LT(after, before) << c.parameter << ": " << c.from << " -> " << c.to;
            break;
        case Change::differs:
            EXPECT_NE(after, before) << c.parameter << ": " << c.from << " -> " << c.to;
            break;
    }
}

INSTANTIATE_TEST_SUITE_P(Parameters, Sensitivity, testing::ValuesIn(cases()), [](const auto& test) {
    std::string name = test.param.parameter;
    for (char& c : name) {
        if (c == '.') c = '_';
    }
    return name;
});

// No parameter of the schema is left out of the table above, but those that cannot change cycles or energy.
TEST(SensitivityTest, EveryParameterIsCovered) {
    const std::map<std::string, std::string> exempt = {
        {"name", "a label"},
        {"version", "a label"},
        {"calibration_row", "rows that validate does not count (its tests)"},
        {"description", "a label"},
        {"engine.array.rate.type", "key of a row: without it a type does not run (verifier's tests)"},
        {"engine.vector.cost.opcode", "key of a row"},
        {"ddr.size_bytes", "capacity: what exceeds it is refused (platform tests)"},
        {"clock.point.name", "points give fields that are in the table (platform tests)"},
        {"clock.point.domain", "as above"},
        {"clock.point.mhz", "as above"},
        {"clock.point.vdd", "as above"},
        {"clock.core_point", "as above"},
        {"clock.array_point", "as above"},
        {"clock.sram_point", "as above"},
        {"clock.interconnect_point", "as above"},
        {"energy.table", "tables are priced in the platform tests"},
        {"energy.tdp_w", "a line in the report"},
        {"energy.trace_bin_ns", "resolution of the power trace: its sum is the same (command tests)"},
        {"extends", "names the platform of which a file gives the changes (loader's tests)"},
        {"variant_set", "names of groups of variants (loader's tests)"},
        {"variant", "what may run: anything else is refused (verifier's tests)"},
        {"type_family", "declares what variants name (device documents' tests)"},
        {"wdm_count", "decompressors are not modelled"},
        {"characteristic.unit", "kept for other tools, not modelled"},
        {"characteristic.key", "kept for other tools, not modelled"},
        {"characteristic.value", "kept for other tools, not modelled"},
    };
    std::set<std::string> covered;
    for (const Turned& c : cases()) covered.insert(c.parameter);
    for (const auto& row : platforms::parameters()) {
        EXPECT_TRUE(covered.count(row.path) + exempt.count(row.path) == 1) << row.path;
    }
}

// Four DMAs that share one DRAM channel take about four times as long as one for the same bytes each.
TEST(SensitivityTest, DmasShareTheDramChannel) {
    using namespace builder;
    const auto build = [](int transfers) {
        Program p("share");
        const int64_t bytes = 65536;
        const Buffer x = p.buffer("x", Level::ddr, 4 * bytes, 4096),
                     m = p.buffer("m", Level::l2, 4 * bytes, 4096);
        for (int i = 0; i < transfers; ++i) {
            p.transfer("", p.bytes("", m, i * bytes, bytes), p.bytes("", x, i * bytes, bytes));
        }
        return std::make_shared<const Module>(p.build());
    };
    const auto platform = platforms::load(
        "tile32", {{"system_dma.channels", "4"}, {"interconnect.link_bytes_per_cycle", "256"}});
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    runtime::Simulation one(build(1), &platform, options), four(build(4), &platform, options);
    one.run();
    four.run();
    const double ratio = static_cast<double>(four.now()) / static_cast<double>(one.now());
    EXPECT_GT(ratio, 3.6);
    EXPECT_LT(ratio, 4.2);
}

}  // namespace
}  // namespace kpu
