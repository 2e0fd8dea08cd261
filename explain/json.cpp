// The explanation as JSON.
#include "base/json.hpp"

#include <nlohmann/json.hpp>

#include "explain/channels.hpp"
#include "explain/explanation.hpp"
#include "explain/json_value.hpp"

namespace kpu::explain {

using nlohmann::json;
using traces::no_task;

namespace {

std::string_view name_of(Term::Kind kind) {
    static constexpr std::string_view names[] = {"compute", "move", "waiting"};
    return names[static_cast<size_t>(kind)];
}

std::string_view name_of(PathSegment::Kind kind) {
    static constexpr std::string_view names[] = {"executes", "dispatch", "stands"};
    return names[static_cast<size_t>(kind)];
}

json to_json(const CauseCycles& causes) {
    json out = json::object();
    for (const auto& [cause, cycles] : causes) out[std::string(traces::full_name_of(cause))] = cycles;
    return out;
}

class Json {
  public:
    explicit Json(const Explanation& explanation) : explanation_(explanation), graph_(explanation.graph) {}

    json summary() const {
        const traces::RunInfo& info = graph_.info();
        return {{"schema", 1},
                {"program", info.program},
                {"platform", info.platform},
                {"complete", info.complete},
                {"cycles", graph_.total()},
                {"core_hz", info.core_hz},
                {"operations", operations()},
                {"units", units()},
                {"shares", shares()},
                {"what_if", bounds()},
                {"roofline", roofs()}};
    }

    json all() const {
        json out = summary();
        out["critical_path"] = {{"shares", out["shares"]}, {"segments", segments()}};
        out["slack"] = slack();
        out.erase("shares");
        return out;
    }

  private:
    std::string statement(uint32_t index) const {
        return index < graph_.info().statements.size() ? graph_.info().statements[index].name : "";
    }

    /// Returns the source that a statement was made of, where the program says so.
    json placed(json row, uint32_t index) const {
        if (graph_.place(index).empty()) return row;
        const traces::RunInfo::Statement& at = graph_.info().statements[index];
        row["place"] = {{"file", at.file}, {"line", at.line}, {"column", at.column}};
        return row;
    }
    json placed_task(json row, uint32_t task) const {
        return task == no_task ? row : placed(std::move(row), graph_.tasks()[task].statement);
    }

    json operations() const {
        json out = json::array();
        for (const OpTerms& op : explanation_.ops) {
            json row{{"op", graph_.info().op_name(op.op)},
                     {"tasks", op.tasks},
                     {"charged_cycles", op.charged},
                     {"span_cycles", op.span},
                     {"macs", op.macs},
                     {"operations", op.operations},
                     {"bytes_dram", op.bytes[0]},
                     {"bytes_l2", op.bytes[1]},
                     {"bytes_l1", op.bytes[2]},
                     {"terms", json::array()},
                     {"formulas", json::array()},
                     {"held_up", json::array()},
                     {"channels", channel_advice(graph_, op)}};
            row["type"] = op.op < graph_.info().ops.size() ? graph_.info().ops[op.op].type : "";
            for (const Term& term : op.terms) {
                row["terms"].push_back({{"kind", name_of(term.kind)},
                                        {"cause", traces::full_name_of(term.cause)},
                                        {"text", text_of(term.kind, term.cause)},
                                        {"cycles", term.cycles}});
            }
            for (const WorkTerm& term : op.works) row["formulas"].push_back(formula(term));
            for (const Holdup& holdup : op.holdups) {
                json entry{{"cause", traces::full_name_of(holdup.cause)},
                           {"unit", graph_.unit_name(holdup.unit)},
                           {"unit_cycles", holdup.cycles}};
                if (holdup.competitor != no_task) {
                    entry["beside"] = statement(holdup.competitor);
                    entry["beside_unit"] = graph_.unit_name(holdup.competitor_unit);
                }
                row["held_up"].push_back(std::move(entry));
            }
            out.push_back(std::move(row));
        }
        return out;
    }

