#include "traces/run_info.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/diagnostics.hpp"
#include "base/json.hpp"
#include "isa/opcodes.hpp"
#include "traces/corners.hpp"
#include "traces/task_names.hpp"

namespace kpu::traces {

using nlohmann::json;

namespace {

constexpr double max_bin_ns = 1e12;

template <typename T>
T in_range(const json& value, double low, double high, const char* what) {
    const double number = value.get<double>();
    if (!(number >= low && number <= high)) throw UserError(fmt::format("`{}` is out of range", what));
    return value.get<T>();
}

/// Converts to JSON; the components of the static powers are those of the prices.
json to_json_value(const EnergyCorner& corner) {
    json statics = json::array();
    for (const StaticPower& power : corner.statics)
        statics.push_back({static_cast<int>(power.component), power.on_mw, power.gated_mw});
    return {{"name", corner.name},
            {"actions_pj", corner.actions_pj},
            {"statics", statics},
            {"dram_background_mw", corner.dram_background_mw},
            {"phy_static_mw", corner.phy_static_mw}};
}

json to_json_value(const EnergyPrices& prices) {
    json out{{"table", prices.table},
             {"corner", prices.corner},
             {"node_nm", prices.node_nm},
             {"vdd", prices.vdd},
             {"temp_c", prices.temp_c},
             {"tdp_w", prices.tdp_w},
             {"trace_bin_ns", prices.trace_bin_ns},
             {"clock_gating", prices.clock_gating},
             {"idle_to_gate_cycles", prices.idle_to_gate_cycles},
             {"dram_background_mw", prices.dram_background_mw},
             {"phy_static_mw", prices.phy_static_mw},
             {"actions", json::array()},
             {"statics", json::array()},
             {"parts", json::array()}};
    for (const StaticPart& part : prices.parts)
        out["parts"].push_back({static_cast<int>(part.component), part.engine, part.on_mw, part.gated_mw});
    for (const EnergyCorner& corner : prices.corners) out["corners"].push_back(to_json_value(corner));
    if (!prices.not_modelled.empty()) out["not_modelled"] = prices.not_modelled;
    for (const ActionPrice& price : prices.actions) {
        out["actions"].push_back({{"component", static_cast<int>(price.component)},
                                  {"action", price.action},
                                  {"energy_pj", price.energy_pj},
                                  {"per", price.per},
                                  {"source", price.source}});
    }
    for (const StaticPower& power : prices.statics) {
        out["statics"].push_back({{"component", static_cast<int>(power.component)},
                                  {"on_mw", power.on_mw},
                                  {"gated_mw", power.gated_mw}});
    }
    return out;
}

Component component_from(const json& value) {
    return static_cast<Component>(in_range<int>(value, 0, component_count - 1, "component"));
}

EnergyCorner corner_from(const json& in, size_t actions) {
    EnergyCorner corner;
    in.at("name").get_to(corner.name);
    in.at("actions_pj").get_to(corner.actions_pj);
    if (corner.actions_pj.size() != actions) throw UserError("`actions_pj` of a corner has another length");
    for (const json& row : in.at("statics"))
        corner.statics.push_back(
            {component_from(row.at(0)), row.at(1).get<double>(), row.at(2).get<double>()});
    in.at("dram_background_mw").get_to(corner.dram_background_mw);
    in.at("phy_static_mw").get_to(corner.phy_static_mw);
    return corner;
}

EnergyPrices prices_from(const json& in) {
    EnergyPrices prices;
    in.at("table").get_to(prices.table);
    in.at("corner").get_to(prices.corner);
    in.at("node_nm").get_to(prices.node_nm);
    in.at("vdd").get_to(prices.vdd);
    in.at("temp_c").get_to(prices.temp_c);
    in.at("tdp_w").get_to(prices.tdp_w);
    in.at("trace_bin_ns").get_to(prices.trace_bin_ns);
    in.at("clock_gating").get_to(prices.clock_gating);
    in.at("idle_to_gate_cycles").get_to(prices.idle_to_gate_cycles);
    in.at("dram_background_mw").get_to(prices.dram_background_mw);
    in.at("phy_static_mw").get_to(prices.phy_static_mw);
    if (in.contains("not_modelled")) in.at("not_modelled").get_to(prices.not_modelled);
    for (const json& row : in.at("actions")) {
        prices.actions.push_back({component_from(row.at("component")), row.at("action").get<std::string>(),
                                  row.at("energy_pj").get<double>(), row.at("per").get<std::string>(),
                                  row.at("source").get<std::string>()});
    }
    for (const json& row : in.at("statics")) {
        prices.statics.push_back({component_from(row.at("component")), row.at("on_mw").get<double>(),
                                  row.at("gated_mw").get<double>()});
    }
    for (const json& row : in.at("parts")) {
        prices.parts.push_back({component_from(row.at(0)), in_range<int>(row.at(1), -1, 65535, "engine"),
                                row.at(2).get<double>(), row.at(3).get<double>()});
    }
    if (in.contains("corners")) {
        for (const json& corner : in.at("corners")) {
            prices.corners.push_back(corner_from(corner, prices.actions.size()));
            check(at_corner(prices, prices.corners.back()));
        }
    }
    check(prices);
    return prices;
}

json to_json_value(const StreamWork::End& end) {
    return end.is_memory ? json{static_cast<int>(end.level), end.engine} : json{-1, end.engine};
}

StreamWork::End end_from(const json& in) {
    const int level = in_range<int>(in.at(0), -1, 2, "level of a stream");
    StreamWork::End end;
    end.is_memory = level >= 0;
    if (end.is_memory) end.level = static_cast<Level>(level);
    end.engine = in_range<uint16_t>(in.at(1), 0, 65535, "engine of a stream");
    return end;
}

json to_json_value(const TaskWork& work) {
    json out{{"mover", work.mover},       {"overlaps", work.overlaps}, {"lead", work.lead},
             {"fill", work.fill},         {"steady", work.steady},     {"drain", work.drain},
             {"uneven", work.uneven},     {"work", work.work},         {"occupancy", work.occupancy},
             {"peak_q16", work.peak_q16}, {"macs", work.macs},         {"streams", json::array()}};
    for (const StreamWork& stream : work.streams) {
        json row{{"role", static_cast<int>(stream.role)},
                 {"source", to_json_value(stream.source)},
                 {"destination", to_json_value(stream.destination)},
                 {"bytes", stream.bytes},
                 {"runs", stream.runs},
                 {"port_bytes_per_cycle", stream.port_bytes_per_cycle},
                 {"burst_bytes", stream.burst_bytes},
                 {"max_outstanding", stream.max_outstanding},
                 {"descriptor_cycles", stream.descriptor_cycles},
                 {"row_cycles", stream.row_cycles},
                 {"due", stream.due},
                 {"hops", json::array()}};
        if (stream.dram_rows.count > 0)
            row["dram_rows"] = {stream.dram_rows.count, stream.dram_rows.bytes, stream.dram_rows.stride};
        for (const StreamHop& hop : stream.hops) row["hops"].push_back({hop.unit, hop.latency});
        out["streams"].push_back(std::move(row));
    }
    return out;
}

constexpr double max_work = 1e18;  ///< limit of anything countable: sums of it stay in 64 bits

StreamWork stream_from(const json& in, size_t units) {
    const auto count = [&](const char* key) { return in_range<uint64_t>(in.at(key), 0, max_work, key); };
    const auto width = [&](const char* key) { return in_range<uint32_t>(in.at(key), 1, UINT32_MAX, key); };
    StreamWork stream;
    stream.role = static_cast<StreamWork::Role>(in_range<int>(in.at("role"), 0, 2, "role"));
    stream.source = end_from(in.at("source"));
    stream.destination = end_from(in.at("destination"));
    stream.bytes = count("bytes");
    stream.runs = count("runs");
    stream.port_bytes_per_cycle = width("port_bytes_per_cycle");
    stream.burst_bytes = width("burst_bytes");
    stream.max_outstanding = width("max_outstanding");
    stream.descriptor_cycles =
        in_range<uint32_t>(in.at("descriptor_cycles"), 0, UINT32_MAX, "descriptor_cycles");
    stream.row_cycles = in_range<uint32_t>(in.at("row_cycles"), 0, UINT32_MAX, "row_cycles");
    stream.due = count("due");
    if (in.contains("dram_rows")) {
        const auto number = [&](size_t i) {
            return in_range<uint64_t>(in.at("dram_rows").at(i), 0, max_work, "dram_rows");
        };
        stream.dram_rows = {number(0), number(1), number(2)};
    }
    for (const json& hop : in.at("hops")) {
        stream.hops.push_back({in_range<uint16_t>(hop.at(0), 0, double(units) - 1, "unit of a hop"),
                               in_range<Cycles>(hop.at(1), 0, max_work, "latency of a hop")});
    }
    return stream;
}

TaskWork work_from(const json& in, size_t units) {
    const auto count = [&](const char* key) { return in_range<uint64_t>(in.at(key), 0, max_work, key); };
    TaskWork work;
    in.at("mover").get_to(work.mover);
    in.at("overlaps").get_to(work.overlaps);
    work.lead = count("lead");
    work.fill = count("fill");
    work.steady = count("steady");
    work.drain = count("drain");
    work.uneven = count("uneven");
    work.occupancy = count("occupancy");
    work.work = count("work");
    work.peak_q16 = in_range<uint64_t>(in.at("peak_q16"), 1, max_work, "peak_q16");
    work.macs = count("macs");
    for (const json& stream : in.at("streams")) work.streams.push_back(stream_from(stream, units));
    return work;
}

UnitKind kind_from(const json& value) {
    const auto number = in_range<uint64_t>(value, 0, double(max_unit_kinds) - 1, "class");
    if (!is_unit_kind(number)) throw UserError("`class` is out of range");
    return static_cast<UnitKind>(number);
}

/// Names the way in which a task moves data, or that it computes.
const char* stage_of(const BoundProgram& program, const BoundTask& task) {
    if (task.stores()) return "store";
    if (!task.moves()) return "compute";
    if (task.inputs.empty() || task.outputs.empty()) return "load";
    const Level from = program.regions[task.inputs[0]].level, to = program.regions[task.outputs[0]].level;
    return to >= from ? "load" : "store";
}

RunInfo info_from(const json& in) {
    RunInfo info;
    in.at("program").get_to(info.program);
    in.at("platform").get_to(info.platform);
    in.at("mode").get_to(info.mode);
    info.core_hz = in_range<uint64_t>(in.at("core_hz"), 1, 1e12, "core_hz");
    info.total_cycles = in_range<Cycles>(in.at("total_cycles"), 0, 9e18, "total_cycles");
    info.end_ps = in_range<Picoseconds>(in.at("end_ps"), 0, 9e18, "end_ps");
    in.at("complete").get_to(info.complete);
    info.accesses = in.value("accesses", false);
    info.carries_places = in.value("carries_places", false);
    info.bin_ns = in_range<double>(in.at("bin_ns"), 1e-3, max_bin_ns, "bin_ns");
    info.dram_burst_bytes = in_range<uint32_t>(in.at("dram_burst_bytes"), 0, UINT32_MAX, "dram_burst_bytes");
    info.dram_banks = in_range<uint32_t>(in.value("dram_banks", json(0)), 0, 1 << 16, "dram_banks");
    info.dram_interleave_bytes = in_range<uint32_t>(in.value("dram_interleave_bytes", json(0)), 0, UINT32_MAX,
                                                    "dram_interleave_bytes");
    for (const json& unit : in.at("units")) {
        info.units.push_back(
            {unit.at("name").get<std::string>(), kind_from(unit.at("class")), unit.at("engine").get<int>(),
             unit.at("index").get<int>(), in_range<double>(unit.at("peak"), 0, 1e15, "peak"),
             unit.contains("area_mm2") ? in_range<double>(unit["area_mm2"], 0, 1e9, "area_mm2") : 0});
    }
    for (const json& op : in.at("ops")) {
        info.ops.push_back({op.at("id").get<std::string>(), op.at("type").get<std::string>(),
                            op.at("estimated_cycles").get<uint64_t>(),
                            op.at("estimated_energy_pj").get<double>()});
    }
    for (const json& row : in.at("statements")) {
        info.statements.push_back(
            {row.at("name").get<std::string>(), row.at("file").get<std::string>(),
             row.at("line").get<uint32_t>(), row.at("column").get<uint32_t>(),
             row.at("loops").get<std::vector<std::string>>(), row.value("profile", ""),
             row.at("type").get<std::string>(), in_range<int>(row.at("engine"), -1, 65535, "engine"),
             in_range<int>(row.at("instance"), -1, 65535, "instance"), row.value("stage", "")});
    }
    for (const json& work : in.at("works")) info.works.push_back(work_from(work, info.units.size()));
    info.dram_posted_bytes = in_range<uint64_t>(in.at("dram_posted_bytes"), 0, max_work, "dram_posted_bytes");
    info.dispatch_cycles = in_range<uint32_t>(in.at("dispatch_cycles"), 0, UINT32_MAX, "dispatch_cycles");
    info.prices = prices_from(in.at("prices"));
    return info;
}

}  // namespace

namespace {

bool matches(const std::vector<std::string>& patterns, const std::string& name) {
    return patterns.empty() || std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
               return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
           });
}

}  // namespace

