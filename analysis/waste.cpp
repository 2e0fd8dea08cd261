#include "analysis/waste.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/describe.hpp"
#include "isa/expr.hpp"
#include "isa/footprint.hpp"
#include "isa/iterations.hpp"

namespace kpu::analysis {
namespace {

using Kind = BoundStatement::Kind;

Finding note(FindingKind kind, uint32_t statement, std::string message) {
    Finding finding;
    finding.kind = kind;
    finding.severity = Severity::info;
    finding.statement = finding.other_statement = statement;
    finding.message = std::move(message);
    return finding;
}

bool uses_loop(const BoundExpr& expr, uint16_t depth) {
    for (size_t t = 0; t < expr.kinds.size(); ++t) {
        if (expr.kinds[t] == proto::ExprToken::LOOP && expr.values[t] == depth) return true;
    }
    return false;
}

/// Returns the bytes of its level that a region may touch in any iteration; everything when that cannot be
/// bounded.
Interval reach_of(const BoundProgram& program, uint32_t statement, const BoundRegion& region) {
    const BoundBuffer& buffer = program.buffers[region.buffer];
    const Interval whole{static_cast<int64_t>(buffer.base), static_cast<int64_t>(buffer.base + buffer.size)};
    const auto ranges = loop_ranges(program, statement);
    if (!ranges) return whole;
    if (!ranges->empty() && ranges->back().lo > ranges->back().hi)
        return {whole.lo, whole.lo};  // never executed
    const auto address = bound_of(region.address, *ranges);
    if (!address || address->hi > whole.hi) return whole;
    return {address->lo, address->hi + static_cast<int64_t>(footprint_of(region, 0).end())};
}

bool may_meet(const BoundProgram& program, uint32_t s, uint32_t region, uint32_t t, uint32_t other) {
    const BoundRegion &x = program.regions[region], &y = program.regions[other];
    if (x.buffer != y.buffer) return false;
    const Interval a = reach_of(program, s, x), b = reach_of(program, t, y);
    return a.lo < b.hi && b.lo < a.hi;
}

/// True if any other task of the loop may write what the transfer reads or writes.
bool changes_in_loop(const BoundProgram& program, uint32_t transfer, uint32_t loop_statement) {
    const BoundTask& task = program.tasks[program.statements[transfer].index];
    const uint32_t end = program.loops[program.statements[loop_statement].index].body_end;
    for (uint32_t s = loop_statement + 1; s < end; ++s) {
        if (s == transfer || program.statements[s].kind != Kind::task) continue;
        for (const uint32_t output : program.tasks[program.statements[s].index].outputs) {
            if (may_meet(program, transfer, task.inputs[0], s, output) ||
                may_meet(program, transfer, task.outputs[0], s, output))
                return true;
        }
    }
    return false;
}

}  // namespace

std::vector<Finding> find_unused_buffers(const BoundProgram& program) {
    std::vector<bool> used(program.buffers.size(), false);
    for (const BoundTask& task : program.tasks) {
        for (const auto* operands : {&task.inputs, &task.outputs})
            for (const uint32_t region : *operands) used[program.regions[region].buffer] = true;
    }
    std::vector<Finding> findings;
    for (uint32_t b = 0; b < used.size(); ++b) {
        if (used[b]) continue;
        Finding finding = note(
            FindingKind::unused_buffer, 0,
            fmt::format("unused buffer: no task reads or writes `{}`, which takes {} bytes. Fix: remove it.",
                        program.buffers[b].name, program.buffers[b].size));
        finding.buffer = b;
        findings.push_back(std::move(finding));
    }
    return findings;
}

std::vector<Finding> find_hoistable_reloads(const BoundProgram& program) {
    std::vector<Finding> findings;
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        const BoundStatement& statement = program.statements[s];
        if (statement.kind != Kind::task || statement.parent < 0) continue;
        const BoundTask& task = program.tasks[statement.index];
        if (!task.moves() || task.stores()) continue;
        const auto around = static_cast<uint32_t>(statement.parent);
        const BoundLoop& loop = program.loops[program.statements[around].index];
        if (loop.first.is_constant() && loop.last.is_constant() && loop.first.constant >= loop.last.constant)
            continue;  // one iteration at most
        const BoundRegion &src = program.regions[task.inputs[0]], &dst = program.regions[task.outputs[0]];
        if (uses_loop(src.address, loop.depth) || uses_loop(dst.address, loop.depth)) continue;
        if (changes_in_loop(program, s, around)) continue;
        Finding finding =
            note(FindingKind::hoistable_reload, s,
                 fmt::format(
                     "hoistable reload: task `{}` brings the same bytes to the same place of buffer `{}` in "
                     "every iteration of the loop over `{}`. Fix: move it before the loop.",
                     task.name, program.buffers[dst.buffer].name, loop.variable));
        finding.buffer = dst.buffer;
        findings.push_back(std::move(finding));
    }
    return findings;
}

std::vector<Finding> find_empty_tokens(const BoundProgram& program) {
    std::vector<Finding> findings;
    std::set<uint32_t> empty;  // statements inside loops without iterations
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != Kind::loop) continue;
        const BoundLoop& loop = program.loops[program.statements[s].index];
        if (!loop.first.is_constant() || !loop.last.is_constant() ||
            loop.first.constant <= loop.last.constant)
            continue;
        if (program.module &&
            follows_parameter(program.module->program.statement(static_cast<int>(s)).loop()))
            continue;
        for (uint32_t inside = s + 1; inside < loop.body_end; ++inside) empty.insert(inside);
    }
    if (empty.empty()) return findings;
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        const BoundStatement& statement = program.statements[s];
        if (empty.count(s) != 0) continue;
        const bool waits = statement.kind == Kind::wait;
        if (!waits && statement.kind != Kind::task) continue;
        for (const uint32_t dep :
             waits ? program.waits[statement.index] : program.tasks[statement.index].deps) {
            if (empty.count(dep) == 0) continue;
            Finding finding = note(
                FindingKind::empty_token, s,
                fmt::format(
                    "token of a loop that never runs: `{}` is satisfied at once and orders nothing. Fix: "
                    "check the bounds of its loop.",
                    program.tasks[program.statements[dep].index].name));
            finding.severity = Severity::warning;
            finding.other_statement = dep;
            findings.push_back(std::move(finding));
        }
    }
    return findings;
}

}  // namespace kpu::analysis
