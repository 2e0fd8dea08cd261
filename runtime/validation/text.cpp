#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "runtime/validation/validate.hpp"

namespace kpu::validation {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }
std::string rank_text(double rank) { return std::isnan(rank) ? "-" : fmt::format("{:.3f}", rank); }

std::string causes_text(const Causes& causes) {
    return fmt::format("useful {}, fill {}, padding {}, stalled {}{}", percent(causes.useful),
                       percent(causes.fill_drain), percent(causes.padding), percent(causes.stalled),
                       causes.largest.empty() ? "" : fmt::format(" ({})", causes.largest));
}

std::string remark_of(const ComparedRow& row) {
    std::string remark = row.measured.not_counted.empty() ? "" : "not counted: " + row.measured.not_counted;
    if (row.simulated && row.measured.tiles.total > 0 && row.measured.tiles.total != row.tiles)
        remark += fmt::format("{}{} tiles instead of {}", remark.empty() ? "" : "; ", row.tiles,
                              row.measured.tiles.total);
    const auto add = [&](const std::string& text) { remark += (remark.empty() ? "" : "; ") + text; };
    if (!row.measured.in_total) add("counts in its class alone");
    if (!row.measured.unknown.empty()) add("unknown: " + row.measured.unknown);
    for (const auto& [name, value] : row.measured.others) add(fmt::format("{}: {:.6g}", name, value));
    if (row.dram_megabytes)
        add(fmt::format("simulated, uncompressed: {:.4g} MB of DRAM", *row.dram_megabytes));
    return remark;
}

nlohmann::ordered_json number(double value) {
    return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

}  // namespace

std::string text_of(const std::vector<ComparedRow>& rows) {
    std::string text =
        fmt::format("{:<27} {:<15} {:>12}{:>9}{:>12}{:>10}{:>12}  {}\n", "row", "class", "measured", "noise",
                    "simulated", "error", "own choice", "of the array's cycles; remarks");
    for (const ComparedRow& row : rows) {
        const MeasuredRow& m = row.measured;
        std::string remark = remark_of(row);
        if (!row.own_failed.empty())
            remark += fmt::format("{}no own choice: {}", remark.empty() ? "" : "; ", row.own_failed);
        text += fmt::format(
            "{:<27} {:<15} {:>12.0f}{:>9}{:>12}{:>10}{:>12}  {}{}\n", m.name(), name_of(m.layer_class),
            m.cycles, percent(m.noise()), row.simulated ? fmt::format("{:.0f}", *row.simulated) : "-",
            row.simulated ? signed_percent(row.error()) : "-",
            row.own ? fmt::format("{:.0f}", *row.own) : "-", row.simulated ? causes_text(row.causes) : "",
            remark.empty() ? "" : (row.simulated ? "; " : "") + remark);
    }
    text += fmt::format("\n{:<23} {:>6}{:>10}{:>10}{:>10}{:>13}{:>18}\n", "class", "rows", "median", "mean",
                        "p90", "signed mean", "rank correlation");
    const std::vector<Summary> summaries = summaries_of(rows);
    for (const Summary& s : summaries)
        text +=
            fmt::format("{:<23} {:>6}{:>10}{:>10}{:>10}{:>13}{:>18}\n", s.name, s.rows, percent(s.median),
                        percent(s.mean), percent(s.p90), signed_percent(s.signed_mean), rank_text(s.rank));
    if (const PairOrder order = pair_order_of(rows); order.pairs > 0)
        text += fmt::format(
            "\n{} of {} pairs of mappings of one layer that differ by over 10 % are ordered as measured\n",
            order.right, order.pairs);
    const Summary& all = summaries.back();
    return text + fmt::format("\n{} rows: |error| median {}, mean {}, p90 {}, rank correlation {}\n",
                              all.rows, percent(all.median), percent(all.mean), percent(all.p90),
                              rank_text(all.rank));
}

std::string json_of(const std::vector<ComparedRow>& rows, const std::string& platform) {
    using Json = nlohmann::ordered_json;
    Json list = Json::array(), classes = Json::array();
    for (const ComparedRow& row : rows) {
        const MeasuredRow& m = row.measured;
        Json one{{"line", m.line},          {"row", m.name()},    {"class", name_of(m.layer_class)},
                 {"measured", m.cycles},    {"noise", m.noise()}, {"counted", row.counted()},
                 {"remark", remark_of(row)}};
        if (row.simulated) {
            one["simulated"] = *row.simulated;
            one["error"] = row.error();
            one["tiles"] = row.tiles;
            one["causes"] = {{"useful", row.causes.useful},
                             {"fill_drain", row.causes.fill_drain},
                             {"padding", row.causes.padding},
                             {"stalled", row.causes.stalled},
                             {"largest_stall", row.causes.largest}};
        }
        if (row.dram_megabytes) one["dram_megabytes"] = *row.dram_megabytes;
        if (!m.unknown.empty()) one["unknown"] = m.unknown;
        for (const auto& [name, value] : m.others) one["others"][name] = value;
        if (row.own) one["own_choice"] = *row.own;
        if (!row.own_failed.empty()) one["own_choice_failed"] = row.own_failed;
        list.push_back(std::move(one));
    }
    for (const Summary& s : summaries_of(rows))
        classes.push_back(Json{{"class", s.name},
                               {"rows", s.rows},
                               {"median", s.median},
                               {"mean", s.mean},
                               {"p90", s.p90},
                               {"signed_mean", s.signed_mean},
                               {"rank_correlation", number(s.rank)}});
    const PairOrder order = pair_order_of(rows);
    return json_text(Json{{"platform", platform},
                          {"rows", std::move(list)},
                          {"classes", std::move(classes)},
                          {"pairs", {{"all", order.pairs}, {"ordered_as_measured", order.right}}}},
                     1) +
           "\n";
}

}  // namespace kpu::validation