bool TraceView::shows(const std::string& unit) const { return matches(units, unit); }

ShownStates::ShownStates(const RunInfo& info) {
    for (int cause = 0; cause < cause_count; ++cause)
        causes_.push_back(matches(info.view.causes, std::string(full_name_of(static_cast<Cause>(cause)))));
    for (const RunInfo::Op& op : info.ops) ops_.push_back(matches(info.view.ops, op.id));
    ops_.push_back(matches(info.view.ops, std::string(background_name)));
}

Picoseconds RunInfo::bin_ps() const { return ps_of_ns(std::min(bin_ns, max_bin_ns)); }

void check_bin(double ns, const Clock& core) {
    const double cycle_ns = 1e9 / static_cast<double>(core.hz());
    if (ns >= cycle_ns * (1 - 1e-12) && ns <= max_bin_ns) return;
    throw UserError(
        fmt::format("bins of power of {:g} ns: a core cycle takes {:g} ns, and {:g} ns are the most. Fix: "
                    "give a width from {:g} "
                    "to {:g} ns.",
                    ns, cycle_ns, max_bin_ns, cycle_ns, max_bin_ns));
}

std::string_view RunInfo::op_name(uint32_t op) const {
    return op < ops.size() ? std::string_view(ops[op].id) : background_name;
}

