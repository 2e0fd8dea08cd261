// Findings as JSON, and as SARIF 2.1.0 (OASIS), which code hosts and editors show beside the lines concerned.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "analysis/schedule_check.hpp"
#include "execution/hazards.hpp"
#include "runtime/cli/command.hpp"

namespace kpu::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* schema =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

analysis::FindingOrigin origin_of(const analysis::FindingOrigins& origins, size_t i) {
    const auto it = origins.find(i);
    if (it != origins.end()) return it->second;
    analysis::FindingOrigin origin;
    origin.kind = verifier_rule;
    return origin;
}

std::string meaning(const std::string& rule) {
    for (int k = 0; k < analysis::finding_kind_count; ++k) {
        const auto kind = static_cast<analysis::FindingKind>(k);
        if (rule == name_of(kind)) return std::string(meaning_of(kind));
    }
    for (int k = 0; k < execution::hazard_kind_count; ++k) {
        const auto kind = static_cast<execution::HazardKind>(k);
        if (rule == name_of(kind)) return std::string(meaning_of(kind));
    }
    return "Form, names, types, bounds, capacity or device fit.";
}

/// Returns a URI reference: what stands for itself there, the rest in percent.
std::string uri_of(const std::string& path) {
    static constexpr char hex[] = "0123456789ABCDEF";
    std::string uri;
    for (const char c : path) {
        const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           c == '/' || c == '.' || c == '-' || c == '_' || c == '~';
        if (plain) {
            uri += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        uri += {'%', hex[byte >> 4], hex[byte & 15]};
    }
    return uri;
}

Json location_of(const SourcePos& pos) {
    Json place = {{"artifactLocation", {{"uri", uri_of(pos.file)}}}};
    if (pos.line > 0) {
        place["region"] = {{"startLine", pos.line}};
        if (pos.column > 0) place["region"]["startColumn"] = pos.column;
    }
    return {{"physicalLocation", place}};
}

/// Returns the place of a finding: of what it is about, or of the statement that the verifier refused.
analysis::FindingSide side_of(const Diagnostic& item, const analysis::FindingOrigin& origin) {
    if (origin.side) return *origin.side;
    analysis::FindingSide side;
    side.pos = item.pos;
    if (origin.kind != verifier_rule) side.pos.statement = SourcePos::no_statement;
    return side;
}

Json location_of(const SourcePos& pos, const analysis::FindingSide& side) {
    Json location = pos.file.empty() ? Json::object() : location_of(pos);
    if (side.pos.statement == SourcePos::no_statement) return location;
    const std::string path = fmt::format("statement[{}]", side.pos.statement);
    location["logicalLocations"] = Json::array({{{"name", side.task.empty() ? path : side.task},
                                                 {"fullyQualifiedName", path},
                                                 {"kind", side.task.empty() ? "statement" : "task"}}});
    return location;
}

void add_fields(const analysis::FindingSide& side, Json& to) {
    if (side.pos.statement != SourcePos::no_statement) to["statement"] = side.pos.statement;
    if (!side.task.empty()) to["task"] = side.task;
    for (const auto& [variable, value] : side.iteration) to["iteration"][variable] = value;
}

/// Adds what the message says of the first instance found, field by field.
void add_fields(const Diagnostic& item, const analysis::FindingOrigin& origin, Json& to) {
    add_fields(side_of(item, origin), to);
    if (!origin.buffer.empty()) to["buffer"] = origin.buffer;
    if (origin.bytes) to["bytes"] = {{"first", origin.bytes->first}, {"last", origin.bytes->second}};
    if (origin.other) add_fields(*origin.other, to["other"]);
}

}  // namespace

std::string json_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins) {
    static constexpr const char* names[] = {"error", "warning", "info"};
    auto list = Json::array();
    for (size_t i = 0; i < diagnostics.all().size(); ++i) {
        const Diagnostic& item = diagnostics.all()[i];
        const analysis::FindingOrigin origin = origin_of(origins, i);
        auto related = Json::array();
        if (origin.other && origin.other->pos.line > 0) {
            const SourcePos& pos = origin.other->pos;
            related.push_back({{"file", pos.file}, {"line", pos.line}, {"column", pos.column}});
        }
        list.push_back({{"file", item.pos.file},
                        {"line", item.pos.line},
                        {"column", item.pos.column},
                        {"severity", names[static_cast<size_t>(item.severity)]},
                        {"kind", origin.kind},
                        {"message", item.message},
                        {"notes", item.notes},
                        {"related", related}});
        add_fields(item, origin, list.back());
    }
    const Json document = {{"schema", 1},
                           {"errors", diagnostics.error_count()},
                           {"warnings", diagnostics.warning_count()},
                           {"diagnostics", list}};
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sarif_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins) {
    static constexpr const char* levels[] = {"error", "warning", "note"};
    std::map<std::string, size_t> index;  // by rule
    for (size_t i = 0; i < diagnostics.all().size(); ++i) index.emplace(origin_of(origins, i).kind, 0);
    auto rules = Json::array();
    for (auto& [rule, number] : index) {
        number = rules.size();
        rules.push_back({{"id", rule}, {"shortDescription", {{"text", meaning(rule)}}}});
    }
    auto results = Json::array();
    for (size_t i = 0; i < diagnostics.all().size(); ++i) {
        const Diagnostic& item = diagnostics.all()[i];
        const analysis::FindingOrigin origin = origin_of(origins, i);
        std::string text = item.message;
        for (const std::string& note : item.notes) text += "\n" + note;
        Json result = {{"ruleId", origin.kind},
                       {"ruleIndex", index.at(origin.kind)},
                       {"level", levels[static_cast<size_t>(item.severity)]},
                       {"message", {{"text", text}}}};
        if (Json location = location_of(item.pos, side_of(item, origin)); !location.empty())
            result["locations"] = Json::array({location});
        if (origin.other)
            result["relatedLocations"] = Json::array({location_of(origin.other->pos, *origin.other)});
        if (Json fields = Json::object(); add_fields(item, origin, fields), !fields.empty())
            result["properties"] = fields;
        results.push_back(result);
    }
    const Json driver = {{"name", "kpusim"}, {"version", KPUSIM_VERSION}, {"rules", rules}};
    const Json run = {
        {"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", results}};
    const Json log = {{"$schema", schema}, {"version", "2.1.0"}, {"runs", Json::array({run})}};
    return log.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kpu::cli
