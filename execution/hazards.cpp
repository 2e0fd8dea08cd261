#include "execution/hazards.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "execution/describe.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::execution {
namespace {

std::string sides_text(const HazardFinding& f, const std::string& bytes) {
    switch (f.kind) {
        case HazardKind::raw:
            return fmt::format("{} reads {}, which {} writes; nothing orders the two", f.task, bytes,
                               f.other_task);
        case HazardKind::war:
            return fmt::format("{} writes {}, which {} reads; nothing orders the two", f.task, bytes,
                               f.other_task);
        case HazardKind::waw:
            return fmt::format("{} writes {}, which {} writes too; nothing orders the two", f.task, bytes,
                               f.other_task);
        case HazardKind::stale:
            return fmt::format(
                "{} writes {} after {}, which comes after it in the text, has read what was "
                "there before; nothing orders the two",
                f.task, bytes, f.other_task);
        case HazardKind::unwritten:
            return fmt::format("{} reads {}, which nobody wrote", f.task, bytes);
        case HazardKind::kernel:
            return fmt::format("{}: {}", f.task, f.statements);
    }
    return {};
}

/// Returns the level of a buffer of the kernel that a task launches.
Level level_of(const BoundProgram& program, const BoundTask& task, uint32_t buffer) {
    const kernel::Code& code = *task.launch->code;
    if (code.buffers[buffer].is_workgroup()) return Level::l1;
    const auto operand = std::count_if(code.buffers.begin(), code.buffers.begin() + buffer,
                                       [](const kernel::CodeBuffer& one) { return !one.is_workgroup(); });
    const BoundLaunch::Operand& bound = task.launch->operands[static_cast<size_t>(operand)];
    const uint32_t region = bound.input >= 0 ? task.inputs[static_cast<size_t>(bound.input)]
                                             : task.outputs[static_cast<size_t>(bound.output)];
    return program.regions[region].level;
}

std::string_view fix_of(const HazardFinding& f) {
    switch (f.kind) {
        case HazardKind::kernel:
            return f.fix;
        case HazardKind::unwritten:
            return "wait for the task that writes them, or give the buffer an input";
        default:
            return "order the two tasks with deps, or reduce max_in_flight";
    }
}

}  // namespace

std::string_view name_of(HazardKind kind) {
    constexpr std::array<std::string_view, hazard_kind_count> names = {"raw",       "war",   "waw",
                                                                       "unwritten", "stale", "kernel"};
    return names[static_cast<size_t>(kind)];
}

std::string_view meaning_of(HazardKind kind) {
    constexpr std::array<std::string_view, hazard_kind_count> meanings = {
        "reads of what another task writes, unordered",
        "writes of what another task reads, unordered",
        "writes of what another task writes, unordered",
        "reads of bytes that nobody wrote",
        "reads that came before the write that the text has before them, unordered",
        "accesses inside a kernel that nothing orders, or to what a copy in flight reads or changes"};
    return meanings[static_cast<size_t>(kind)];
}

std::string to_string(const HazardFinding& f) {
    const std::string where =
        f.level == Level::l1 ? fmt::format("L1[{}]", f.engine) : std::string(name_of(f.level));
    const std::string bytes = fmt::format("bytes {}..{} of {} buffer `{}`", f.first, f.last, where, f.buffer);
    std::string text = fmt::format("hazard ({}): {}", name_of(f.kind), sides_text(f, bytes));
    if (f.count > 1) text += fmt::format("; {} times", f.count);
    if (f.benign == f.count) return text + "; benign: the same bytes were there already.";
    if (f.benign > 0) text += fmt::format("; {} of them benign (same bytes)", f.benign);
    return fmt::format("{}. Fix: {}.", text, fix_of(f));
}

size_t HazardLog::add(const BoundProgram& program, HazardKind kind, const HazardSide& task,
                      const HazardSide* other, const BoundRegion& region, uint64_t first_address,
                      uint64_t last_address) {
    ++total_;
    ++counts_[static_cast<size_t>(kind)];
    const uint32_t other_statement = other ? other->statement : task.statement;
    const auto key = std::make_tuple(kind, task.statement, other_statement);
    if (const auto it = index_.find(key); it != index_.end()) {
        ++findings_[it->second].count;
        return it->second;
    }
    if (findings_.size() >= max_findings) return not_listed;
    const BoundBuffer& buffer = program.buffers[region.buffer];
    HazardFinding finding;
    finding.kind = kind;
    finding.statement = task.statement;
    finding.other_statement = other_statement;
    finding.pos = program.pos_of(task.statement);
    if (other) finding.other_pos = program.pos_of(other_statement);
    finding.loops = task.loops;
    finding.task = statement_text(program, task.statement, task.loops);
    if (other) {
        finding.other_loops = other->loops;
        finding.other_task = statement_text(program, other->statement, other->loops);
    }
    finding.buffer = buffer.name;
    finding.level = region.level;
    finding.engine = region.engine;
    finding.first = first_address - buffer.base;
    finding.last = last_address - buffer.base;
    finding.count = 1;
    findings_.push_back(std::move(finding));
    index_.emplace(key, findings_.size() - 1);
    return findings_.size() - 1;
}

void HazardLog::add_kernel(const BoundProgram& program, const HazardSide& task,
                           const values::kernel::LaunchResult& launch,
                           const values::kernel::KernelRace& race) {
    total_ += race.count;
    counts_[static_cast<size_t>(HazardKind::kernel)] += race.count;
    const auto [at, inserted] = kernel_index_.try_emplace(
        std::make_tuple(task.statement, race.statement, race.other), findings_.size());
    if (!inserted) {
        if (at->second != not_listed) findings_[at->second].count += race.count;
        return;
    }
    if (findings_.size() >= max_findings) {
        at->second = not_listed;
        return;
    }
    const BoundTask& bound = program.tasks[program.statements[task.statement].index];
    const kernel::Code& code = *bound.launch->code;
    const values::kernel::RaceText text = values::kernel::race_text(code, launch.grid, race);
    HazardFinding finding;
    finding.kind = HazardKind::kernel;
    finding.statement = finding.other_statement = task.statement;
    finding.pos = program.pos_of(task.statement);
    finding.loops = task.loops;
    finding.task = statement_text(program, task.statement, task.loops);
    finding.buffer = code.buffers[race.buffer].name;
    finding.level = level_of(program, bound, race.buffer);
    finding.engine = static_cast<uint16_t>(std::max(bound.engine, 0));
    const uint64_t bytes = std::max<uint64_t>(storage_bits(code.buffers[race.buffer].type) / 8, 1);
    finding.first = race.element * bytes;
    finding.last = finding.first + bytes - 1;
    finding.count = race.count;
    finding.statements = text.sentence;
    finding.fix = text.fix;
    findings_.push_back(std::move(finding));
}

void HazardLog::mark_benign(size_t finding) {
    ++benign_;
    if (finding != not_listed) ++findings_[finding].benign;
}

}  // namespace kpu::execution
