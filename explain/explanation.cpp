#include "explain/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/diagnostics.hpp"
#include "base/text.hpp"

namespace kpu::explain {

namespace {

/// Names what a cycle of the path would have needed to be shorter.
std::string share_name(const RunGraph& graph, const PathSegment& segment, traces::Cause cause) {
    if (segment.kind == PathSegment::Kind::dispatch) return "sequencer dispatch";
    if (segment.kind == PathSegment::Kind::stands) return "nothing goes on";
    const UnitKind unit = graph.info().units[segment.unit].kind;
    const traces::TaskWork* work = graph.work_of(graph.tasks()[segment.task]);
    const bool moves = work != nullptr && work->mover;
    const bool moves_only = kpu::moves(unit);
    std::string text = text_of(moves ? Term::Kind::move : Term::Kind::compute, cause);
    if (cause == traces::Cause::busy_useful && moves)
        return moves_only ? fmt::format("rate of {}", row_of(unit).phrase) : "rate of a store";
    if (moves || traces::group_of(cause) != "busy") return text;
    return fmt::format("{} of {}", text, row_of(unit).phrase);
}

std::vector<PathShare> shares_of(const RunGraph& graph, const CriticalPath& path) {
    struct Sum {
        traces::Cause cause = traces::Cause::idle_no_work;
        Cycles cycles = 0;
        std::map<std::pair<uint32_t, uint16_t>, Cycles> by;
    };
    std::map<std::string, Sum> sums;
    for (const PathSegment& segment : path.segments()) {
        const uint32_t statement =
            segment.task < graph.tasks().size() ? graph.tasks()[segment.task].statement : traces::no_task;
        for (const SegmentPart& part : parts_of(graph, segment)) {
            Sum& sum = sums[part.what];
            sum.cause = part.cause;
            sum.cycles += part.cycles;
            sum.by[{statement, segment.unit}] += part.cycles;
        }
    }
    std::vector<PathShare> shares;
    for (const auto& [what, sum] : sums) {
        const auto most = std::max_element(sum.by.begin(), sum.by.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        shares.push_back({what, sum.cause, sum.cycles, most->first.first, most->first.second});
    }
    std::stable_sort(shares.begin(), shares.end(),
                     [](const PathShare& a, const PathShare& b) { return a.cycles > b.cycles; });
    return shares;
}

}  // namespace

std::vector<SegmentPart> parts_of(const RunGraph& graph, const PathSegment& segment) {
    std::vector<SegmentPart> parts;
    const auto add = [&](traces::Cause cause, Cycles cycles) {
        parts.push_back({share_name(graph, segment, cause), cause, cycles});
    };
    if (segment.kind == PathSegment::Kind::executes) {
        for (const auto& [cause, cycles] : segment.causes) add(cause, cycles);
    } else {
        add(traces::Cause::idle_no_work, segment.to - segment.from);
    }
    return parts;
}

Explanation::Explanation(const RunGraph& run)
    : graph(run),
      ops(op_terms(run)),
      path(run),
      shares(shares_of(run, path)),
      bounds(run.info().complete ? what_if(run) : std::vector<Bound>{}),
      roofs(roofline(run, ops)) {}

std::string reason_of(const RunGraph& graph, const PathSegment& segment) {
    const std::string other = graph.label(segment.because_task);
    switch (segment.because) {
        case Because::start:
            return "the run begins";
        case Because::dependency:
            return "needs the result of " + other;
        case Because::carried:
            return "needs the result of " + other + ", an earlier iteration";
        case Because::unit_busy:
            return "the unit had " + other;
        case Because::dispatch:
            return "the sequencer dispatched " + other;
        case Because::wait:
            return "the program waits for " + other + " before it issues this";
        case Because::window:
            return "max_in_flight: the iteration of " + other + " had to end";
        case Because::table:
            return "the token table was full until " + other + " ended";
        case Because::limit:
            return "too many live tasks until " + other + " ended";
        case Because::unknown:
            break;
    }
    return segment.kind == PathSegment::Kind::stands ? "the run stopped: nothing ends any more"
                                                     : "not recorded";
}

uint32_t find_op(const traces::RunInfo& info, const std::string& name) {
    std::vector<std::string_view> names;
    for (size_t i = 0; i < info.ops.size(); ++i) {
        if (info.ops[i].id == name) return static_cast<uint32_t>(i);
        names.push_back(info.ops[i].id);
    }
    if (name == traces::background_name) return traces::background_op;
    const std::string nearest = nearest_name(name, names);
    throw UserError(
        nearest.empty()
            ? fmt::format("the run has no operation `{}`. Fix: leave the name out.", name)
            : fmt::format("the run has no operation `{}`. Fix: did you mean `{}`? `ops.csv` lists them.",
                          name, nearest));
}

}  // namespace kpu::explain
