#include "model/accounting/kernel_profile.hpp"

namespace kpu::model {

void KernelProfile::add(const TaskCommand& command) {
    const std::vector<StatementCost>& from = command.report.statements;
    if (from.empty()) return;
    std::vector<StatementCost>& sums = costs_[command.task->statement];
    sums.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) {
        sums[i].executions += from[i].executions;
        sums[i].lanes += from[i].lanes;
        sums[i].busy += from[i].busy;
        sums[i].stalled += from[i].stalled;
    }
}

std::vector<traces::KernelRow> KernelProfile::rows() const {
    std::vector<traces::KernelRow> rows;
    for (const auto& [statement, costs] : costs_) {
        const BoundTask& task = program_.tasks[program_.statements[statement].index];
        const kernel::Code& code = *task.launch->code;
        for (uint32_t s = 0; s < costs.size(); ++s) {
            if (costs[s].executions == 0) continue;
            traces::KernelRow row;
            row.task = task.name;
            row.kernel = code.name();
            row.region = code.region_of(s);
            if (s < code.places.size()) row.line = code.places[s].line;
            row.statement = kernel::statement_text(code.body->statement(static_cast<int>(s)));
            row.executions = costs[s].executions;
            row.lanes = costs[s].lanes;
            row.busy_cycles = costs[s].busy;
            row.stalled_cycles = costs[s].stalled;
            rows.push_back(std::move(row));
        }
    }
    return rows;
}

}  // namespace kpu::model
