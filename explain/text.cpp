// The explanation of a run or an operation, for people.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text_lines.hpp"
#include "explain/channels.hpp"
#include "explain/explanation.hpp"
#include "explain/least_time.hpp"
#include "traces/report.hpp"

namespace kpu::explain {

using traces::grouped;
using traces::no_task;
using traces::percent;

namespace {

class Text : private TextLines {
  public:
    Text(const Explanation& explanation, const TextOptions& options)
        : explanation_(explanation), graph_(explanation.graph), options_(options) {}

    std::string run() {
        headline();
        operations();
        channels(explanation_.ops);
        path();
        slack();
        bounds();
        roofs();
        units();
        return lines();
    }

    std::string op(const OpTerms& op) {
        const double total = static_cast<double>(graph_.total());
        line("{} ({}) in {} on {}", graph_.info().op_name(op.op), type_of(op), graph_.info().program,
             graph_.info().platform);
        incomplete();
        line("  {} of {} cycles are charged to it ({}); from its first issue to its last end {} cycles pass",
             grouped(op.charged), grouped(graph_.total()), trimmed(percent(double(op.charged), total)),
             grouped(op.span));
        line("\n  charged cycles");
        terms(op.terms, op.charged);
        formulas(op);
        holdups(op);
        channels({op});
        path_of(op);
        return lines();
    }

  private:
    static std::string trimmed(const std::string& text) { return text.substr(text.find_first_not_of(' ')); }
    std::string type_of(const OpTerms& op) const {
        return op.op < graph_.info().ops.size() ? graph_.info().ops[op.op].type : "no operation";
    }
    std::string statement(uint32_t index) const {
        if (index >= graph_.info().statements.size()) return "-";
        return placed(graph_.info().statements[index].name, graph_.place(index));
    }

    /// Returns "g (net.py:7)"
    static std::string placed(const std::string& name, const std::string& place) {
        return place.empty() ? name : fmt::format("{} ({})", name, place);
    }

    void incomplete() {
        if (!graph_.info().complete)
            line(
                "  INCOMPLETE: the run was stopped before its program ended; this explains what ran until "
                "then");
    }

    void headline() {
        const traces::RunInfo& info = graph_.info();
        const double us = static_cast<double>(info.end_ps) * 1e-6;
        line("{} on {}: {} cycles = {}", info.program, info.platform, grouped(graph_.total()),
             traces::time_text(us));
        incomplete();
    }

    /// Writes one row a term, largest first, then the sum.
    void terms(std::vector<Term> rows, Cycles total) {
        std::stable_sort(rows.begin(), rows.end(),
                         [](const Term& a, const Term& b) { return a.cycles > b.cycles; });
        Cycles sum = 0;
        for (const Term& term : rows) {
            sum += term.cycles;
            line("    {:>14}  {}  {}{}", grouped(term.cycles), percent(double(term.cycles), double(total)),
                 group_of(term), text_of(term.kind, term.cause));
        }
        line("    {:>14}  = the sum of these", grouped(sum));
    }

    static std::string group_of(const Term& term) {
        if (term.kind == Term::Kind::waiting) return "";
        const bool stalled = traces::group_of(term.cause) == "stalled";
        if (term.kind == Term::Kind::move) return stalled ? "transfer held up: " : "transfer: ";
        return stalled ? "computation starved: " : "computation: ";
    }

    void operations() {
        const double total = static_cast<double>(graph_.total());
        line(
            "\nWhere the cycles went (each cycle is charged to one operation: one that computes before one "
            "that only\n"
            "moves data, so that this need not name what the critical path below names)");
        terms(sum_of(explanation_.ops), graph_.total());
        std::vector<const OpTerms*> rows;
        for (const OpTerms& op : explanation_.ops)
            if (op.charged > 0) rows.push_back(&op);
        std::stable_sort(rows.begin(), rows.end(),
                         [](const OpTerms* a, const OpTerms* b) { return a->charged > b->charged; });
        line("\n  {:<24}{:<14}{:>12}  {:>7}   largest terms", "operation", "type", "cycles", "share");
        Cycles rest = 0;
        for (size_t i = 0; i < rows.size(); ++i) {
            if (i >= options_.most_rows) {
                rest += rows[i]->charged;
                continue;
            }
            line("  {:<23} {:<13} {:>12}  {}   {}", graph_.info().op_name(rows[i]->op), type_of(*rows[i]),
                 grouped(rows[i]->charged), percent(double(rows[i]->charged), total), largest(*rows[i]));
        }
        if (rest > 0)
            line("  {:<38}{:>12}  {}", fmt::format("{} more", rows.size() - options_.most_rows),
                 grouped(rest), percent(double(rest), total));
        line("  {:<38}{:>12}  = cycles.total", "sum", grouped(graph_.total()));
    }