    json formula(const WorkTerm& term) const {
        const traces::TaskWork& work = graph_.info().works[term.work];
        json out = placed({{"statement", statement(term.statement)},
                           {"count", term.count},
                           {"work", work.work},
                           {"peak_per_cycle", double(work.peak_q16) / 65536}},
                          term.statement);
        if (!work.mover) {
            out["first_operand"] = work.lead;
            out["fill"] = work.fill;
            out["steady"] = work.steady;
            out["drain"] = work.drain;
            return out;
        }
        const traces::StreamWork& stream = work.streams.front();
        out["bytes"] = stream.bytes;
        out["runs"] = stream.runs;
        out["port_bytes_per_cycle"] = stream.port_bytes_per_cycle;
        out["descriptor_cycles"] = stream.descriptor_cycles;
        out["row_cycles"] = stream.row_cycles;
        return out;
    }

    json units() const {
        json out = json::array();
        for (size_t u = 0; u < graph_.info().units.size(); ++u) {
            out.push_back({{"unit", graph_.info().units[u].name},
                           {"causes", to_json(causes_between(graph_.states(static_cast<uint16_t>(u)), 0,
                                                             graph_.total()))}});
        }
        return out;
    }

    json shares() const {
        json out = json::array();
        for (const PathShare& share : explanation_.shares) {
            out.push_back(placed({{"what", share.what},
                                  {"cause", traces::full_name_of(share.cause)},
                                  {"cycles", share.cycles},
                                  {"statement", statement(share.statement)},
                                  {"unit", graph_.unit_name(share.unit)}},
                                 share.statement));
        }
        return out;
    }

    json segments() const {
        json out = json::array();
        for (const PathSegment& segment : explanation_.path.segments()) {
            out.push_back(placed_task({{"from", segment.from},
                                       {"to", segment.to},
                                       {"kind", name_of(segment.kind)},
                                       {"task", graph_.label(segment.task)},
                                       {"unit", graph_.unit_name(segment.unit)},
                                       {"because", explain::name_of(segment.because)},
                                       {"because_task", graph_.label(segment.because_task)},
                                       {"causes", to_json(segment.causes)}},
                                      segment.task));
        }
        return out;
    }

    json slack() const {
        json out = json::array();
        for (uint32_t t = 0; t < graph_.tasks().size(); ++t) {
            const TaskRun& task = graph_.tasks()[t];
            if (!task.begun() || explanation_.path.slack()[t] == 0) continue;
            out.push_back(placed_task({{"task", graph_.label(t)},
                                       {"unit", graph_.unit_name(task.unit)},
                                       {"cycles", explanation_.path.slack()[t]}},
                                      t));
        }
        return out;
    }

    json bounds() const {
        json out = json::array();
        for (const Bound& bound : explanation_.bounds) {
            out.push_back({{"resource", bound.part.empty() ? "nothing" : bound.part},
                           {"fields", fields_of(bound.part)},
                           {"at_least", bound.cycles},
                           {"chain_of_tasks", bound.path},
                           {"work_of_a_unit", bound.work},
                           {"busiest_unit", bound.busiest}});
        }
        return out;
    }

    json roofs() const {
        json out = json::array();
        for (size_t i = 0; i < explanation_.roofs.size(); ++i) {
            const RooflinePoint& point = explanation_.roofs[i];
            json row{{"op", i == 0 ? std::string("the run") : std::string(graph_.info().op_name(point.op))},
                     {"operations", point.operations},
                     {"active_cycles", point.active},
                     {"peak", point.peak},
                     {"attained", point.attained},
                     {"limit", point.limit},
                     {"roof", point.roof},
                     {"levels", json::object()}};
            static constexpr const char* names[] = {"dram", "l2", "l1"};
            for (size_t l = 0; l < 3; ++l) {
                const RooflineLevel& level = point.levels[l];
                row["levels"][names[l]] = {{"bytes", level.bytes},
                                           {"intensity", level.intensity},
                                           {"peak_bytes_per_cycle", level.peak_bytes},
                                           {"attained_bytes_per_cycle", level.attained_bytes}};
            }
            out.push_back(std::move(row));
        }
        return out;
    }

    const Explanation& explanation_;
    const RunGraph& graph_;
};

}  // namespace

json summary_of(const Explanation& explanation) { return Json(explanation).summary(); }

std::string json_of(const Explanation& explanation) {
    // names that are not valid UTF-8 must not stop it
    return json_text(Json(explanation).all()) + "\n";
}

}  // namespace kpu::explain
