#include "analysis/race_findings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/describe.hpp"
#include "isa/footprint_runs.hpp"

namespace kpu::analysis {
namespace {

/// Most runs of a strided region, to name the common bytes exactly.
constexpr uint64_t runs_in_all = 1 << 14;

/// Returns the first common range of bytes of two footprints that overlap, both ends inclusive; what holds it
/// when there are too many runs to look at.
std::pair<uint64_t, uint64_t> common_bytes(const Footprint& a, const Footprint& b) {
    std::pair<uint64_t, uint64_t> result{std::max(a.address, b.address), std::min(a.end(), b.end()) - 1};
    uint64_t runs = 0, others = 0;
    for_each_run(a, [&](uint64_t x, uint64_t x_bytes) {
        if (runs++ == runs_in_all) return false;
        Footprint run;
        run.address = x;
        run.run_bytes = x_bytes;
        if (!overlap(run, b)) return true;
        for_each_run(b, [&](uint64_t y, uint64_t y_bytes) {
            if (others++ == runs_in_all) return false;
            if (x >= y + y_bytes || y >= x + x_bytes) return true;
            result = {std::max(x, y), std::min(x + x_bytes, y + y_bytes) - 1};
            return false;
        });
        return false;
    });
    return result;
}

}  // namespace

std::vector<Finding> RaceFindings::take() {
    std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& x, const Finding& y) {
        return std::make_pair(x.statement, x.other_statement) <
               std::make_pair(y.statement, y.other_statement);
    });
    return std::move(findings_);
}

bool RaceFindings::would_report(const Access& a, const Access& b) {
    asks_ = true;
    const bool found = look(a, b);
    asks_ = false;
    return found;
}

void RaceFindings::stop(const Access& access, const std::string& why) {
    stopped_ = true;
    Finding finding;
    finding.kind = FindingKind::not_proved;
    finding.statement = finding.other_statement = access.statement;
    finding.message = fmt::format(
        "not proved: the search for hazards stopped at task `{}`, as {}. Fix: mend "
        "those found, or write the repetition as loops.",
        program_.tasks[program_.statements[access.statement].index].name, why);
    findings_.push_back(std::move(finding));
}

/// Looks at a pair: a stands before b in the text, or is the same task. True when they are reported.
bool RaceFindings::look(const Access& a, const Access& b) {
    const auto key = std::make_pair(a.statement, b.statement);
    const bool same = a.statement == b.statement;
    PairCase pair{a, b, 0, false, {}, {}, 0};
    bool in_order = same;
    if (!same) in_order = order_.always_ordered(a.statement, b.statement, pair.escapes);
    const size_t common = order_.common_loops(a.statement, b.statement);
    if (in_order && common == 0) return false;
    const auto reported =
        asks_ ? reported_.end()
              : reported_.find(key);  // of two races, a read of what is being written says most
    if (reported != reported_.end() &&
        (findings_[reported->second].kind != FindingKind::war || !a.write || b.write))
        return true;
    if (!in_order) {
        pair.shared = common;
        if (decide(pair)) return true;
    }
    for (size_t d = 0; d < common; ++d) {
        if (program_.loops[order_.loops_of(a.statement)[d]].max_in_flight < 2) continue;
        pair.shared = d;
        pair.cross = true;
        pair.escapes = order_.carried(a.statement, b.statement, d);
        pair.back = order_.carried(b.statement, a.statement, d);
        if (decide(pair)) return true;
    }
    return false;
}

/// True when the pair is reported.
bool RaceFindings::decide(const PairCase& pair) {
    Witness witness;
    const Verdict verdict = verdict_of(pair, witness);
    if (verdict == Verdict::disjoint) return false;
    if (asks_) return true;
    if (verdict == Verdict::unknown && prover_.exhausted()) {
        stop(pair.b, "deciding the pairs before it took all the work allowed");
        return true;
    }
    const auto [entry, added] = reported_.insert({{pair.a.statement, pair.b.statement}, findings_.size()});
    if (verdict == Verdict::unknown) {
        if (added) not_proved(pair, prover_.reason());
        return true;
    }
    Finding found = race(pair, witness);
    if (added) {
        findings_.push_back(std::move(found));
    } else if (found.kind == FindingKind::raw) {
        findings_[entry->second] = std::move(found);
    }
    return true;
}

Verdict RaceFindings::verdict_of(const PairCase& pair, Witness& witness) {
    uint64_t budget = std::min(search_per_pair, search_left_);
    search_left_ -= budget;
    const Verdict found = search_pair(program_, order_, pair, budget, witness);
    search_left_ += budget;
    return found == Verdict::unknown ? prover_.prove(pair, witness) : found;
}

/// Returns the smallest distance of iterations at which the pair meets: the largest window that keeps it
/// apart.
uint64_t RaceFindings::safe_window(PairCase pair, const Witness& witness) {
    const int64_t x = witness.a[pair.shared], y = witness.b[pair.shared];
    const auto apart = static_cast<uint64_t>(x < y ? y - x : x - y);
    Witness ignored;
    for (pair.distance = 1; pair.distance < std::min<uint64_t>(apart, 64); ++pair.distance) {
        if (verdict_of(pair, ignored) != Verdict::disjoint) return pair.distance;
    }
    return pair.distance == apart || apart <= 64 ? apart : 1;
}

