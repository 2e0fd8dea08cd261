#pragma once
// Every pair of operands of every buffer, one after the other: what find_races() has to agree with.

#include <vector>

#include "analysis/race_findings.hpp"

namespace kpu::analysis::test {

inline std::vector<Finding> pairwise_races(const BoundProgram& program,
                                           const execution::ScheduleOrder& order) {
    std::vector<std::vector<Access>> by_buffer(program.buffers.size());
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const BoundTask& task = program.tasks[program.statements[s].index];
        const auto add = [&](uint32_t region, bool write) {
            by_buffer[program.regions[region].buffer].push_back({s, region, write});
        };
        for (const uint32_t region : task.inputs) add(region, false);
        for (const uint32_t region : task.outputs) add(region, true);
    }
    RaceFindings findings(program, order);
    for (const std::vector<Access>& list : by_buffer) {
        for (size_t later = 0; later < list.size(); ++later)
            for (size_t earlier = later + 1; earlier-- > 0;)  // the nearest first, as they are reported
                if (list[earlier].write || list[later].write) findings.check(list[earlier], list[later]);
    }
    return findings.take();
}

}  // namespace kpu::analysis::test
