// The search for races by frontiers against the search over all pairs, on random programs: the same findings, to the
// letter. A third are without loops, the rest have loops, half of those with tokens of earlier iterations.
//
// usage: frontier_agreement [PROGRAMS [FIRST_SEED]]     (20000 programs; without a seed one of the clock, which is
// printed)
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

#include "analysis/races.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"
#include "tests/analysis/pairwise_races.hpp"
#include "tests/analysis/random_flat.hpp"
#include "tests/analysis/random_schedule.hpp"

namespace kpu::analysis {
namespace {

Module random_module(uint64_t seed) {
    switch (seed % 3) {
        case 0:
            return test::RandomFlat(seed).build();
        case 1:
            return test::RandomSchedule(seed, {seed % 2 == 0, 10, 2, seed % 4 < 2}).build();
        default:
            return test::RandomSchedule(seed, {true, 7, 3, seed % 2 == 0}).build();
    }
}

std::vector<std::string> texts(const std::vector<Finding>& findings) {
    std::vector<std::string> result;
    for (const Finding& f : findings)
        result.push_back(fmt::format("{} {} {} {} {}..{} {}", name_of(f.kind), f.other_statement, f.statement,
                                     f.buffer, f.first, f.last, f.message));
    std::sort(result.begin(), result.end());
    return result;
}

struct Tally {
    uint64_t programs = 0, racing = 0, findings = 0, not_proved = 0;
};

/// Compares them. False: they differ.
bool compare(uint64_t seed, Tally& tally) {
    const auto module = std::make_shared<Module>(random_module(seed));
    Diagnostics diagnostics;
    const std::optional<BoundProgram> program = verify(module, {}, {}, diagnostics);
    if (!program) {
        fmt::print("seed {}: not a program: {}\n", seed, diagnostics.to_string());
        return false;
    }
    const execution::ScheduleOrder order(*program, execution::loop_facts(*program));
    const std::vector<Finding> found = find_races(*program, order);
    const auto ours = texts(found), theirs = texts(test::pairwise_races(*program, order));
    ++tally.programs;
    tally.racing += !theirs.empty();
    tally.findings += theirs.size();
    for (const Finding& finding : found) tally.not_proved += finding.kind == FindingKind::not_proved;
    if (ours == theirs) return true;
    fmt::print("seed {}: {} findings by frontiers, {} by pairs\n{}", seed, ours.size(), theirs.size(),
               nem::print(*module));
    for (const auto* list : {&ours, &theirs})
        for (const std::string& text : *list)
            fmt::print("{} {}\n", list == &ours ? "frontier" : "pairs   ", text);
    return false;
}

}  // namespace
}  // namespace kpu::analysis

int main(int argc, char** argv) {
    using namespace kpu::analysis;
    const uint64_t programs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
    const auto now = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : now / 1000 % 1'000'000'000;
    fmt::print("seeds {}..{}\n", seed, seed + programs - 1);
    const char* const names[] = {"no loops", "loops, half of the bounds by outer loops", "loops"};
    Tally tallies[3];
    for (uint64_t s = seed; s < seed + programs; ++s)
        if (!compare(s, tallies[s % 3])) return 1;
    fmt::print(
        "| programs | number | with races | findings | of them not proved | differences "
        "|\n|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < 3; ++kind) {
        const Tally& t = tallies[kind];
        fmt::print("| {} | {} | {} | {} | {} | 0 |\n", names[kind], t.programs, t.racing, t.findings,
                   t.not_proved);
    }
    return 0;
}
