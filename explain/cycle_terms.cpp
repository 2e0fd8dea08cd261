#include "explain/cycle_terms.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "explain/critical_path.hpp"

namespace kpu::explain {

using traces::Cause;
using traces::no_unit;

namespace {

/// The most intervals of an operation for which competitors are looked up; they repeat from then on.
constexpr size_t most_lookups = 4096;

class OpCollector {
  public:
    explicit OpCollector(const RunGraph& graph) : graph_(graph), ops_(graph.info().ops.size() + 1) {
        for (size_t i = 0; i < ops_.size(); ++i) {
            ops_[i].op = i + 1 < ops_.size() ? static_cast<uint32_t>(i) : traces::background_op;
        }
        charges_.resize(ops_.size());
        holdups_.resize(ops_.size());
        lookups_.resize(ops_.size());
    }

    std::vector<OpTerms> collect() {
        charge();
        count_tasks();
        find_holdups();
        for (size_t i = 0; i < ops_.size(); ++i) finish(i);
        return std::move(ops_);
    }

  private:
    using Key = std::pair<Term::Kind, Cause>;
    struct Shared {
        Cycles cycles = 0;
        std::map<std::pair<uint32_t, uint16_t>, Cycles> with;  ///< indexed by statement and unit
    };

    size_t index_of(uint32_t op) const { return std::min<size_t>(op, ops_.size() - 1); }

    /// Charges every cycle of the device, by what the unit of the task that it is charged to did in it.
    void charge() {
        for (const UnitState& state : graph_.states(graph_.device())) {
            const size_t op = index_of(state.op);
            ops_[op].charged += state.to - state.from;
            Cycles left = state.to - state.from;
            if (state.task < graph_.tasks().size() && state.cause != Cause::device_idle_other)
                left -= charge_task(op, state);
            charges_[op][{Term::Kind::waiting, Cause::device_idle_other}] += left;
        }
    }

    Cycles charge_task(size_t op, const UnitState& charged) {
        const TaskRun& task = graph_.tasks()[charged.task];
        if (task.unit == no_unit) return 0;
        const traces::TaskWork* work = graph_.work_of(task);
        const bool moves = work != nullptr ? work->mover : !computes(graph_.info().units[task.unit].kind);
        const auto& states = graph_.states(task.unit);
        auto at = std::lower_bound(states.begin(), states.end(), charged.from,
                                   [](const UnitState& s, Cycles time) { return s.to <= time; });
        Cycles known = 0;
        for (; at != states.end() && at->from < charged.to; ++at) {
            if (at->task != charged.task) continue;
            const Cycles cycles = std::min(at->to, charged.to) - std::max(at->from, charged.from);
            charges_[op][{moves ? Term::Kind::move : Term::Kind::compute, at->cause}] += cycles;
            known += cycles;
        }
        return known;
    }

    void count_tasks() {
        std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts;
        std::vector<std::pair<Cycles, Cycles>> spans(ops_.size(), {never, 0});
        for (const TaskRun& task : graph_.tasks()) {
            const size_t i = index_of(task.op);
            OpTerms& op = ops_[i];
            ++op.tasks;
            spans[i].first = std::min(spans[i].first, task.issue);
            if (task.begun())
                spans[i].second = std::max(spans[i].second, task.ended() ? task.end : graph_.total());
            const traces::TaskWork* work = graph_.work_of(task);
            if (work == nullptr || !task.ended()) continue;
            ++counts[{task.statement, task.work}];
            count_work(op, task, *work);
        }
        for (size_t i = 0; i < ops_.size(); ++i) {
            if (spans[i].second > spans[i].first) ops_[i].span = spans[i].second - spans[i].first;
        }
        for (const auto& [key, count] : counts)
            ops_[index_of(op_of_statement(key.first))].works.push_back({key.first, key.second, count});
    }

    uint32_t op_of_statement(uint32_t statement) {
        if (op_of_.empty()) {
            for (const TaskRun& task : graph_.tasks()) op_of_[task.statement] = task.op;
        }
        return op_of_[statement];
    }

    void count_work(OpTerms& op, const TaskRun& task, const traces::TaskWork& work) const {
        if (!work.mover) {
            const bool macs = row_of(graph_.info().units[task.unit].kind).macs;
            if (macs) op.macs += work.work;
            op.operations += macs ? 2 * work.work : work.work;
        }
        for (const traces::StreamWork& stream : work.streams) {
            for (const traces::StreamWork::End& end : {stream.source, stream.destination})
                if (end.is_memory) op.bytes[static_cast<size_t>(end.level)] += stream.bytes;
        }
    }