    std::string largest(const OpTerms& op) const {
        std::vector<Term> rows = op.terms;
        std::stable_sort(rows.begin(), rows.end(),
                         [](const Term& a, const Term& b) { return a.cycles > b.cycles; });
        std::string text;
        for (size_t i = 0; i < std::min<size_t>(rows.size(), 2); ++i) {
            text += fmt::format("{}{} {}", i == 0 ? "" : ", ", text_of(rows[i].kind, rows[i].cause),
                                trimmed(percent(double(rows[i].cycles), double(op.charged))));
        }
        return text;
    }

    /// Writes the formula of each kind of task, with its numbers.
    void formulas(const OpTerms& op) {
        line("\n  formula of its tasks, when nothing is in their way");
        size_t shown = 0;
        for (const WorkTerm& term : op.works) {
            if (++shown > options_.most_rows) break;
            const traces::TaskWork& work = graph_.info().works[term.work];
            line("    {} x {}: {}", grouped(term.count), statement(term.statement),
                 work.mover ? move_formula(work) : compute_formula(work));
        }
        if (op.works.size() > options_.most_rows)
            line("    ... and {} more kinds", op.works.size() - options_.most_rows);
        if (op.works.empty()) line("    none of them ended");
    }

    static std::string compute_formula(const traces::TaskWork& work) {
        const auto useful = std::min<Cycles>(work.steady, (work.work << 16) / work.peak_q16);
        const Cycles own = work.lead + work.fill + work.steady + work.uneven + work.drain;
        std::string text =
            fmt::format("ideal {} = {} / {:.6g} per cycle", grouped(useful),
                        work.macs > 0 ? grouped(work.work) + " MACs" : grouped(work.work) + " elements",
                        double(work.peak_q16) / 65536);
        if (work.lead > 0) text += fmt::format(" + first operand {}", grouped(work.lead));
        if (work.fill > 0) text += fmt::format(" + fill {}", grouped(work.fill));
        if (work.steady > useful) text += fmt::format(" + padding {}", grouped(work.steady - useful));
        if (work.uneven > 0) text += fmt::format(" + narrow ports {}", grouped(work.uneven));
        if (work.drain > 0) text += fmt::format(" + drain {}", grouped(work.drain));
        return text + fmt::format(" = {} cycles", grouped(own));
    }

    /// Writes the formula of a move at the slowest of the mover's port and what the bytes pass.
    std::string move_formula(const traces::TaskWork& work) const {
        const traces::StreamWork& stream = work.streams.front();
        double rate = stream.port_bytes_per_cycle;
        std::string slowest = "the port";
        Cycles latency = 0;
        for (const traces::StreamHop& hop : stream.hops) {
            latency += hop.latency;
            const double peak = peak_of(graph_, hop.unit);
            if (peak <= 0 || peak >= rate) continue;
            rate = peak;
            const bool dram = graph_.info().units[hop.unit].kind == UnitKind::ddr;
            slowest = dram ? "the DRAM" : graph_.unit_name(hop.unit);
        }
        const auto moving = static_cast<Cycles>(std::ceil(static_cast<double>(stream.bytes) / rate));
        const Cycles rows = stream.runs * stream.row_cycles;
        return fmt::format(
            "{} bytes / {:.6g} per cycle of {} = {} + descriptor {} + {} rows x {} + latency {} = {} cycles",
            grouped(stream.bytes), rate, slowest, grouped(moving), stream.descriptor_cycles,
            grouped(stream.runs), stream.row_cycles, latency,
            grouped(moving + stream.descriptor_cycles + rows + latency));
    }

    void holdups(const OpTerms& op) {
        if (op.holdups.empty()) return;
        line("\n  what held its tasks up (unit-cycles: units wait side by side)");
        size_t shown = 0;
        for (const Holdup& holdup : op.holdups) {
            if (++shown > options_.most_rows) break;
            std::string with;
            if (holdup.competitor != no_task) {
                with = fmt::format(", mostly beside {} on {}", statement(holdup.competitor),
                                   graph_.unit_name(holdup.competitor_unit));
            }
            line("    {:>14}  {} on {}{}", grouped(holdup.cycles), text_of(Term::Kind::move, holdup.cause),
                 graph_.unit_name(holdup.unit), with);
        }
    }

    /// Transfers whose addresses camp on few channels of the DRAM.
    void channels(const std::vector<OpTerms>& ops) {
        size_t shown = 0;
        for (const OpTerms& op : ops) {
            for (const std::string& advice : channel_advice(graph_, op)) {
                if (shown == 0) line("\n  DRAM channels that get more than their share");
                if (++shown <= options_.most_rows) line("    {}", advice);
            }
        }
        if (shown > options_.most_rows) line("    ... and {} more", shown - options_.most_rows);
    }

