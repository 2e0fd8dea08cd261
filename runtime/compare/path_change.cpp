#include "runtime/compare/path_change.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "explain/explanation.hpp"

namespace kpu::compare {
namespace {

/// Cycles by cause, for each operation of one run; the background last.
using Table = std::vector<std::map<std::string, Cycles>>;

/// Returns the row of an operation in a table.
size_t row_of(const traces::RunInfo& info, uint32_t op) {
    return op < info.ops.size() ? op : info.ops.size();
}

Table empty_table(const explain::RunGraph& graph) { return Table(graph.info().ops.size() + 1); }

/// Sums what the critical path went through.
Table on_path(const explain::RunGraph& graph, const explain::CriticalPath& path) {
    Table table = empty_table(graph);
    for (const explain::PathSegment& segment : path.segments()) {
        const uint32_t op =
            segment.task < graph.tasks().size() ? graph.tasks()[segment.task].op : traces::background_op;
        auto& row = table[row_of(graph.info(), op)];
        for (const explain::SegmentPart& part : parts_of(graph, segment)) row[part.what] += part.cycles;
    }
    return table;
}

/// Visits the states of a unit that lie in [from, to), each with its cycles there.
template <class Visit>
void for_each_state(const std::vector<explain::UnitState>& states, Cycles from, Cycles to, Visit visit) {
    auto at = std::lower_bound(states.begin(), states.end(), from,
                               [](const explain::UnitState& state, Cycles time) { return state.to <= time; });
    for (; at != states.end() && at->from < to; ++at)
        visit(*at, std::min(at->to, to) - std::max(at->from, from));
}

/// Sums what units did for operations while the path was elsewhere.
Table off_path(const explain::RunGraph& graph, const explain::CriticalPath& path) {
    Table table = empty_table(graph);
    using Sums = std::vector<std::array<Cycles, traces::cause_count>>;
    Sums sums(table.size());
    const auto is_work = [&](const explain::UnitState& state) {
        return state.task != traces::no_task && state.op < graph.info().ops.size() &&
               traces::group_of(state.cause) != "idle";
    };
    for (uint16_t unit = 0; unit < graph.info().units.size(); ++unit) {
        if (unit == graph.device()) continue;
        for (const explain::UnitState& state : graph.states(unit))
            if (is_work(state)) sums[state.op][static_cast<size_t>(state.cause)] += state.to - state.from;
    }
    for (const explain::PathSegment& segment : path.segments()) {
        if (segment.kind != explain::PathSegment::Kind::executes) continue;
        const explain::TaskRun& task = graph.tasks()[segment.task];
        for (const uint16_t unit : {task.unit, task.partner}) {
            if (unit == traces::no_unit) continue;
            for_each_state(graph.states(unit), segment.from, segment.to,
                           [&](const explain::UnitState& state, Cycles cycles) {
                               const bool own = unit == segment.unit || state.task == segment.task;
                               if (own && is_work(state))
                                   sums[state.op][static_cast<size_t>(state.cause)] -= cycles;
                           });
        }
    }
    for (size_t op = 0; op < sums.size(); ++op) {
        for (size_t cause = 0; cause < sums[op].size(); ++cause) {
            if (sums[op][cause] > 0)
                table[op].emplace(traces::full_name_of(static_cast<traces::Cause>(cause)), sums[op][cause]);
        }
    }
    return table;
}

/// Returns the rows of the operations of which a part changed.
std::vector<PathChange::Row> changes(const explain::RunGraph& graph_a, const Table& a,
                                     const explain::RunGraph& graph_b, const Table& b,
                                     std::vector<OperationPair> operations) {
    operations.push_back({a.size() - 1, b.size() - 1});  // the background
    static const std::map<std::string, Cycles> nothing;
    std::vector<PathChange::Row> rows;
    for (const OperationPair& pair : operations) {
        const auto &in_a = pair.a ? a[*pair.a] : nothing, &in_b = pair.b ? b[*pair.b] : nothing;
        PathChange::Row row;
        row.op = pair.a ? graph_a.info().op_name(static_cast<uint32_t>(*pair.a))
                        : graph_b.info().op_name(static_cast<uint32_t>(*pair.b));
        std::map<std::string, PathChange::Part> parts;
        for (const auto& [cause, cycles] : in_a) row.a += parts[cause].a = cycles;
        for (const auto& [cause, cycles] : in_b) row.b += parts[cause].b = cycles;
        for (auto& [cause, part] : parts) {
            part.cause = cause;
            if (part.change() != 0) row.parts.push_back(std::move(part));
        }
        const auto larger = [](const auto& x, const auto& y) {
            return std::abs(x.change()) > std::abs(y.change());
        };
        std::stable_sort(row.parts.begin(), row.parts.end(), larger);
        if (!row.parts.empty()) rows.push_back(std::move(row));
    }
    std::stable_sort(rows.begin(), rows.end(), [](const auto& x, const auto& y) {
        return std::abs(x.change()) > std::abs(y.change());
    });
    return rows;
}

}  // namespace

PathChange path_change(const explain::RunGraph& a, const explain::RunGraph& b,
                       const std::vector<OperationPair>& operations) {
    const explain::CriticalPath path_a(a), path_b(b);
    PathChange change;
    change.total_a = a.total();
    change.total_b = b.total();
    change.on_path = changes(a, on_path(a, path_a), b, on_path(b, path_b), operations);
    change.off_path = changes(a, off_path(a, path_a), b, off_path(b, path_b), operations);
    return change;
}

}  // namespace kpu::compare
