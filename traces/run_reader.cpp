#include "traces/run_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/diagnostics.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "traces/csv_table.hpp"

namespace kpu::traces {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

std::string text_of(const json& object, const char* key) {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

Manifest::File file_from(const json& object) {
    if (!object.is_object()) return {};
    return {text_of(object, "name"), text_of(object, "path"), text_of(object, "sha256")};
}

void read_manifest(const std::string& path, RunResults& run) {
    const std::string text = read_file(path);
    json content;
    try {
        content = parse_json(text);
    } catch (const UserError&) {  // said below
    }
    if (!content.is_object())
        throw UserError(fmt::format("{}: not a manifest: no JSON object. Fix: run again with -o.", path));
    Manifest& manifest = run.manifest;
    manifest.tool_version = text_of(content, "version");
    manifest.mode = text_of(content, "mode");
    manifest.time = text_of(content, "time");
    manifest.seed = content.value("seed", json()).is_number_unsigned() ? content["seed"].get<uint64_t>() : 0;
    manifest.program = file_from(content.value("program", json()));
    manifest.platform = file_from(content.value("platform", json()));
    const json parameters = content.value("parameters", json::object());
    for (const auto& [name, value] : parameters.items()) {
        if (value.is_number_integer()) manifest.parameters.emplace_back(name, value.get<int64_t>());
    }
    const fs::path events(
        text_of(content, "events"));  // a manifest is untrusted: nothing outside of its folder
    const bool inside = events.is_relative() && std::find(events.begin(), events.end(), "..") == events.end();
    if (inside) manifest.events = events.string();
    for (const json& row : content.value("inputs", json::array())) manifest.inputs.push_back(file_from(row));
    for (const json& word : content.value("command_line", json::array()))
        manifest.command_line.push_back(word.is_string() ? word.get<std::string>() : "");
    const json energy = content.value("energy", json::object());
    manifest.energy_table = text_of(energy, "table");
    manifest.energy_corner = text_of(energy, "corner");
    for (const json& row : content.value("outputs", json::array())) {
        if (row.is_object()) run.outputs.emplace_back(text_of(row, "file"), text_of(row, "sha256"));
    }
}

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

std::string read_if_there(const fs::path& path) { return is_there(path) ? read_file(path.string()) : ""; }

void read_ops(const fs::path& path, RunResults& run) {
    if (is_there(path)) run.ops = parse_ops_csv(read_file(path.string()), path.string());
}

}  // namespace

std::vector<OpRow> parse_ops_csv(std::string_view text, const std::string& origin) {
    const CsvTable table(text, origin);
    const size_t id = table.column("op"), type = table.column("type"), span = table.column("span_cycles"),
                 charged = table.column("charged_cycles"), macs = table.column("macs"),
                 dram = table.column("bytes_dram"), l2 = table.column("bytes_l2"),
                 l1 = table.column("bytes_l1"), utilization = table.column("utilization"),
                 energy = table.column("energy_pj"), power = table.find("power_w"),
                 profile = table.column("profile"), bound = table.find("bound"),
                 bound_cycles = table.find("bound_cycles"), fused = table.find("fused_into"),
                 precision = table.find("precision"), range = table.find("out_of_range");
    std::array<size_t, unit_cause_count> causes{};
    for (int i = 0; i < unit_cause_count; ++i)
        causes[static_cast<size_t>(i)] = table.column(full_name_of(static_cast<Cause>(i)));
    std::vector<OpRow> rows(table.rows());
    for (size_t i = 0; i < rows.size(); ++i) {
        OpRow& row = rows[i];
        row.id = table.at(i, id);
        row.type = table.at(i, type);
        row.timed = !table.at(i, span).empty();
        row.span_cycles = table.integer(i, span);
        row.charged_cycles = table.integer(i, charged);
        for (size_t c = 0; c < causes.size(); ++c) row.causes[c] = table.integer(i, causes[c]);
        row.macs = table.integer(i, macs);
        row.bytes_dram = table.integer(i, dram);
        row.bytes_l2 = table.integer(i, l2);
        row.bytes_l1 = table.integer(i, l1);
        row.utilization = table.real(i, utilization);
        row.energy_pj = table.real(i, energy);
        if (power != CsvTable::absent) row.power_w = table.real(i, power);
        row.profile = table.at(i, profile);
        if (bound != CsvTable::absent) row.bound = table.at(i, bound);
        if (bound_cycles != CsvTable::absent) row.bound_cycles = table.integer(i, bound_cycles);
        if (fused != CsvTable::absent) row.fused_into = table.at(i, fused);
        if (precision != CsvTable::absent) row.precision = table.at(i, precision);
        if (range != CsvTable::absent && !table.at(i, range).empty())
            row.out_of_range = table.integer(i, range);
    }
    return rows;
}

RunResults read_run(const std::string& folder) {
    const fs::path path(folder);
    std::error_code error;
    if (!fs::is_directory(path, error) || !fs::exists(path / "stats.json", error)) {
        throw UserError(fmt::format(
            "{}: not the folder of a run: it has no stats.json. Fix: give the folder of `kpusim run -o`.",
            folder));
    }
    RunResults run;
    run.path = folder;
    const std::string stats = (path / "stats.json").string();
    std::tie(run.stats, run.complete) = StatSet::from_json(read_file(stats), stats);
    read_ops(path / "ops.csv", run);
    if (is_there(path / "manifest.json")) read_manifest((path / "manifest.json").string(), run);
    run.platform = read_if_there(path / "platform.textproto");
    run.program = read_if_there(path / program_file_name);
    run.program_kernels = read_if_there(path / program_kernels_file_name);
    const std::string& events = run.manifest.events;
    for (const fs::path& file :
         {path / (events.empty() ? events_file_name : events), path / events_file_name}) {
        if (run.events.empty() && is_there(file)) run.events = file.string();
    }
    return run;
}

std::string event_file_of(const std::string& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return path;
    const RunResults run = read_run(path);
    if (!run.events.empty()) return run.events;
    throw UserError(
        fmt::format("{0}: the run kept no events. Fix: run again with `-o {0} --force --events {1}`.", path,
                    (fs::path(path) / events_file_name).string()));
}

RunResults read_baseline(const std::string& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) return read_run(path);
    RunResults run;
    run.path = path;
    std::tie(run.stats, run.complete) = StatSet::from_json(read_file(path), path);
    if (fs::path(path).filename() == "stats.json") read_ops(fs::path(path).parent_path() / "ops.csv", run);
    return run;
}

}  // namespace kpu::traces