    void path_of(const OpTerms& op) {
        Cycles on_path = 0, least = never;
        for (const PathSegment& segment : explanation_.path.segments()) {
            if (segment.kind == PathSegment::Kind::executes && graph_.tasks()[segment.task].op == op.op)
                on_path += segment.to - segment.from;
        }
        for (uint32_t t = 0; t < graph_.tasks().size(); ++t) {
            const TaskRun& task = graph_.tasks()[t];
            if (task.op == op.op && task.begun()) least = std::min(least, explanation_.path.slack()[t]);
        }
        if (on_path > 0) {
            line("\n  critical path: {} of its {} cycles", grouped(on_path), grouped(graph_.total()));
        } else if (least != never) {
            line("\n  critical path: none of its cycles; its tasks could end {} cycles later",
                 grouped(least));
        }
    }

    void path() {
        const double total = static_cast<double>(graph_.total());
        size_t tasks = 0;
        for (uint32_t t = 0; t < graph_.tasks().size(); ++t) tasks += explanation_.path.is_on_path(t) ? 1 : 0;
        line("\nCritical path: {} segments of {} tasks, {} cycles: the chain that decides when the run ends",
             grouped(explanation_.path.segments().size()), grouped(tasks), grouped(graph_.total()));
        line("  to end earlier, this would have to be faster");
        Cycles sum = 0;
        for (const PathShare& share : explanation_.shares) {
            sum += share.cycles;
            line("    {:>14}  {}  {:<34}  mostly {} on {}", grouped(share.cycles),
                 percent(double(share.cycles), total), share.what, statement(share.statement),
                 graph_.unit_name(share.unit));
        }
        line("    {:>14}  = the sum of these", grouped(sum));
        segments();
    }

    std::string task_of(const PathSegment& segment) const {
        const std::string task = placed(graph_.label(segment.task), graph_.place_of(segment.task));
        return segment.kind == PathSegment::Kind::dispatch ? "dispatch " + task : task;
    }

    void segments() {
        const auto& all = explanation_.path.segments();
        const size_t most = options_.most_rows;
        size_t width = 23;
        for (size_t i = 0; i < all.size(); ++i) {
            if (all.size() > most && i == most / 2) i += all.size() - most;
            width = std::max(width, task_of(all[i]).size());
        }
        line("\n  {:>12} {:>12} {:>10}  {:<{}} {:<12}could not begin earlier because", "from", "to", "cycles",
             "task", width, "unit");
        for (size_t i = 0; i < all.size(); ++i) {
            if (all.size() > most && i == most / 2) {
                const size_t skipped = all.size() - most;
                Cycles cycles = 0;
                for (size_t k = 0; k < skipped; ++k) cycles += all[i + k].to - all[i + k].from;
                line("  {:>12} {:>12} {:>10}  ... {} more segments (--json has all)", "", "", grouped(cycles),
                     grouped(skipped));
                i += skipped;
            }
            const PathSegment& segment = all[i];
            line("  {:>12} {:>12} {:>10}  {:<{}} {:<12}{}", grouped(segment.from), grouped(segment.to),
                 grouped(segment.to - segment.from), task_of(segment), width, graph_.unit_name(segment.unit),
                 reason_of(graph_, segment));
        }
    }

    /// Lists, for each statement, the least slack of its tasks, most first.
    void slack() {
        struct Row {
            Cycles least = never;
            uint64_t tasks = 0;
        };
        std::map<uint32_t, Row> rows;
        for (uint32_t t = 0; t < graph_.tasks().size(); ++t) {
            const TaskRun& task = graph_.tasks()[t];
            if (!task.begun()) continue;
            Row& row = rows[task.statement];
            row.least = std::min(row.least, explanation_.path.slack()[t]);
            ++row.tasks;
        }
        std::vector<std::pair<uint32_t, Row>> sorted(rows.begin(), rows.end());
        sorted.erase(
            std::remove_if(sorted.begin(), sorted.end(), [](const auto& r) { return r.second.least == 0; }),
            sorted.end());
        if (sorted.empty()) return;
        std::stable_sort(sorted.begin(), sorted.end(),
                         [](const auto& a, const auto& b) { return a.second.least > b.second.least; });
        line(
            "\n  slack: every task of these could end so much later (in the order that was) and cost "
            "nothing");
        for (size_t i = 0; i < std::min(sorted.size(), options_.most_rows); ++i)
            line("    {:>14}  {} ({} tasks)", grouped(sorted[i].second.least), statement(sorted[i].first),
                 grouped(sorted[i].second.tasks));
    }