std::string RunInfo::place_of(uint32_t statement) const {
    if (statement >= statements.size() || statements[statement].line == 0) return {};
    return fmt::format("{}:{}", statements[statement].file, statements[statement].line);
}

RunInfo describe(const BoundProgram& program) {
    TaskNames names(program);
    RunInfo info;
    info.program = program.name;
    info.carries_places = program.carries_places;
    for (const BoundOp& op : program.ops) {
        info.ops.push_back({op.id, op.type, op.estimated_cycles, op.estimated_energy_pj});
    }
    for (size_t i = 0; i < program.statements.size(); ++i) {
        const BoundStatement& statement = program.statements[i];
        RunInfo::Statement row;
        if (statement.kind == BoundStatement::Kind::task) {
            const BoundTask& task = program.tasks[statement.index];
            row.name = names.of(i);
            row.profile = task.profile;
            row.type = operation_of(task);
            row.engine = task.engine;
            row.instance = task.instance;
            row.stage = stage_of(program, task);
        }
        const SourcePos pos = program.pos_of(i);
        row.file = pos.file;
        row.line = pos.line;
        row.column = pos.column;
        for (int32_t parent = statement.parent; parent >= 0; parent = program.statements[parent].parent) {
            row.loops.push_back(program.loops[program.statements[parent].index].variable);
        }
        std::reverse(row.loops.begin(), row.loops.end());
        info.statements.push_back(std::move(row));
    }
    return info;
}

