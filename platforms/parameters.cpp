#include "platforms/parameters.hpp"

#include <fmt/format.h>

#include <limits>

namespace kpu::platforms {
namespace {

constexpr double kibi = 1024, mebi = kibi * kibi, gibi = kibi * mebi, tebi = kibi * gibi;
constexpr double wide = 65536;  ///< bytes a cycle, lanes, queue entries: far above any real device
constexpr bool required = true, optional = false, pow2 = true;

using Table = std::vector<ParameterInfo>;

void text(Table& t, std::string path, bool must, std::string fallback, std::string meaning) {
    t.push_back({std::move(path), "text", "", std::move(fallback), must, 0, 0, false, std::move(meaning)});
}

void choice(Table& t, std::string path, std::string values, bool must, std::string fallback,
            std::string meaning) {
    t.push_back(
        {std::move(path), std::move(values), "", std::move(fallback), must, 0, 0, false, std::move(meaning)});
}

void integer(Table& t, std::string path, std::string unit, bool must, std::string fallback, double min,
             double max, std::string meaning, bool power = false) {
    t.push_back({std::move(path), "integer", std::move(unit), std::move(fallback), must, min, max, power,
                 std::move(meaning)});
}

void real(Table& t, std::string path, std::string unit, bool must, std::string fallback, double min,
          double max, std::string meaning) {
    t.push_back({std::move(path), "real", std::move(unit), std::move(fallback), must, min, max, false,
                 std::move(meaning)});
}

void add_sram(Table& t, const std::string& p, const std::string& size, const std::string& read,
              const std::string& write) {
    integer(t, p + ".size_bytes", "byte", required, size, 1024, tebi, "capacity");
    integer(t, p + ".banks", "", required, "16", 1, 4096, "banks; accesses to one bank queue up", pow2);
    integer(t, p + ".bank_width_bytes", "byte", required, "64", 1, 4096, "bytes a cycle of one bank", pow2);
    integer(t, p + ".interleave_bytes", "byte", required, "64", 1, mebi,
            "consecutive blocks of this size lie in consecutive banks", pow2);
    integer(t, p + ".ports", "", required, "4", 1, 1024, "accesses that can be in progress at once");
    integer(t, p + ".bytes_per_cycle", "byte/cycle", required, "128", 1, wide, "width of one port");
    integer(t, p + ".read_latency_cycles", "cycle", required, read, 0, 100000, "from access to data");
    integer(t, p + ".write_latency_cycles", "cycle", required, write, 0, 100000, "from data to visibility");
    integer(t, p + ".access_width_bytes", "byte", required, "64", 1, 4096,
            "physical word: what one access costs in energy, however few bytes it asks for", pow2);
    integer(t, p + ".turnaround_cycles", "cycle", optional, "0", 0, 1000,
            "that a bank is not free between a read and a write");
}

void add_dma(Table& t, const std::string& p, const std::string& channels, int64_t least) {
    integer(t, p + ".channels", "", required, channels, least, 256,
            "units; each executes one transfer at a time");
    integer(t, p + ".bytes_per_cycle", "byte/cycle", required, "64", 1, wide, "throughput of one channel");
    integer(t, p + ".descriptor_cycles", "cycle", required, "16", 0, 100000, "issue cost of a descriptor");
    integer(t, p + ".row_cycles", "cycle", required, "1", 0, 100000,
            "extra cycles at the start of each contiguous row");
    integer(t, p + ".burst_bytes", "byte", required, "256", 1, 65536,
            "largest request to a memory; a DRAM serves it as several of its own bursts", pow2);
    integer(t, p + ".max_outstanding_bursts", "", required, "32", 1, wide,
            "bursts issued and not yet delivered, per channel");
    integer(t, p + ".priority", "", optional, "0", 0, 255,
            "of its bursts: lower goes first where several wait");
}

void add_engine(Table& t) {
    integer(t, "engine.count", "", optional, "1", 1, 1024, "engines like this one");
    integer(t, "engine.array.count", "", required, "1", 1, 256, "arrays (NMUs) per engine");
    integer(t, "engine.array.rows", "", required, "64", 1, 4096, "rows of processing elements");
    integer(t, "engine.array.cols", "", required, "64", 1, 4096, "columns of processing elements");
    choice(t, "engine.array.dataflow", "os|ws|is", required, "os",
           "which operand stays in the array: output-, weight- or input-stationary");
    choice(t, "engine.array.timing", "compat|physical", required, "physical",
           "formula family: compat as the reference simulator counts, physical as a real array works");
    text(t, "engine.array.rate.type", required, "",
         "element type of first x second operand: i8, i8xi4, i16, f16, bf16, f32, posit8, posit16, f8e4m3, "
         "f8e5m2, f6e2m3, f6e3m2, f4e2m1, f8e4m3xf4e2m1");
    real(t, "engine.array.rate.relative", "", required, "", 1e-6, 64,
         "MACs per cycle of this type / (rows x cols) in steady state");
    integer(t, "engine.array.operand_bytes_per_cycle", "byte/cycle", optional, "", 1, wide,
            "width of each operand port into L1; default: feeds the longer side at every type's rate");
    integer(t, "engine.array.result_bytes_per_cycle", "byte/cycle", optional, "", 1, wide,
            "width of the result port into L1; default: 4 bytes a column");
    integer(t, "engine.array.command_rows", "", optional, "0", 0, wide,
            "physical ws and is: vectors that one command streams (those of a convolution in one row of its "
            "output), "
            "only after the last of which the next stationary elements enter; 0: after the whole stream");
    integer(t, "engine.array.command_cycles", "cycle", optional, "0", 0, 100000,
            "from one command of the array to the next at least: what issues them takes as long");
    integer(t, "engine.vector.cstl_count", "", required, "2", 1, 256, "CSTL units per engine");
    integer(t, "engine.vector.vpu_count", "", required, "1", 0, 256, "VPU units per engine");
    integer(t, "engine.vector.lanes", "", required, "64", 1, wide, "elements a cycle of one unit");
    integer(t, "engine.vector.pipeline_latency_cycles", "cycle", required, "8", 0, 100000,
            "from the last element in to the last result out");
    integer(t, "engine.vector.operand_bytes_per_cycle", "byte/cycle", optional, "", 1, 4 * wide,
            "width of each operand port; default: 4 bytes a lane");
    integer(t, "engine.vector.result_bytes_per_cycle", "byte/cycle", optional, "", 1, 4 * wide,
            "width of the result port; default: 4 bytes a lane");
    text(t, "engine.vector.cost.opcode", required, "", "opcode that this row is about");
    real(t, "engine.vector.cost.cycles_per_element", "cycle", optional, "", 1e-3, 1e6,
         "per element and lane (of a view: per width of the narrower port); default: docs/nem/opcodes.md");
    integer(t, "engine.vector.cost.passes", "", optional, "", 1, 64,
            "times the operand is read; default: docs/nem/opcodes.md");
    add_sram(t, "engine.l1", "524288", "4", "2");
    add_dma(t, "engine.dma", "2", 1);
}

void add_ddr(Table& t) {
    text(t, "ddr.device", required, "LPDDR4-3200", "a device of ddr_devices.textproto");
    integer(t, "ddr.channels", "", required, "2", 1, 256, "independent channels");
    text(t, "ddr.mapping", required, "row_bank_column",
         "which address bits select bank group, bank, row and column: bank_group_interleaved, "
         "row_bank_column, "
         "or (burst) fields from the lowest bits up, as in `col:2 bg col:5 ba ra row`");
    integer(t, "ddr.data_rate_mtps", "MT/s", optional, "", 100, 20000,
            "transfers a second of one data line; default: the device's own rate, and at most that");
    integer(t, "ddr.size_bytes", "byte", optional, "", mebi, tebi,
            "capacity; default: all that the channels hold");
    integer(t, "ddr.controller_latency_ns", "ns", required, "20", 0, 1000000,
            "both ways together, beside the device's own latency");
    integer(t, "ddr.channel_interleave_bytes", "byte", required, "256", 64, gibi,
            "consecutive blocks of this size lie in consecutive channels", pow2);
    choice(t, "ddr.fidelity", "simple|burst", optional, "simple",
           "simple: arithmetic per burst; burst: a controller with queues per channel");
    integer(t, "ddr.ranks", "", optional, "1", 1, 8, "ranks of a channel; simple: more banks", pow2);
    // defaults: ddr_devices.textproto. What fidelity simple has no words for, it ignores
    integer(t, "ddr.controller.read_queue", "burst", optional, "", 1, 4096, "reads that wait in a channel");
    integer(t, "ddr.controller.write_queue", "burst", optional, "", 1, 4096, "writes that wait in a channel");
    integer(t, "ddr.controller.write_high", "burst", optional, "", 1, 4096,
            "so many waiting writes are written before any further read");
    integer(t, "ddr.controller.write_low", "burst", optional, "", 0, 4095, "... until so many are left");
    integer(t, "ddr.controller.row_hit_cap", "burst", optional, "", 1, 1 << 20,
            "bursts of an opened row that may pass older ones to another row");
    integer(t, "ddr.controller.request_nck", "nCK", optional, "", 0, 1 << 20,
            "from a request's arrival to its first command; default: half of controller_latency_ns");
    integer(t, "ddr.controller.response_nck", "nCK", optional, "", 0, 1 << 20,
            "from read data to the requester; default: the rest of controller_latency_ns");
    integer(t, "ddr.controller.power_down_nck", "nCK", optional, "", 0, 1 << 30,
            "idle time after which a rank powers down; 0: never");
    integer(t, "ddr.controller.self_refresh_nck", "nCK", optional, "", 0, 1 << 30,
            "idle time after which a rank refreshes itself; 0: never");
}

void add_energy(Table& t) {
    text(t, "energy.table", optional, "generic_16nm",
         "a shipped energy table, or the path of a .textproto table");
    choice(t, "energy.corner", "low|nominal|high", optional, "nominal", "column of the table");
    integer(t, "energy.node_nm", "nm", optional, "", 3, 180, "logic node; default: the table's");
    real(t, "energy.vdd", "V", optional, "", 0.6, 1.1, "core voltage; default: the table's");
    real(t, "energy.temp_c", "C", optional, "", -40, 150, "junction temperature; default: the table's");
    t.push_back(
        {"energy.clock_gating", "boolean", "", "true", false, 0, 0, false, "idle units stop their clocks"});
    integer(t, "energy.idle_to_gate_cycles", "cycle", optional, "64", 0, 1e9,
            "idle time before a clock stops");
    real(t, "energy.tdp_w", "W", optional, "10", 1e-3, 1e5, "power that the report warns above");
    real(t, "energy.trace_bin_ns", "ns", optional, "1000", 1e-3, 1e12, "bin of the power trace");
}

void add_operating_points(Table& t) {
    real(t, "clock.core_vdd", "V", optional, "", 0.6, 1.1,
         "voltage of vector units, DMA and sequencers; default: energy.vdd");
    real(t, "clock.array_vdd", "V", optional, "", 0.6, 1.1, "of systolic arrays; default: core_vdd");
    real(t, "clock.sram_vdd", "V", optional, "", 0.6, 1.1, "of L1 and L2; default: core_vdd");
    real(t, "clock.interconnect_vdd", "V", optional, "", 0.6, 1.1, "of links; default: core_vdd");
    text(t, "clock.point.name", required, "", "of an operating point, unique in its domain");
    choice(t, "clock.point.domain", "core|array|sram|interconnect", optional, "core",
           "clock domain that can run at this point");
    real(t, "clock.point.mhz", "MHz", required, "", 1e-3, 1e5, "frequency of the point");
    real(t, "clock.point.vdd", "V", required, "", 0.6, 1.1, "voltage that this frequency takes");
    for (const char* domain : {"core", "array", "sram", "interconnect"}) {
        text(t, fmt::format("clock.{}_point", domain), optional, "",
             fmt::format("operating point that gives clock.{0}_mhz and clock.{0}_vdd; none: they stand for "
                         "themselves",
                         domain));
    }
}

Table make_table() {
    Table t;
    text(t, "name", required, "", "how the device is called");
    text(t, "version", required, "1.0.0", "of the description");
    text(t, "description", optional, "", "one line for lists");
    real(t, "clock.core_mhz", "MHz", required, "1000", 1e-3, 1e5,
         "of vector units, DMA and sequencers; the time base of all statistics");
    real(t, "clock.array_mhz", "MHz", optional, "", 1e-3, 1e5, "of systolic arrays; default: core_mhz");
    real(t, "clock.sram_mhz", "MHz", optional, "", 1e-3, 1e5, "of L1 and L2; default: core_mhz");
    real(t, "clock.interconnect_mhz", "MHz", optional, "", 1e-3, 1e5, "of links; default: core_mhz");
    add_operating_points(t);
    integer(t, "sequencer.max_active_tokens", "", required, "64", 1, 1e6,
            "entries of the token table of each engine's sequencer");
    integer(t, "sequencer.dispatch_cycles", "cycle", required, "2", 0, 100000,
            "between two task dispatches of one sequencer");
    integer(t, "sequencer.launch_cycles", "cycle", optional, "0", 0, 10000000,
            "from the start of a program to its first dispatch: what its launch takes");
    add_engine(t);
    add_sram(t, "l2", "1048576", "6", "3");
    add_dma(t, "system_dma", "1", 0);  // a device may have none
    integer(t, "interconnect.link_bytes_per_cycle", "byte/cycle", required, "64", 1, wide,
            "of each link: one joins DDR and L2, one per engine joins L2 and its L1");
    integer(t, "interconnect.system_link_bytes_per_cycle", "byte/cycle", optional, "", 1, wide,
            "of the link that joins DDR and L2; default: link_bytes_per_cycle");
    integer(t, "interconnect.hop_latency_cycles", "cycle", required, "2", 0, 100000, "of one link");
    choice(t, "interconnect.topology", "crossbar|ring|mesh", optional, "crossbar",
           "what joins L2 and the engines: a link each, a ring, or a grid");
    choice(t, "interconnect.arbitration", "age|round_robin|priority", optional, "age",
           "which of the bursts that wait for a link goes next");
    integer(t, "interconnect.queue_bursts", "burst", optional, "0", 0, wide,
            "bursts of one stream in a link and waiting for it, before the stage before it waits; 0: any "
            "number");
    add_ddr(t);
    add_energy(t);
    text(t, "type_family", optional, "",
         "NEM text of a type family that variants name, beyond the shipped ones");
    text(t, "extends", optional, "",
         "of a file: the platform, by name or file, of which it gives the changes");
    text(t, "variant", optional, "", "type variant that the device executes: gemm.int8<i8>.with_bias");
    text(t, "calibration_row", optional, "",
         "row of measurements that set fields of this platform, as `NETWORK KIND INDEX`: kpusim validate "
         "does not "
         "count it");
    text(t, "variant_set", optional, "",
         "named group of variants: baseline, int8, float (docs/platforms.md)");
    t.push_back({"store_on_dma", "boolean", "", "false", false, 0, 0, false,
                 "a store occupies an engine's DMA instead of a CSTL"});
    integer(t, "wdm_count", "", optional, "0", 0, 256, "weight decompressors; not modelled");
    text(t, "characteristic.unit", required, "", "unit of a NEM characteristic that no field holds");
    text(t, "characteristic.key", required, "", "its key");
    integer(t, "characteristic.value", "", required, "", -9.2e18, 9.2e18, "its value");
    return t;
}

}  // namespace

const std::vector<ParameterInfo>& parameters() {
    static const std::vector<ParameterInfo> table = make_table();
    return table;
}

const ParameterInfo* find_parameter(std::string_view path) {
    for (const ParameterInfo& row : parameters()) {
        if (row.path == path) return &row;
    }
    return nullptr;
}

}  // namespace kpu::platforms
