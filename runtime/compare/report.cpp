// Texts of what changed between two runs and their schedules, for people and as JSON.
#include "runtime/compare/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text_lines.hpp"
#include "traces/report.hpp"

namespace kpu::compare {
namespace {

using Json = nlohmann::ordered_json;
using traces::grouped;

constexpr size_t most_parts = 3;  ///< causes of a row of the text

class Lines : public TextLines {
  public:
    explicit Lines(size_t top) : top_(top) {}
    using TextLines::line;
    using TextLines::lines;

    void rows(const std::vector<PathChange::Row>& rows) {
        for (size_t i = 0; i < std::min(rows.size(), top_); ++i) {
            std::string causes;
            for (size_t p = 0; p < std::min(rows[i].parts.size(), most_parts); ++p)
                causes += fmt::format("{}{} {:+}", p == 0 ? "" : ", ", rows[i].parts[p].cause,
                                      rows[i].parts[p].change());
            if (rows[i].parts.size() > most_parts) causes += ", ...";
            line("  {:<24}{:>12}{:>12}{:>10}  {}", rows[i].op, grouped(rows[i].a), grouped(rows[i].b),
                 fmt::format("{:+}", rows[i].change()), causes);
        }
        more(rows.size());
    }
    void more(size_t total) {
        if (total > top_) line("  ... and {} more: --top, or --json for all", total - top_);
    }

  private:
    const size_t top_;
};

/// Describes a change, with what each program has.
std::string words_of(const ScheduleChange& change) {
    using Change = ScheduleChange::Kind;
    const std::string both = fmt::format("{} in A, {} in B", change.a, change.b);
    const auto tokens = [&](const char* what) {
        const auto one = [](const char* sign, const std::string& names) {
            return names.empty() ? std::string() : fmt::format(" {}{}", sign, names);
        };
        return fmt::format("{}:{}{}", what, one("without ", change.a),
                           (change.a.empty() || change.b.empty() ? "" : ",") + one("with ", change.b));
    };
    switch (change.kind) {
        case Change::missing:
            return fmt::format("only {} has it: {}", change.b.empty() ? "A" : "B", change.a + change.b);
        case Change::order:
            return "order: " + both;
        case Change::wait:
            return tokens("waits for");
        case Change::deps:
            return tokens("deps");
        case Change::carried:
            return tokens("tokens of earlier iterations");
        case Change::region:
        case Change::statement:
            return fmt::format("`{}` in A, `{}` in B", change.a, change.b);
        default:
            return both;
    }
}

Json json_of(const std::vector<PathChange::Row>& rows) {
    Json list = Json::array();
    for (const PathChange::Row& row : rows) {
        Json causes = Json::array();
        for (const PathChange::Part& part : row.parts)
            causes.push_back(
                {{"cause", part.cause}, {"a", part.a}, {"b", part.b}, {"change", part.change()}});
        list.push_back(
            {{"op", row.op}, {"a", row.a}, {"b", row.b}, {"change", row.change()}, {"causes", causes}});
    }
    return list;
}

}  // namespace

std::string text_of(const PathChange& change, size_t top) {
    Lines text(top);
    if (!change.on_path.empty()) {
        text.line("\n{:<26}{:>12}{:>12}{:>10}  {}", "critical path: cycles", "A", "B", "change",
                  "causes, in B against A");
        text.rows(change.on_path);
        text.line(
            "  {:<24}{:>12}{:>12}{:>10}", "all", grouped(change.total_a), grouped(change.total_b),
            fmt::format("{:+}", static_cast<int64_t>(change.total_b) - static_cast<int64_t>(change.total_a)));
    }
    if (!change.off_path.empty()) {
        text.line("\n{:<26}{:>12}{:>12}{:>10}  {}", "off the path: unit-cycles", "A", "B", "change",
                  "no time was lost or won by these");
        text.rows(change.off_path);
    }
    return text.lines();
}

std::string text_of(const std::vector<ScheduleChange>& changes, size_t top) {
    if (changes.empty()) return {};
    Lines text(top);
    text.line("\nschedule: {} operation{} in order, tokens or statements", changes.size(),
              changes.size() == 1 ? " differs" : "s differ");
    for (size_t i = 0; i < std::min(changes.size(), top); ++i) {
        const ScheduleChange& change = changes[i];
        const auto line = [](uint32_t number) {
            return number == 0 ? std::string("-") : std::to_string(number);
        };
        text.line("  {:<24}{}  (lines {}, {}{})",
                  change.task == change.op ? change.op : fmt::format("{}, task {}", change.op, change.task),
                  words_of(change), line(change.line_a), line(change.line_b),
                  change.further == 0 ? "" : fmt::format("; {} more", change.further));
    }
    text.more(changes.size());
    return text.lines();
}

Json json_of(const PathChange& change) {
    return {{"cycles_a", change.total_a},
            {"cycles_b", change.total_b},
            {"on_path", json_of(change.on_path)},
            {"off_path", json_of(change.off_path)}};
}

Json json_of(const std::vector<ScheduleChange>& changes) {
    Json list = Json::array();
    for (const ScheduleChange& change : changes) {
        const auto line = [](uint32_t number) { return number == 0 ? Json() : Json(number); };
        list.push_back({{"op", change.op},
                        {"task", change.task},
                        {"kind", name_of(change.kind)},
                        {"a", change.a},
                        {"b", change.b},
                        {"line_a", line(change.line_a)},
                        {"line_b", line(change.line_b)},
                        {"further", change.further}});
    }
    return list;
}

}  // namespace kpu::compare
