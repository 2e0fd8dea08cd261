#include "analysis/schedule_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "analysis/memory_use.hpp"
#include "analysis/races.hpp"
#include "analysis/waste.hpp"
#include "execution/schedule_order.hpp"
#include "isa/iterations.hpp"

namespace kpu::analysis {
namespace {

void add_findings(std::vector<Finding> found, ScheduleReport& report) {
    for (Finding& finding : found) report.findings.push_back(std::move(finding));
}

constexpr size_t most_merged = 2000;  ///< findings compared with each other

/// Merges what one missing dependency shows at every task before its start and after its end. Only the
/// closest pair is kept, with the number of pairs in its block that its fix orders too.
void merge_implied(const BoundProgram& program, const execution::ScheduleOrder& order,
                   std::vector<Finding>& findings) {
    if (findings.size() > most_merged) return;
    const auto block = [&](uint32_t statement) { return program.statements[statement].parent; };
    std::vector<execution::Escape> ignored;
    const auto reaches = [&](uint32_t from, uint32_t to) {
        return from == to || (from < to && order.always_ordered(from, to, ignored));
    };
    const auto same_block = [&](const Finding& finding, const Finding& other) {
        return finding.fix.kind == Fix::Kind::add_dependency &&
               block(finding.fix.from) == block(other.fix.from) &&
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
        for (size_t near = 0; near < findings.size() && !dropped[far]; ++near)
            dropped[far] = implies(near, far);
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
            findings[i].message +=
                fmt::format("; that orders {} more pair{} of tasks.", implied[i], implied[i] == 1 ? "" : "s");
        }
        kept.push_back(std::move(findings[i]));
    }
    findings = std::move(kept);
}

Finding carries_too_much(const BoundProgram& program, uint32_t loop) {
    Finding finding;
    finding.kind = FindingKind::not_proved;
    finding.statement = finding.other_statement = loop;
    finding.message = fmt::format(
        "not proved: the loop over `{}` carries more tokens than are followed. Fix: reduce its "
        "@max_in_flight, or "
        "carry fewer.",
        program.loops[program.statements[loop].index].variable);
    return finding;
}

FindingOrigin origin_of(const Finding& finding, const BoundProgram& program) {
    FindingOrigin origin;
    const FindingKind kind = finding.kind;
    origin.kind = name_of(kind);
    const bool race = kind == FindingKind::raw || kind == FindingKind::war || kind == FindingKind::waw;
    const bool of_all = kind == FindingKind::unused_buffer || kind == FindingKind::token_limit;
    if (!of_all && finding.statement < program.statements.size()) {
        origin.side = side_of(program, finding.statement, finding.loops);
        if (race || finding.other_statement != finding.statement)
            origin.other = side_of(program, finding.other_statement, finding.other_loops);
    }
    if (finding.buffer < program.buffers.size()) origin.buffer = program.buffers[finding.buffer].name;
    if (race || kind == FindingKind::uninitialised) origin.bytes = {finding.first, finding.last};
    return origin;
}

}  // namespace

std::string_view name_of(FindingKind kind) {
    constexpr std::array<std::string_view, finding_kind_count> names = {
        "raw",           "war",           "waw",         "not-proved",       "uninitialised-read",
        "empty-token",   "deadlock",      "token-limit", "hoistable-reload", "dead-write",
        "unused-buffer", "refused-value", "no-device",   "not-checked"};
    return names[static_cast<size_t>(kind)];
}

std::string_view meaning_of(FindingKind kind) {
    constexpr std::array<std::string_view, finding_kind_count> meanings = {
        "A task reads bytes that another one writes, and nothing orders the two.",
        "A task writes bytes that another one reads, and nothing orders the two.",
        "Two tasks write the same bytes, and nothing orders the two.",
        "Whether two tasks that nothing orders touch the same bytes was not decided within the bounds on "
        "work.",
        "A task reads bytes that no task has written before it.",
        "A task or wait needs the token of a loop without iterations, which orders nothing.",
        "Waiting tasks can fill the token table while those that they wait for get no entry.",
        "More tasks are in flight than the token table holds, so that issue waits for entries.",
        "A loop brings the same bytes to the same place in every iteration.",
        "Nothing reads what a task writes.",
        "No task touches a buffer.",
        "For a value in the range of a parameter the program is refused.",
        "No device is known: capacities, units, opcodes, types and the token table are not checked.",
        "A check was left out."};
    return meanings[static_cast<size_t>(kind)];
}

ScheduleReport check_schedule(const BoundProgram& program, const DeviceLimits& limits,
                              const FollowBounds& bounds) {
    ScheduleReport report;
    if (program.tasks.empty()) return report;
    using Order = execution::ScheduleOrder;
    if (const size_t tasks = Order::tasks_in_loops(program); tasks > Order::max_tasks) {
        Finding finding;
        finding.kind = FindingKind::not_proved;
        finding.message = fmt::format(
            "not proved: the loops of the schedule have {} tasks in their text, and the order of more than "
            "{} is not followed. Fix: write the repetition as loops.",
            tasks, Order::max_tasks);
        finding.statement = UINT32_MAX;  // about none of them
        report.findings.push_back(std::move(finding));
        return report;
    }
    const Order order(program, execution::loop_facts(program));
    if (order.loop_too_large() != nullptr) {
        report.findings.push_back(carries_too_much(program, *order.loop_too_large()));
        return report;
    }
    std::vector<Finding> races = find_races(program, order);
    merge_implied(program, order, races);
    MemoryReport memory = follow_memory(program, races, bounds);
    report.memory = std::move(memory.use);
    add_findings(std::move(races), report);
    add_findings(std::move(memory.findings), report);
    add_findings(find_empty_tokens(program), report);
    add_findings(find_table_deadlocks(program, limits, bounds.table_trials), report);
    report.peak_tokens = peak_tokens(program, limits, bounds.table_trials);
    add_findings(find_token_limits(report.peak_tokens, limits), report);
    add_findings(find_hoistable_reloads(program), report);
    add_findings(find_unused_buffers(program), report);
    report.keep_listed();
    return report;
}

SourcePos place_of(const Finding& finding, const BoundProgram& program) {
    const std::string file = program.module ? program.module->origin : std::string();
    if (finding.kind == FindingKind::unused_buffer && program.module)
        return program.module->pos_of_buffer(finding.buffer);
    SourcePos pos = program.pos_of(finding.statement);
    if (pos.file.empty()) pos.file = file;
    return pos;
}

FindingSide side_of(const BoundProgram& program, uint32_t statement, const LoopValues& loops) {
    FindingSide side;
    side.pos = program.pos_of(statement);
    side.pos.statement = statement;
    const BoundStatement& bound = program.statements[statement];
    if (bound.kind == BoundStatement::Kind::task) side.task = program.tasks[bound.index].name;
    side.iteration = iteration_of(program, statement, loops);
    return side;
}

void add_to(const ScheduleReport& report, const BoundProgram& program, Diagnostics& diagnostics,
            FindingOrigins* origins) {
    for (const Finding& finding : report.findings) {
        if (origins != nullptr) (*origins)[diagnostics.all().size()] = origin_of(finding, program);
        diagnostics.add({finding.severity, finding.message, place_of(finding, program), finding.notes});
    }
    if (report.unlisted > 0) {
        const std::string file = program.module ? program.module->origin : std::string();
        diagnostics.info({file, 0, 0}, fmt::format("{} more findings are not listed", report.unlisted));
    }
}

}  // namespace kpu::analysis
