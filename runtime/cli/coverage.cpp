#include "runtime/cli/coverage.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "isa/opcodes.hpp"

namespace kpu::cli {
namespace {

/// Types and units of an operation's tasks.
struct Work {
    std::string types, units;
};

std::string types_of(const BoundProgram& program, const BoundTask& task) {
    std::vector<std::string_view> types;
    for (const uint32_t input : task.inputs) types.push_back(name_of(program.regions[input].elem));
    if (task.macs > 0) types.resize(std::min<size_t>(types.size(), 2));  // the factors
    return fmt::format("{} to {}", fmt::join(types, ", "), name_of(program.regions[task.outputs[0]].elem));
}

/// Types are those of the task with most products, else of the first that computes.
Work work_of(const BoundProgram& program, const std::vector<const BoundTask*>& tasks) {
    Work work;
    std::vector<std::string> units;
    const BoundTask* main = nullptr;
    for (const BoundTask* task : tasks) {
        if (!task->computes() && !task->launches()) continue;
        std::string phrase(row_of(task->unit).phrase);
        if (task->launches()) phrase += fmt::format(" (kernel {})", task->launch->code->name());
        if (std::find(units.begin(), units.end(), phrase) == units.end()) units.push_back(std::move(phrase));
        if (main == nullptr || task->macs > main->macs) main = task;
    }
    if (main == nullptr) return {"", "data movement only"};
    work.types = types_of(program, *main);
    work.units = fmt::format("{}", fmt::join(units, ", "));
    return work;
}

std::map<std::string, Work> works_of(const BoundProgram& program) {
    std::map<std::string, std::vector<const BoundTask*>> tasks;
    for (const BoundTask& task : program.tasks) {
        if (task.op < program.ops.size()) tasks[program.ops[task.op].id].push_back(&task);
    }
    std::map<std::string, Work> works;
    for (const auto& [name, list] : tasks) works.emplace(name, work_of(program, list));
    for (const proto::Op& op : program.module->program.op()) {
        for (const std::string& fused : op.fused_with())
            works.emplace(fused, Work{"", fmt::format("within {}", op.id())});
    }
    return works;
}

}  // namespace

std::string coverage_text(const std::vector<compiler::NodeSupport>& nodes, const BoundProgram* program) {
    const std::map<std::string, Work> works =
        program != nullptr ? works_of(*program) : std::map<std::string, Work>();
    std::string lines;
    size_t supported = 0;
    for (const compiler::NodeSupport& node : nodes) {
        std::string types, where;
        supported += node.reason.empty() ? 1 : 0;
        if (!node.reason.empty()) {
            where = "not supported: " + node.reason;
        } else if (program == nullptr) {
            where = "supported";
        } else if (const auto work = works.find(node.name); work != works.end()) {
            types = work->second.types;
            where = work->second.units;
        } else {
            where = "no work left: folded into constants, or only renames bytes";
        }
        lines += fmt::format("{:<32} {:<20} {:<18} {}\n", node.name, node.type, types, where);
    }
    return fmt::format("{} of {} nodes are supported\n{:<32} {:<20} {:<18} {}\n", supported, nodes.size(),
                       "node", "type", "numbers", "runs on") +
           lines;
}

}  // namespace kpu::cli