std::string to_json(const RunInfo& info) {
    json out{{"program", info.program},
             {"platform", info.platform},
             {"mode", info.mode},
             {"core_hz", info.core_hz},
             {"total_cycles", info.total_cycles},
             {"end_ps", info.end_ps},
             {"complete", info.complete},
             {"accesses", info.accesses},
             {"bin_ns", info.bin_ns},
             {"dram_burst_bytes", info.dram_burst_bytes},
             {"dram_banks", info.dram_banks},
             {"dram_interleave_bytes", info.dram_interleave_bytes},
             {"units", json::array()},
             {"ops", json::array()},
             {"statements", json::array()},
             {"works", json::array()},
             {"dispatch_cycles", info.dispatch_cycles},
             {"dram_posted_bytes", info.dram_posted_bytes},
             {"prices", to_json_value(info.prices)}};
    for (const UnitInfo& unit : info.units) {
        out["units"].push_back({{"name", unit.name},
                                {"class", static_cast<int>(unit.kind)},
                                {"engine", unit.engine},
                                {"index", unit.index},
                                {"peak", unit.peak_per_cycle},
                                {"area_mm2", unit.area_mm2}});
    }
    for (const RunInfo::Op& op : info.ops) {
        out["ops"].push_back({{"id", op.id},
                              {"type", op.type},
                              {"estimated_cycles", op.estimated_cycles},
                              {"estimated_energy_pj", op.estimated_energy_pj}});
    }
    for (const RunInfo::Statement& row : info.statements) {
        out["statements"].push_back({{"name", row.name},
                                     {"file", row.file},
                                     {"line", row.line},
                                     {"column", row.column},
                                     {"loops", row.loops},
                                     {"type", row.type},
                                     {"engine", row.engine},
                                     {"instance", row.instance}});
        if (!row.profile.empty()) out["statements"].back()["profile"] = row.profile;
        if (!row.stage.empty()) out["statements"].back()["stage"] = row.stage;
    }
    for (const TaskWork& work : info.works) out["works"].push_back(to_json_value(work));
    if (info.carries_places) out["carries_places"] = true;
    try {
        return exact_json_text(out);
    } catch (const UserError& error) {
        throw UserError(fmt::format("program `{}`: {}. Fix: rename it.", info.program, error.what()));
    }
}

namespace {

[[noreturn]] void damaged(const std::string& origin, std::string_view why) {
    throw UserError(fmt::format(
        "{}: the description of the run is damaged: {}. Fix: write it again with `kpusim run --events`.",
        origin, why));
}

}  // namespace

RunInfo run_info_from_json(std::string_view text, const std::string& origin) {
    try {
        return info_from(parse_json(text));
    } catch (const json::exception&) {
        damaged(origin, "a member is missing or of another type");
    } catch (const UserError& error) {
        damaged(origin, error.what());
    }
}

}  // namespace kpu::traces
