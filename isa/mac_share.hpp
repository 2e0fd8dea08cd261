#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "isa/bound_program.hpp"

namespace kpu {

/// Integer attributes of an operation: multiply-accumulates of the graph, of one inference; and those that all its tasks
/// do, where overlapping tiles make them more.
constexpr std::string_view op_macs_attribute = "macs", op_task_macs_attribute = "task_macs";
/// Returns the attribute; 0: the operation has none.
uint64_t op_attribute(const proto::Op& op, std::string_view name);

/// Share of the tasks' multiply-accumulates that is work of the graph.
struct MacShare {
    uint64_t graph = 0, tasks = 0;  ///< sums over all tasks; graph < tasks, or both are 0: all of it
    /// Returns how many of `done` multiply-accumulates are useful. Exact when all are done.
    uint64_t useful(uint64_t done) const;
};
MacShare mac_share(const BoundProgram& program, size_t op);

}  // namespace kpu