Finding RaceFindings::race(const PairCase& pair, const Witness& witness) {
    const bool swapped = pair.cross && witness.b[pair.shared] < witness.a[pair.shared];
    const Access &earlier = swapped ? pair.b : pair.a, &later = swapped ? pair.a : pair.b;
    Finding finding;
    finding.kind = !earlier.write ? FindingKind::war : later.write ? FindingKind::waw : FindingKind::raw;
    finding.statement = later.statement;
    finding.other_statement = earlier.statement;
    finding.loops = swapped ? witness.a : witness.b;
    finding.other_loops = swapped ? witness.b : witness.a;
    const BoundRegion &x = program_.regions[earlier.region], &y = program_.regions[later.region];
    const auto [first, last] =
        common_bytes(footprint_of(x, static_cast<uint64_t>(x.address.eval(finding.other_loops))),
                     footprint_of(y, static_cast<uint64_t>(y.address.eval(finding.loops))));
    finding.buffer = x.buffer;
    finding.first = offset_in(program_, x.buffer, first);
    finding.last = offset_in(program_, x.buffer, last);
    const std::string fix = pair.cross ? window_fix(pair, witness, finding.fix)
                                       : dependency_fix(earlier.statement, later.statement, finding.fix);
    finding.message = fmt::format(
        "hazard ({}): {} {} {} while {} {} them; nothing orders the two. Fix: {}.", name_of(finding.kind),
        task_text(program_, later.statement, finding.loops, false), later.write ? "writes" : "reads",
        bytes_text(program_, finding.buffer, finding.first, finding.last),
        task_text(program_, earlier.statement, finding.other_loops, true), earlier.write ? "writes" : "reads",
        fix);
    return finding;
}

std::string RaceFindings::dependency_fix(uint32_t from, uint32_t to, Fix& fix) const {
    fix.kind = Fix::Kind::add_dependency;
    fix.from = from;
    fix.to = to;
    const auto name = [&](uint32_t s) { return program_.tasks[program_.statements[s].index].name; };
    return fmt::format("add `{}` to the deps of `{}`", name(from), name(to));
}

bool RaceFindings::same_window(uint32_t a, uint32_t b) const {
    const BoundRegion &x = program_.regions[a], &y = program_.regions[b];
    return x.buffer == y.buffer && x.extent == y.extent && x.address.kinds == y.address.kinds &&
           x.address.values == y.address.values && x.address.constant == y.address.constant;
}

bool RaceFindings::reads(const BoundTask& task, uint32_t region) const {
    return std::any_of(task.inputs.begin(), task.inputs.end(),
                       [&](uint32_t input) { return same_window(input, region); });
}

/// True if a task goes on from what it wrote an iteration of the loop before: it reads what it writes, and
/// nothing in the loop writes the buffer anew.
bool RaceFindings::accumulates(uint32_t statement, uint32_t loop) const {
    const BoundTask& task = program_.tasks[program_.statements[statement].index];
    const auto kept = [&](uint32_t output) {
        if (!reads(task, output)) return false;
        const uint32_t end = program_.loops[program_.statements[loop].index].body_end;
        for (uint32_t s = loop + 1; s < end; ++s) {
            if (program_.statements[s].kind != BoundStatement::Kind::task) continue;
            const BoundTask& other = program_.tasks[program_.statements[s].index];
            for (const uint32_t written : other.outputs) {
                const bool same = program_.regions[written].buffer == program_.regions[output].buffer;
                if (same && !reads(other, written)) return false;
            }
        }
        return true;
    };
    return std::any_of(task.outputs.begin(), task.outputs.end(), kept);
}

std::string RaceFindings::window_fix(const PairCase& pair, const Witness& witness, Fix& fix) {
    const uint32_t index = order_.loops_of(pair.a.statement)[pair.shared];
    const BoundLoop& loop = program_.loops[index];
    fix.kind = Fix::Kind::narrow_window;
    fix.window = safe_window(pair, witness);
    int32_t s = program_.statements[pair.a.statement].parent;
    while (program_.statements[static_cast<size_t>(s)].index != index)
        s = program_.statements[static_cast<size_t>(s)].parent;
    fix.to = static_cast<uint32_t>(s);
    const uint32_t statement = pair.a.statement;
    if (statement == pair.b.statement && accumulates(statement, fix.to) &&
        fix.window <= max_carried_distance) {
        fix = {Fix::Kind::carry_token, statement, statement, fix.to, fix.window};
        const std::string& name = program_.tasks[program_.statements[statement].index].name;
        return fmt::format(
            "write `#! deps {}[{}-{}]` before `{}`, which goes on from what it left in these bytes {} "
            "before; bytes of their own would lose the sum",
            name, loop.variable, fix.window, name,
            fix.window == 1 ? "an iteration" : fmt::format("{} iterations", fix.window));
    }
    return fmt::format(
        "reduce @max_in_flight of the loop over `{}` from {} to {}, or give each "
        "iteration in flight bytes of its own ({} mod {})",
        loop.variable, loop.max_in_flight, fix.window, loop.variable, loop.max_in_flight);
}

void RaceFindings::not_proved(const PairCase& pair, const std::string& why) {
    Finding finding;
    finding.kind = FindingKind::not_proved;
    finding.statement = pair.b.statement;
    finding.other_statement = pair.a.statement;
    finding.buffer = program_.regions[pair.b.region].buffer;
    finding.message = fmt::format(
        "not proved: {} and {} may touch the same bytes of buffer `{}`, and nothing orders them: {}. "
        "Fix: "
        "order them with deps, or use simpler offsets and bounds.",
        task_text(program_, finding.statement, {}, false),
        task_text(program_, finding.other_statement, {}, true), program_.buffers[finding.buffer].name, why);
    findings_.push_back(std::move(finding));
}

}  // namespace kpu::analysis