    /// Finds, for every executing task, the states in which a limiter held it up.
    void find_holdups() {
        for (size_t u = 0; u < graph_.info().units.size(); ++u) {
            const auto unit = static_cast<uint16_t>(u);
            if (graph_.tasks_of(unit).empty()) continue;
            for (const UnitState& state : graph_.states(unit)) {
                if (state.task >= graph_.tasks().size() || traces::group_of(state.cause) != "stalled")
                    continue;
                const TaskRun& task = graph_.tasks()[state.task];
                if (task.unit != unit || task.begin > state.from) continue;  // it waits elsewhere
                hold_up(index_of(task.op), unit, state);
            }
        }
    }

    void hold_up(size_t op, uint16_t unit, const UnitState& state) {
        Shared& shared = holdups_[op][{state.cause, unit}];
        shared.cycles += state.to - state.from;
        if (++lookups_[op] > most_lookups) return;
        for (const Competitor& other : competitors(graph_, state.task, state.cause, state.from, state.to))
            shared.with[{graph_.tasks()[other.task].statement, other.unit}] += other.cycles;
    }

    void finish(size_t i) {
        OpTerms& op = ops_[i];
        for (const auto& [key, cycles] : charges_[i])
            if (cycles > 0) op.terms.push_back({key.first, key.second, cycles});
        for (const auto& [key, shared] : holdups_[i]) {
            Holdup holdup;
            holdup.cause = key.first;
            holdup.unit = key.second;
            holdup.cycles = shared.cycles;
            for (const auto& [other, cycles] : shared.with) {
                if (cycles <= holdup.competitor_cycles) continue;
                holdup.competitor = other.first;
                holdup.competitor_unit = other.second;
                holdup.competitor_cycles = cycles;
            }
            op.holdups.push_back(holdup);
        }
        std::stable_sort(op.holdups.begin(), op.holdups.end(),
                         [](const Holdup& a, const Holdup& b) { return a.cycles > b.cycles; });
    }

    const RunGraph& graph_;
    std::vector<OpTerms> ops_;
    std::vector<std::map<Key, Cycles>> charges_;
    std::vector<std::map<std::pair<Cause, uint16_t>, Shared>> holdups_;
    std::vector<size_t> lookups_;
    std::map<uint32_t, uint32_t> op_of_;
};

}  // namespace

std::string text_of(Term::Kind kind, Cause cause) {
    switch (cause) {
        case Cause::busy_useful:
            return kind == Term::Kind::move ? "moving data at port rate" : "ideal compute";
        case Cause::busy_fill_drain:
            return "fill and drain";
        case Cause::busy_padding:
            return "padding";
        case Cause::busy_overhead:
            return "overhead";
        case Cause::stalled_structural:
            return "a second unit is busy";
        case Cause::stalled_backpressure:
            return "what it goes to is full";
        case Cause::stalled_configuration:
            return "sequencer dispatch";
        case Cause::stalled_dependency:
            return "dependency";
        case Cause::stalled_issue_window:
            return "issue window";
        case Cause::stalled_operand_dram_bandwidth:
            return "DRAM bandwidth";
        case Cause::stalled_operand_dram_latency:
            return "DRAM latency";
        case Cause::stalled_operand_dram_bank_conflict:
            return "DRAM bank conflicts";
        case Cause::stalled_operand_dram_turnaround:
            return "DRAM read/write turn-around";
        case Cause::stalled_operand_dram_imbalance:
            return "DRAM channel imbalance";
        case Cause::stalled_refresh:
            return "DRAM refresh";
        case Cause::stalled_operand_interconnect:
            return "interconnect or port";
        case Cause::stalled_operand_bank_conflict:
            return "SRAM banks and ports";
        case Cause::stalled_operand_sram_access:
            return "SRAM latency and short accesses";
        case Cause::stalled_dma_issue:
            return "descriptors and row starts";
        case Cause::device_idle_other:
            return "nothing runs";
        default:
            return std::string(traces::full_name_of(cause));
    }
}

std::vector<OpTerms> op_terms(const RunGraph& graph) { return OpCollector(graph).collect(); }

std::vector<Term> sum_of(const std::vector<OpTerms>& ops) {
    std::map<std::pair<Term::Kind, Cause>, Cycles> sums;
    for (const OpTerms& op : ops)
        for (const Term& term : op.terms) sums[{term.kind, term.cause}] += term.cycles;
    std::vector<Term> terms;
    terms.reserve(sums.size());
    for (const auto& [key, cycles] : sums) terms.push_back({key.first, key.second, cycles});
    return terms;
}

}  // namespace kpu::explain
