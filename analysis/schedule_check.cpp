#include "analysis/schedule_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/races.hpp"
#include "analysis/schedule_order.hpp"

namespace kpu::analysis {
namespace {

void add_findings(std::vector<Finding> found, ScheduleReport& report) {
    for (Finding& finding : found) report.findings.push_back(std::move(finding));
}

constexpr size_t most_merged = 2000;  ///< findings compared with each other

/// A missing dependency shows at every task before its start and after its end. Only the closest pair is kept,
/// with the number of pairs in its block that its fix orders too.
void merge_implied(const BoundProgram& program, const ScheduleOrder& order, std::vector<Finding>& findings) {
    if (findings.size() > most_merged) return;
    const auto block = [&](uint32_t statement) { return program.statements[statement].parent; };
    std::vector<Escape> ignored;
    const auto reaches = [&](uint32_t from, uint32_t to) {
        return from == to || (from < to && order.always_ordered(from, to, ignored));
    };
    const auto same_block = [&](const Finding& finding, const Finding& other) {
        return finding.fix.kind == Fix::Kind::add_dependency && block(finding.fix.from) == block(other.fix.from) &&
               block(finding.fix.to) == block(other.fix.from);
    };
    const auto implies = [&](size_t near, size_t far) {
        const Fix &x = findings[near].fix, &y = findings[far].fix;
        return near != far && same_block(findings[near], findings[far]) && reaches(y.from, x.from) &&
               reaches(x.to, y.to);
    };
    std::vector<uint64_t> implied(findings.size(), 0);
    std::vector<bool> dropped(findings.size(), false);
    for (size_t far = 0; far < findings.size(); ++far) {
        if (!same_block(findings[far], findings[far])) continue;
        for (size_t near = 0; near < findings.size() && !dropped[far]; ++near) dropped[far] = implies(near, far);
    }
    for (size_t far = 0; far < findings.size(); ++far) {
        if (!dropped[far]) continue;
        for (size_t near = 0; near < findings.size(); ++near) {
            if (dropped[near] || !implies(near, far)) continue;
            ++implied[near];
            break;
        }
    }
    std::vector<Finding> kept;
    for (size_t i = 0; i < findings.size(); ++i) {
        if (dropped[i]) continue;
        if (implied[i] > 0) {
            findings[i].message.pop_back();  // the full stop
            findings[i].message += fmt::format("; that orders {} more pair{} of tasks.", implied[i],
                                               implied[i] == 1 ? "" : "s");
        }
        kept.push_back(std::move(findings[i]));
    }
    findings = std::move(kept);
}

SourcePos pos_of(const BoundProgram& program, uint32_t statement) {
    if (statement < program.positions.size()) return program.positions[statement];
    return {program.module ? program.module->origin : "", 0, 0};
}

}  // namespace

std::string_view name_of(FindingKind kind) {
    constexpr std::array<std::string_view, 4> names = {"raw", "war", "waw", "not-proved"};
    return names[static_cast<size_t>(kind)];
}

ScheduleReport check_schedule(const BoundProgram& program) {
    ScheduleReport report;
    if (program.tasks.empty()) return report;
    if (program.tasks.size() > ScheduleOrder::max_tasks) {
        Finding finding;
        finding.kind = FindingKind::not_proved;
        finding.message = fmt::format(
            "not proved: the schedule has {} tasks in its text, and the order of more than {} is not "
            "followed. Fix: write the repetition as loops.",
            program.tasks.size(), ScheduleOrder::max_tasks);
        report.findings.push_back(std::move(finding));
        return report;
    }
    const ScheduleOrder order(program, loop_facts(program));
    std::vector<Finding> races = find_races(program, order);
    merge_implied(program, order, races);
    add_findings(std::move(races), report);
    if (report.findings.size() > ScheduleReport::max_findings) {
        report.unlisted = report.findings.size() - ScheduleReport::max_findings;
        report.findings.resize(ScheduleReport::max_findings);
    }
    return report;
}

void add_to(const ScheduleReport& report, const BoundProgram& program, Diagnostics& diagnostics) {
    for (const Finding& finding : report.findings) {
        diagnostics.add({finding.severity, finding.message, pos_of(program, finding.statement), {}});
    }
    if (report.unlisted > 0) {
        const std::string file = program.module ? program.module->origin : std::string();
        diagnostics.info({file, 0, 0}, fmt::format("{} more findings are not listed", report.unlisted));
    }
}

}  // namespace kpu::analysis
