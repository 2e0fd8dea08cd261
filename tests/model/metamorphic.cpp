#include "tests/model/metamorphic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"
#include "base/text.hpp"
#include "isa/verify.hpp"
#include "platforms/parameters.hpp"
#include "tests/model/device_fixture.hpp"
#include "tests/model/random_program.hpp"

namespace kpu::model {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

/// Returns the value of a number at a path, of lists in the first row; nothing when it is not set.
std::optional<double> value_of(const Message& message, const std::string& path) {
    const size_t dot = path.find('.');
    const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(path.substr(0, dot));
    if (field == nullptr) return std::nullopt;
    const auto* reflection = message.GetReflection();
    if (dot != std::string::npos) {
        if (field->is_repeated() && reflection->FieldSize(message, field) == 0) return std::nullopt;
        const Message& inner = field->is_repeated() ? reflection->GetRepeatedMessage(message, field, 0)
                                                    : reflection->GetMessage(message, field);
        return value_of(inner, path.substr(dot + 1));
    }
    if (!reflection->HasField(message, field)) return std::nullopt;
    switch (field->cpp_type()) {
        case FieldDescriptor::CPPTYPE_UINT32:
            return reflection->GetUInt32(message, field);
        case FieldDescriptor::CPPTYPE_UINT64:
            return static_cast<double>(reflection->GetUInt64(message, field));
        case FieldDescriptor::CPPTYPE_DOUBLE:
            return reflection->GetDouble(message, field);
        default:
            return std::nullopt;
    }
}

/// Returns twice as much or half; from 0 to 4 and back.
std::optional<double> stepped(double value, bool up, const platforms::ParameterInfo& info) {
    double next = up ? (value == 0 ? 4 : 2 * value) : value / 2;
    if (info.type == "integer") next = std::floor(next);
    if (next == value || next < info.min || next > info.max) return std::nullopt;
    return next;
}

/// The first row of the costs of opcodes is that of relu, for its parameters to have something to step.
void add_cost(proto::Platform& platform) {
    for (proto::Engine& engine : *platform.mutable_engine()) {
        auto& costs = *engine.mutable_vector()->mutable_cost();
        for (int i = costs.size(); i-- > 0;)
            if (costs[i].opcode() == "relu") costs.DeleteSubrange(i, 1);
        costs.Add();
        for (int i = costs.size() - 1; i > 0; --i) costs.SwapElements(i, i - 1);
        proto::OpcodeCost* cost = costs.Mutable(0);
        cost->set_opcode("relu");
        cost->set_cycles_per_element(1);
        cost->set_passes(1);
    }
}

/// Only relu's: an override would give all opcodes the same cost.
void set_cost(proto::Platform& platform, const Change& change) {
    const double value = std::stod(change.second);
    for (proto::Engine& engine : *platform.mutable_engine()) {
        proto::OpcodeCost& cost = *engine.mutable_vector()->mutable_cost(0);
        if (change.first == "engine.vector.cost.cycles_per_element")
            cost.set_cycles_per_element(value);
        else if (change.first == "engine.vector.cost.passes")
            cost.set_passes(static_cast<uint32_t>(value));
        else
            throw InternalError("no step for " + change.first);
    }
}

proto::Platform platform_for(const std::string& name, bool burst, const std::vector<Change>& change = {}) {
    std::vector<Change> changes = change;
    if (burst) changes.emplace_back("ddr.fidelity", "burst");
    const bool of_cost = !change.empty() && change[0].first.find("vector.cost.") != std::string::npos;
    if (of_cost) changes.erase(changes.begin());
    proto::Platform platform = platform_with(name, changes);
    add_cost(platform);
    if (of_cost) set_cost(platform, change[0]);
    platforms::validate(platform);
    return platform;
}

/// Picoseconds of a run; nothing when the program does not fit the device.
std::optional<double> time_of(const proto::Platform& platform, const std::shared_ptr<Module>& module) {
    Diagnostics diagnostics;
    const auto program = verify(module, platforms::limits_of(platform), {}, diagnostics);
    if (!program) return std::nullopt;
    DeviceOptions options;
    options.hazards = false;
    Device device(platform, *program, nullptr, options);
    if (device.run() != RunStatus::finished) return std::nullopt;
    return static_cast<double>(platforms::core_clock(platform).edge(device.now()));
}

}  // namespace

const std::vector<std::string>& metamorphic_platforms() {
    static const std::vector<std::string> names{"npm_lite", "tile32", "npm_pro", "swkpu-v1"};
    return names;
}

