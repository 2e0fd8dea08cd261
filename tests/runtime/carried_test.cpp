// Loops that carry tokens against the same program written out with explicit tokens: values, cycles, and what the
// schedule checker says.
#include <gtest/gtest.h>

#include "analysis/schedule_check.hpp"
#include "isa/verify.hpp"
#include "platforms/library.hpp"
#include "runtime/simulation.hpp"
#include "tests/analysis/carried_pipeline.hpp"
#include "tests/analysis/unrolled_program.hpp"

namespace kpu {
namespace {

using analysis::test::CarriedPipeline;
using analysis::test::Unroller;
using runtime::Mode;
using runtime::Simulation;
using runtime::SimulationOptions;

constexpr size_t most = 400;  ///< task instances

struct Result {
    Cycles cycles = 0;
    std::string bytes;
    uint64_t hazards = 0;
    bool operator==(const Result& o) const { return cycles == o.cycles && bytes == o.bytes; }
};

class Carried : public testing::Test {
  protected:
    /// So many entries that the token table never decides the order of issue.
    const platforms::Platform platform_ =
        platforms::load("npm_lite", {{"sequencer.max_active_tokens", "4096"}});

    BoundProgram bound(const std::shared_ptr<const Module>& module) const {
        Diagnostics diagnostics;
        auto program = verify(module, platforms::limits_of(platform_), {}, diagnostics);
        if (!program || diagnostics.has_errors()) throw UserError(diagnostics.to_string());
        return std::move(*program);
    }

    std::shared_ptr<Module> written_out(const std::shared_ptr<const Module>& module) const {
        const BoundProgram program = bound(module);
        const Unroller unrolled(program, most);
        EXPECT_TRUE(unrolled.complete());
        return analysis::test::written_out(program, unrolled);
    }

    Result run(const std::shared_ptr<const Module>& module, const SimulationOptions& options = {}) const {
        Simulation simulation(module, &platform_, options);
        simulation.fill_inputs_random(7);
        EXPECT_EQ(simulation.run(), runtime::RunStatus::finished);
        Result result{simulation.now(), {}, simulation.hazards().count()};
        for (const auto& spec : simulation.output_specs()) result.bytes += simulation.output(spec.name).data;
        return result;
    }

    /// True if the checker finds a race; everything must be decided.
    bool races(const std::shared_ptr<const Module>& module) const {
        const BoundProgram program = bound(module);
        bool found = false;
        for (const auto& finding :
             analysis::check_schedule(program, platforms::limits_of(platform_)).findings) {
            using analysis::FindingKind;
            EXPECT_NE(finding.kind, FindingKind::not_proved) << finding.message;
            found = found || finding.kind == FindingKind::raw || finding.kind == FindingKind::war ||
                    finding.kind == FindingKind::waw;
        }
        return found;
    }
};

// With all iterations in flight: the same cycles and bytes, of correct programs and of mutants whose tasks race.
TEST_F(Carried, CyclesAndBytesAreThoseOfTheProgramWrittenOut) {
    size_t racing = 0;
    for (uint64_t seed = 0; seed < 24; ++seed) {
        const auto original = std::make_shared<Module>(CarriedPipeline(seed, true).build());
        EXPECT_EQ(run(original).hazards, 0u) << seed;
        auto mutants = analysis::test::carried_mutants(*original);
        mutants.push_back(original);
        for (const auto& module : mutants) {
            const Result looped = run(module);
            EXPECT_EQ(looped, run(written_out(module))) << "seed " << seed;
            racing += looped.hazards > 0;
        }
    }
    EXPECT_GT(racing, 50u);
}

// The checker says of a loop what it says of the program written out, also of every mutant; correct programs are
// race-free and give the same bytes in any order.
TEST_F(Carried, VerdictsAreThoseOfTheProgramWrittenOut) {
    size_t flagged = 0, clean = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        const auto original = std::make_shared<Module>(CarriedPipeline(seed, seed % 3 == 0).build());
        EXPECT_FALSE(races(original)) << "seed " << seed;
        const std::string expected = run(written_out(original)).bytes;
        SimulationOptions any_order;
        any_order.mode = Mode::functional;
        any_order.random_order = true;
        for (any_order.seed = 0; any_order.seed < 3; ++any_order.seed) {
            const Result result = run(original, any_order);
            EXPECT_EQ(result.bytes, expected) << "seed " << seed;
            EXPECT_EQ(result.hazards, 0u);
        }
        for (const auto& mutant : analysis::test::carried_mutants(*original)) {
            const bool verdict = races(mutant);
            EXPECT_EQ(verdict, races(written_out(mutant))) << "seed " << seed;
            (verdict ? flagged : clean) += 1;
        }
    }
    EXPECT_GT(flagged, 100u);
    EXPECT_GT(clean, 50u);
}

}  // namespace
}  // namespace kpu
