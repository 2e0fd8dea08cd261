// Runs side by side as one page: page.html with page.js and the data of the runs in it.
#include "runtime/compare/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/embedded_file.hpp"
#include "base/json.hpp"
#include "platforms/platform.hpp"
#include "runtime/compare/timeline.hpp"
#include "traces/corners.hpp"
#include "traces/report.hpp"

namespace kpu {
extern const EmbeddedFile compare_page[];
extern const std::size_t compare_page_count;
}  // namespace kpu

namespace kpu::compare {

using nlohmann::json;
using traces::DiffSide;

namespace {

/// Limits of the page for the program's text and schedules: `diff --json` has all.
constexpr size_t most_rows = 500, most_text = 2000;

json value_of(const traces::Stat& stat) {
    return std::visit([](auto value) { return json(value); }, stat.value);
}

json file_of(const traces::Manifest::File& file) {
    return {{"name", file.name}, {"path", file.path}, {"sha256", file.sha256}};
}

/// Describes how the run was made.
json made_of(const traces::Manifest& manifest) {
    json made{{"version", manifest.tool_version},
              {"command_line", manifest.command_line},
              {"time", manifest.time},
              {"mode", manifest.mode},
              {"seed", manifest.seed},
              {"program", file_of(manifest.program)},
              {"platform", file_of(manifest.platform)},
              {"energy_table", manifest.energy_table},
              {"energy_corner", manifest.energy_corner},
              {"inputs", json::array()},
              {"parameters", json::array()}};
    for (const traces::Manifest::File& input : manifest.inputs) made["inputs"].push_back(file_of(input));
    for (const auto& [name, value] : manifest.parameters) made["parameters"].push_back({name, value});
    return made;
}

/// Returns what the run would have taken at the corners of its energy table; null: not known.
json energy_band_of(const traces::RunResults& run) {
    if (run.platform.empty()) return nullptr;
    try {
        const platforms::Platform platform =
            platforms::parse_textproto(run.platform, run.path + "/platform.textproto");
        traces::EnergyPrices prices = platforms::energy_prices(platform);
        prices.corners = platforms::energy_corners(platform);
        const auto band = traces::energy_band(run.stats, prices);
        if (band) return {{"low_uj", band->low_uj}, {"high_uj", band->high_uj}};
    } catch (const UserError&) {  // a platform without an energy table, or a folder of another version
    }
    return nullptr;
}

/// Returns the unit-cycles of an operation by band of the reports.
json bands_of(const traces::OpRow& row) {
    json sums = json::array();
    for (const traces::Band& band : traces::bands()) {
        Cycles sum = 0;
        for (const traces::Cause cause : band.causes) {
            const auto index = static_cast<size_t>(cause);
            if (index < row.causes.size()) sum += row.causes[index];
        }
        sums.push_back(sum);
    }
    return sums;
}

void shorten(json& text) {
    auto& whole = text.get_ref<std::string&>();
    if (whole.size() > most_text) whole = whole.substr(0, most_text) + "...";
}

/// Returns `diff --json` without what would make a page too large.
json shortened(json document) {
    json left_out = json::object();
    const auto cut = [&left_out](json& rows, const char* name) {
        if (!rows.is_array() || rows.size() <= most_rows) return;
        left_out[name] = rows.size() - most_rows;
        rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(most_rows), rows.end());
    };
    cut(document["program"], "program");
    cut(document["schedule"], "schedule");
    for (json& row : document["program"])
        for (const char* side : {"a", "b"}) shorten(row[side]);
    json& path = document["critical_path"];
    if (path.is_object()) {
        cut(path["on_path"], "on_path");
        cut(path["off_path"], "off_path");
    }
    document["left_out"] = std::move(left_out);
    return document;
}

std::string replaced(std::string text, std::string_view mark, std::string_view with) {
    const size_t place = text.find(mark);
    if (place == std::string::npos) throw InternalError(fmt::format("the page has no {}", mark));
    return text.replace(place, mark.size(), with);
}

}  // namespace

struct Page::Data {
    json runs = json::array(), operations = json::array(), differences = json::array();
    json statistics = json::object(), tensor_bytes = json::object();
    std::unordered_map<std::string, size_t> op_index;

    size_t index_of(const std::string& id, const std::string& type) {
        const auto [place, added] = op_index.try_emplace(id, operations.size());
        if (added) operations.push_back({id, type});
        return place->second;
    }