Metamorphic::Metamorphic(const std::string& platform) : name_(platform) {
    for (const bool burst : {false, true}) {
        base_[burst] = platform_for(platform, burst);
        make_variants(burst, variants_[burst]);
    }
}

void Metamorphic::make_variants(bool burst, std::vector<Variant>& variants) {
    for (const SteppedParameter& parameter : stepped_parameters()) {
        const platforms::ParameterInfo& info = *platforms::find_parameter(parameter.path);
        std::optional<double> value = value_of(base_[burst], parameter.path);
        if (!value && platforms::find_parameter(parameter.fallback) != nullptr)
            value = value_of(base_[burst], parameter.fallback);
        else if (!value && !parameter.fallback.empty())
            value = std::stod(parameter.fallback);
        if (!value) continue;
        for (const bool up : {true, false}) {
            const auto next = stepped(*value, up, info);
            if (!next) continue;
            try {
                variants.push_back(
                    {&parameter, up,
                     platform_for(name_, burst, {{parameter.path, fmt::format("{}", *next)}})});
            } catch (const UserError&) {
                continue;  // no device may have it
            }
        }
    }
}

void Metamorphic::run(uint64_t seed) {
    const bool burst = seed % 2 == 1;
    const RandomProgram random(base_[burst], seed, false, true, true);
    const auto module = std::make_shared<Module>(random.program().build());
    const auto before = time_of(base_[burst], module);
    if (!before) return;
    for (const Variant& variant : variants_[burst]) {
        const auto after = time_of(variant.platform, module);
        if (after) compare(variant, seed, *before, *after);
    }
}

void Metamorphic::compare(const Variant& variant, uint64_t seed, double before, double after) {
    const SteppedParameter& parameter = *variant.parameter;
    Anomalies& found = found_[parameter.path];
    ++found.pairs;
    if (after == before) return;
    ++found.changed;
    if (parameter.effect == Effect::either) return;
    const bool better_after = variant.up == (parameter.effect == Effect::faster);
    double excess = better_after ? after / before - 1 : before / after - 1;
    if (parameter.effect == Effect::none) excess = std::abs(after / before - 1);
    found.sum += excess;
    if (excess <= 0) return;
    ++found.anomalous;
    if (excess <= found.worst) return;
    found.worst = excess;
    found.worst_at = fmt::format("{} seed {} {}", name_, seed, variant.up ? "up" : "down");
}

void add(std::map<std::string, Anomalies>& to, const std::map<std::string, Anomalies>& from) {
    for (const auto& [path, more] : from) {
        Anomalies& sum = to[path];
        sum.pairs += more.pairs;
        sum.changed += more.changed;
        sum.anomalous += more.anomalous;
        sum.sum += more.sum;
        if (more.worst <= sum.worst) continue;
        sum.worst = more.worst;
        sum.worst_at = more.worst_at;
    }
}

double anomaly_bound(const std::string& path) {
    static const std::string page = read_file(std::string(KPUSIM_SOURCE_DIR) + "/docs/anomalies.md");
    std::string_view text = page;
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        if (!starts_with(line, "| " + path + " |")) continue;
        std::vector<std::string> cells;
        for (size_t at = 1; at < line.size();) {
            const size_t end = std::min(line.find('|', at), line.size());
            cells.emplace_back(trimmed(line.substr(at, end - at)));
            at = end + 1;
        }
        constexpr size_t worst = 4, columns = 6;  // of the table of anomalies; other tables have fewer
        constexpr double rounding = 0.005;        // of the page
        if (cells.size() < columns) continue;
        return (std::stod(cells[worst]) + rounding) / 100;
    }
    return 0;
}

const std::vector<std::string>& parameters_without_steps() {
    static const std::vector<std::string> table{"name",
                                                "version",
                                                "description",
                                                "clock.core_vdd",
                                                "clock.array_vdd",
                                                "clock.sram_vdd",
                                                "clock.interconnect_vdd",
                                                "clock.point.name",
                                                "clock.point.domain",
                                                "clock.point.mhz",
                                                "clock.point.vdd",
                                                "clock.core_point",
                                                "clock.array_point",
                                                "clock.sram_point",
                                                "clock.interconnect_point",
                                                "engine.array.dataflow",
                                                "engine.array.timing",
                                                "engine.array.rate.type",
                                                "engine.vector.cost.opcode",
                                                "interconnect.topology",
                                                "interconnect.arbitration",
                                                "ddr.device",
                                                "ddr.mapping",
                                                "ddr.fidelity",
                                                "energy.table",
                                                "energy.corner",
                                                "energy.clock_gating",
                                                "extends",
                                                "variant_set",
                                                "type_family",
                                                "variant",
                                                "store_on_dma",
                                                "calibration_row",
                                                "characteristic.unit",
                                                "characteristic.key",
                                                "characteristic.value"};
    return table;
}

