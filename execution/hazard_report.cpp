#include "execution/hazard_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kpu::execution {
namespace {

/// Returns "7:1", of another file than `named` "net.py:7:1".
std::string place_of(const SourcePos& pos, const std::string& named) {
    if (pos.line == 0) return "a task without a place";
    return fmt::format("{}{}:{}", pos.file == named ? "" : pos.file + ":", pos.line, pos.column);
}

std::string buffer_of(const HazardFinding& finding) {
    const std::string level = finding.level == Level::l1 ? fmt::format("L1[{}]", finding.engine)
                                                         : std::string(name_of(finding.level));
    return fmt::format("{} buffer `{}`", level, finding.buffer);
}

bool same_buffer(const HazardFinding& a, const HazardFinding& b) {
    return a.level == b.level && a.engine == b.engine && a.buffer == b.buffer;
}

}  // namespace

std::vector<HazardCause> causes_of(const HazardLog& log) {
    const std::vector<HazardFinding>& findings = log.findings();
    std::vector<HazardCause> causes;
    for (size_t i = 0; i < findings.size(); ++i) {
        auto cause = std::find_if(causes.begin(), causes.end(), [&](const HazardCause& known) {
            return same_buffer(findings[known.findings.front()], findings[i]);
        });
        if (cause == causes.end()) cause = causes.insert(cause, HazardCause{});
        cause->findings.push_back(i);
        cause->count += findings[i].count;
    }
    return causes;
}

std::string to_string(const HazardLog& log, const HazardCause& cause) {
    constexpr size_t most = 4;
    const std::vector<HazardFinding>& findings = log.findings();
    const HazardFinding& first = findings[cause.findings.front()];
    std::string text = to_string(first);
    const size_t others = cause.findings.size() - 1;
    if (others == 0) return text;
    const std::string& file = first.pos.file;  // stands in what was said of the first
    std::vector<std::string> pairs;
    for (size_t i = 1; i <= std::min(others, most); ++i) {
        const HazardFinding& finding = findings[cause.findings[i]];
        std::string pair = fmt::format("{} {}", name_of(finding.kind), place_of(finding.pos, file));
        if (!finding.other_task.empty()) pair += " and " + place_of(finding.other_pos, file);
        pairs.push_back(std::move(pair));
    }
    if (others > most) pairs.push_back(fmt::format("{} more", others - most));
    return text + fmt::format("\n    also in this buffer, {} times: {}", cause.count - first.count,
                              fmt::join(pairs, ", "));
}

std::string summary(const HazardLog& log) {
    std::vector<std::string> kinds;
    for (int k = 0; k < hazard_kind_count; ++k) {
        const auto kind = static_cast<HazardKind>(k);
        if (log.count(kind) > 0) kinds.push_back(fmt::format("{} {}", name_of(kind), log.count(kind)));
    }
    std::string text =
        fmt::format("{} hazard{} ({})", log.count(), log.count() == 1 ? "" : "s", fmt::join(kinds, ", "));
    if (log.findings().empty()) return text;
    const HazardFinding& first = log.findings().front();
    const size_t causes = causes_of(log).size();
    text += fmt::format(" in {}", buffer_of(first));
    if (causes > 1) text += fmt::format(" and {} more", causes - 1);
    if (first.pos.line == 0 && !first.statements.empty()) text += ", first: " + first.statements;
    if (first.pos.line > 0)
        text += fmt::format(", first at {}:{}", first.pos.file, place_of(first.pos, first.pos.file));
    return text + (log.benign() == log.count() ? ": this time the same bytes were there already"
                                               : ": results may be wrong");
}

}  // namespace kpu::execution
