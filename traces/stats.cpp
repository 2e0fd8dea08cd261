#include "traces/stats.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/append_format.hpp"
#include "base/diagnostics.hpp"
#include "base/json.hpp"

namespace kpu::traces {

namespace {

const Stat& at(const std::map<std::string, Stat, std::less<>>& stats, std::string_view key) {
    const auto it = stats.find(key);
    if (it == stats.end()) throw InternalError(fmt::format("no statistic `{}`", key));
    return it->second;
}

}  // namespace

std::string real_text(double value) {
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

void StatSet::set(std::string_view key, uint64_t value, std::string_view unit, std::string_view meaning) {
    stats_.insert_or_assign(std::string(key), Stat{value, std::string(unit), std::string(meaning)});
}

void StatSet::set(std::string_view key, double value, std::string_view unit, std::string_view meaning) {
    if (!std::isfinite(value)) throw InternalError(fmt::format("statistic `{}` is not finite", key));
    stats_.insert_or_assign(std::string(key), Stat{value, std::string(unit), std::string(meaning)});
}

bool StatSet::contains(std::string_view key) const { return stats_.find(key) != stats_.end(); }

uint64_t StatSet::integer(std::string_view key) const {
    const Stat& stat = at(stats_, key);
    if (const auto* value = std::get_if<uint64_t>(&stat.value)) return *value;
    throw InternalError(fmt::format("statistic `{}` is not an integer", key));
}

double StatSet::real(std::string_view key) const {
    const Stat& stat = at(stats_, key);
    if (const auto* value = std::get_if<uint64_t>(&stat.value)) return static_cast<double>(*value);
    return std::get<double>(stat.value);
}

namespace {

[[noreturn]] void refuse_statistics(const std::string& origin, std::string_view why) {
    throw UserError(
        fmt::format("{}: not the statistics of a run: {}. Fix: give the stats.json or the folder of "
                    "`kpusim run -o`.",
                    origin, why));
}

}  // namespace

std::pair<StatSet, bool> StatSet::from_json(std::string_view text, const std::string& origin) {
    using nlohmann::json;
    try {
        const json document = parse_json(text);
        if (document.at("schema") != 1) throw UserError("its schema is not 1");
        std::pair<StatSet, bool> result;
        document.at("complete").get_to(result.second);
        for (const auto& [key, row] : document.at("stats").items()) {
            const json& value = row.at("value");
            if (!value.is_number()) throw UserError(fmt::format("`{}` is not a number", key));
            const auto unit = row.at("unit").get<std::string>(),
                       meaning = row.at("meaning").get<std::string>();
            if (value.is_number_unsigned()) {
                result.first.set(key, value.get<uint64_t>(), unit, meaning);
            } else {
                result.first.set(key, value.get<double>(), unit, meaning);
            }
        }
        return result;
    } catch (const UserError& error) {
        refuse_statistics(origin, error.what());
    } catch (const json::exception&) {
        refuse_statistics(origin, "a member is missing or of another type");
    }
}

std::string StatSet::to_json(bool complete) const {
    fmt::memory_buffer out;
    append_format(out, "{{\n\"schema\": 1,\n\"complete\": {},\n\"stats\": {{", complete);
    const char* separator = "\n";
    for (const auto& [key, stat] : stats_) {
        const auto* integer = std::get_if<uint64_t>(&stat.value);
        append_format(
            out, "{}{}: {{\"value\": {}, \"unit\": {}, \"meaning\": {}}}", separator, json_quoted(key),
            integer != nullptr ? fmt::format("{}", *integer) : real_text(std::get<double>(stat.value)),
            json_quoted(stat.unit), json_quoted(stat.meaning));
        separator = ",\n";
    }
    append_format(out, "\n}}\n}}\n");
    return fmt::to_string(out);
}

}  // namespace kpu::traces