const std::vector<SteppedParameter>& stepped_parameters() {
    using E = Effect;
    static const std::vector<SteppedParameter> table = [] {
        std::vector<SteppedParameter> rows{
            {"clock.core_mhz", E::either},  // latencies of the DRAM become more cycles, so queues differ
            {"clock.array_mhz", E::faster, "clock.core_mhz"},
            {"clock.sram_mhz", E::faster, "clock.core_mhz"},
            {"clock.interconnect_mhz", E::faster, "clock.core_mhz"},
            {"sequencer.max_active_tokens", E::faster},
            {"sequencer.dispatch_cycles", E::slower},
            {"sequencer.launch_cycles", E::either, "100"},  // 0 is none; refreshes come at another time
            {"engine.count", E::either},
            {"engine.array.count", E::faster},
            {"engine.array.rows", E::either},  // a larger array fills and drains longer
            {"engine.array.cols", E::either},
            {"engine.array.rate.relative", E::faster},
            {"engine.array.command_rows", E::either, "16"},   // 0 is no limit
            {"engine.array.command_cycles", E::either, "8"},  // 0 is none
            {"engine.array.operand_bytes_per_cycle", E::faster},
            {"engine.array.result_bytes_per_cycle", E::faster},
            {"engine.vector.cstl_count", E::faster},
            {"engine.vector.vpu_count", E::faster},
            {"engine.vector.lanes", E::faster},
            {"engine.vector.pipeline_latency_cycles", E::slower},
            {"engine.vector.operand_bytes_per_cycle", E::faster},
            {"engine.vector.result_bytes_per_cycle", E::faster},
            {"engine.vector.cost.cycles_per_element", E::slower},
            {"engine.vector.cost.passes", E::slower},
            {"interconnect.link_bytes_per_cycle", E::faster},
            {"interconnect.system_link_bytes_per_cycle", E::faster, "interconnect.link_bytes_per_cycle"},
            {"interconnect.hop_latency_cycles", E::slower},
            {"interconnect.queue_bursts", E::either},  // 0 is any number
            {"ddr.channels", E::faster},
            {"ddr.data_rate_mtps", E::faster},
            {"ddr.size_bytes", E::none},
            {"ddr.controller_latency_ns", E::slower},
            {"ddr.channel_interleave_bytes", E::either},
            {"ddr.ranks", E::either},
            {"ddr.controller.read_queue", E::faster, "32"},
            {"ddr.controller.write_queue", E::faster, "32"},
            {"ddr.controller.write_high", E::either, "26"},
            {"ddr.controller.write_low", E::either, "6"},
            {"ddr.controller.row_hit_cap", E::either, "16"},
            {"ddr.controller.request_nck", E::slower, "8"},
            {"ddr.controller.response_nck", E::slower, "8"},
            {"ddr.controller.power_down_nck", E::either, "0"},
            {"ddr.controller.self_refresh_nck", E::either, "0"},
            {"energy.node_nm", E::none, "16"},
            {"energy.vdd", E::none, "0.8"},
            {"energy.temp_c", E::none, "60"},
            {"energy.idle_to_gate_cycles", E::none},
            {"energy.tdp_w", E::none},
            {"energy.trace_bin_ns", E::none},
            {"wdm_count", E::none}};
        for (const char* sram : {"engine.l1", "l2"}) {
            for (const auto& [field, effect] :
                 {std::pair("size_bytes", E::none), std::pair("banks", E::faster),
                  std::pair("bank_width_bytes", E::faster), std::pair("interleave_bytes", E::either),
                  std::pair("ports", E::faster), std::pair("bytes_per_cycle", E::faster),
                  std::pair("read_latency_cycles", E::slower), std::pair("write_latency_cycles", E::slower),
                  std::pair("access_width_bytes", E::none), std::pair("turnaround_cycles", E::slower)})
                rows.push_back({std::string(sram) + "." + field, effect});
        }
        for (const char* dma : {"engine.dma", "system_dma"}) {
            for (const auto& [field, effect] :
                 {std::pair("channels", E::faster), std::pair("bytes_per_cycle", E::faster),
                  std::pair("descriptor_cycles", E::slower), std::pair("row_cycles", E::slower),
                  std::pair("burst_bytes", E::either), std::pair("max_outstanding_bursts", E::faster),
                  std::pair("priority", E::either)})
                rows.push_back({std::string(dma) + "." + field, effect});
        }
        return rows;
    }();
    return table;
}

}  // namespace kpu::model