    json bars(const std::vector<Bar>& bars, const traces::RunInfo& info) {
        json rows = json::array();
        for (const Bar& bar : bars) {
            const std::string type = bar.op < info.ops.size() ? info.ops[bar.op].type : "";
            rows.push_back({bar.from, bar.to, index_of(std::string(info.op_name(bar.op)), type), bar.kind});
        }
        return rows;
    }

    /// Adds what the events say: the timeline, and times of operations. Says why there is nothing.
    std::map<std::string, OperationTime> add_events(json& run, const DiffSide& side) {
        run["events"] = false;
        run["no_events"] = side.no_events;
        if (side.events == nullptr) return {};
        try {
            const explain::RunGraph graph(*side.events, side.run.path);
            const Timeline timeline = timeline_of(graph);
            run["device"] = bars(timeline.device, graph.info());
            for (const Timeline::Unit& unit : timeline.units)
                run["units"].push_back({unit.name, bars(unit.bars, graph.info())});
            run["events"] = true;
            run["no_events"] = "";
            std::map<std::string, OperationTime> times;
            for (size_t op = 0; op < timeline.ops.size(); ++op)
                times.emplace(graph.info().op_name(op + 1 < timeline.ops.size() ? static_cast<uint32_t>(op)
                                                                                : traces::background_op),
                              timeline.ops[op]);
            return times;
        } catch (const UserError& error) {
            run["no_events"] = error.what();
            return {};
        }
    }

    json operation(const traces::OpRow& row, const OperationTime* time) {
        json out{{"op", index_of(row.id, row.type)},
                 {"charged", row.charged_cycles},
                 {"span", row.span_cycles},
                 {"bytes", row.bytes_dram},
                 {"macs", row.macs},
                 {"bands", bands_of(row)}};
        if (row.energy_modelled) out["energy_pj"] = row.energy_pj;
        if (time == nullptr) return out;
        out["kinds"] = time->charged;
        if (time->begin != explain::never && time->end >= time->begin) out["time"] = {time->begin, time->end};
        return out;
    }

    void add_run(DiffSide& side) {
        load_events(side);
        const traces::RunResults& from = side.run;
        json run{{"path", from.path},
                 {"program", from.manifest.program.name},
                 {"platform", from.manifest.platform.name},
                 {"complete", from.complete},
                 {"made", made_of(from.manifest)},
                 {"energy_band", energy_band_of(from)},
                 {"stats", json::object()},
                 {"device", json::array()},
                 {"units", json::array()},
                 {"operations", json::array()}};
        for (const auto& [key, stat] : from.stats.all()) {
            run["stats"][key] = value_of(stat);
            statistics.emplace(key, json{stat.unit, stat.meaning});
        }
        // first, so that operations stand in the order of the program
        for (const traces::OpRow& row : from.ops) index_of(row.id, row.type);
        const auto times = add_events(run, side);
        for (const traces::OpRow& row : from.ops) {
            const auto time = times.find(row.id);
            run["operations"].push_back(operation(row, time == times.end() ? nullptr : &time->second));
        }
        for (const DeclaredTensor& tensor : tensors_of(from.program))
            if (tensor.bytes > 0) tensor_bytes.emplace(tensor.name, tensor.bytes);
        runs.push_back(std::move(run));
    }
};

Page::Page(DiffSide& first) : data_(std::make_unique<Data>()) { data_->add_run(first); }

Page::~Page() = default;

void Page::add(DiffSide& other, const DiffSide& first, const Difference& difference) {
    data_->differences.push_back(shortened(parse_json(to_json(difference, first, other))));
    data_->add_run(other);
}

std::string Page::html() const {
    json bands = json::array();
    for (const traces::Band& band : traces::bands()) bands.push_back(band.label);
    json places = json::object();  // of tensors that moved
    for (const json& difference : data_->differences)
        for (const json& row : difference["places"]) {
            const auto bytes = data_->tensor_bytes.find(row["name"].get_ref<const std::string&>());
            if (bytes != data_->tensor_bytes.end()) places[bytes.key()] = *bytes;
        }
    std::string data = json_text({{"schema", 1},
                                  {"version", KPUSIM_VERSION},
                                  {"bands", bands},
                                  {"runs", data_->runs},
                                  {"operations", data_->operations},
                                  {"statistics", data_->statistics},
                                  {"differences", data_->differences},
                                  {"tensor_bytes", places}});
    // nothing in the data may end the script
    for (size_t at = 0; (at = data.find('<', at)) != std::string::npos;) data.replace(at, 1, "\\u003c");
    // the data last: it may hold any mark
    std::string page(compare_page[0].text);
    return replaced(replaced(std::move(page), "@SCRIPT@", compare_page[1].text), "@DATA@", data);
}

}  // namespace kpu::compare