    void bounds() {
        if (explanation_.bounds.empty()) return;
        const double total = static_cast<double>(graph_.total());
        line(
            "\nWhat if one resource were infinitely fast (its latency stays)? At least so many cycles would "
            "remain:");
        line("  {:<14}{:>12}  {:>8}  {}", "resource", "at least", "of now", "set by");
        for (const Bound& bound : explanation_.bounds) {
            const std::string set_by =
                bound.work > bound.path ? "the work of " + bound.busiest : "the longest chain of tasks";
            line("  {:<14}{:>12}  {}   {}{}", bound.part.empty() ? "as it is" : bound.part,
                 grouped(bound.cycles), percent(double(bound.cycles), total), set_by,
                 bound.part.empty() ? "" : fmt::format("   ({})", fields_of(bound.part)));
        }
    }

    void roofs() {
        line("\nRoofline (operations: 2 per MAC, 1 per element; each while its tasks are under way)");
        line("  {:<20}{:>12}{:>12}{:>9}  {:<8}{:>9}{:>9}{:>9}   bytes/cycle of peak: DRAM, L2, L1",
             "operation", "ops/cycle", "roof", "of roof", "limit", "ops/B ", "ops/B ", "ops/B ");
        line("  {:<20}{:>12}{:>12}{:>9}  {:<8}{:>9}{:>9}{:>9}", "", "", "", "", "", "DRAM", "L2", "L1");
        size_t shown = 0;
        std::vector<RooflinePoint> points = explanation_.roofs;  // those that compute first
        std::stable_partition(points.begin(), points.end(),
                              [](const RooflinePoint& p) { return p.operations > 0; });
        for (const RooflinePoint& point : points) {
            if (++shown > options_.most_rows + 1) break;
            std::string rates;
            for (const RooflineLevel& level : point.levels)
                rates += fmt::format("{}{}", rates.empty() ? "" : ", ",
                                     trimmed(percent(level.attained_bytes, level.peak_bytes)));
            const std::string_view name = shown == 1 ? "the run" : graph_.info().op_name(point.op);
            if (point.operations == 0) {
                line("  {:<19} {:>12}{:>12}{:>9}  {:<8}{:>9}{:>9}{:>9}   {}", name, "-", "-", "-", "-", "-",
                     "-", "-", rates);
                continue;
            }
            const auto intensity = [&](size_t i) {
                return point.levels[i].bytes == 0 ? std::string("-")
                                                  : fmt::format("{:.3g}", point.levels[i].intensity);
            };
            line("  {:<19} {:>12.5g}{:>12.5g}{:>9}  {:<8}{:>9}{:>9}{:>9}   {}", name, point.attained,
                 point.roof, percent(point.attained, point.roof), point.limit, intensity(0), intensity(1),
                 intensity(2), rates);
        }
        if (explanation_.roofs.size() > options_.most_rows + 1)
            line("  ... and {} more operations (--json has all)",
                 explanation_.roofs.size() - options_.most_rows - 1);
    }

    /// Lists every unit with tasks: its states sum to the run.
    void units() {
        line("\nWhat each unit did ({} cycles each)", grouped(graph_.total()));
        for (size_t u = 0; u < graph_.info().units.size(); ++u) {
            const auto unit = static_cast<uint16_t>(u);
            if (graph_.tasks_of(unit).empty()) continue;
            CauseCycles causes = causes_between(graph_.states(unit), 0, graph_.total());
            std::stable_sort(causes.begin(), causes.end(),
                             [](const auto& a, const auto& b) { return a.second > b.second; });
            std::string text;
            size_t column = 0;
            for (const auto& [cause, cycles] : causes) {
                const std::string term = fmt::format("{} {}", grouped(cycles), traces::full_name_of(cause));
                if (column + term.size() + 16 > options_.width && column > 0) {
                    text += fmt::format("\n  {:<10}", "");
                    column = 0;
                }
                text += (text.empty() ? "" : " + ") + term;
                column += term.size() + 3;
            }
            line("  {:<10} {}", graph_.info().units[u].name, text);
        }
    }

    const Explanation& explanation_;
    const RunGraph& graph_;
    const TextOptions& options_;
};

}  // namespace

std::string text_of_run(const Explanation& explanation, const TextOptions& options) {
    return Text(explanation, options).run();
}

std::string text_of_op(const Explanation& explanation, const std::string& op, const TextOptions& options) {
    const uint32_t index = find_op(explanation.graph.info(), op);
    return Text(explanation, options)
        .op(explanation.ops[std::min<size_t>(index, explanation.ops.size() - 1)]);
}

}  // namespace kpu::explain
