// For every dependency of every example: without it some schedule gives another value or a hazard is
// reported, or the remaining tokens still imply it. So no dependency of the examples is decoration, and the
// checks notice a lost one.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/device_directive.hpp"
#include "compiler/front_ends.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

using Outputs = std::vector<std::string>;

struct Outcome {
    Outputs outputs;
    size_t hazards = 0;
};

Outcome run_functional(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                       std::optional<uint64_t> seed) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::functional;
    options.random_order = seed.has_value();
    options.seed = seed.value_or(0);
    runtime::Simulation simulation(module, &platform, options);
    simulation.fill_inputs_random(11);
    simulation.run();
    Outcome outcome;
    for (const auto& spec : simulation.output_specs())
        outcome.outputs.push_back(simulation.output(spec.name).data);
    outcome.hazards = simulation.hazards().count();
    return outcome;
}

/// True if `from` is still reached from `task` over the remaining dependencies (and waits do not occur in
/// examples).
bool implied(const KPUProgram& program, uint32_t task, uint32_t from) {
    std::vector<uint32_t> open(program.statement(static_cast<int>(task)).task().dep().begin(),
                               program.statement(static_cast<int>(task)).task().dep().end());
    std::set<uint32_t> seen;
    while (!open.empty()) {
        const uint32_t current = open.back();
        open.pop_back();
        if (current == from) return true;
        if (!seen.insert(current).second) continue;
        const auto& deps = program.statement(static_cast<int>(current)).task().dep();
        open.insert(open.end(), deps.begin(), deps.end());
    }
    return false;
}

std::shared_ptr<Module> without_dependency(const Module& module, int statement, int dependency) {
    auto mutant = std::make_shared<Module>(module);
    auto& deps = *mutant->program.mutable_statement(statement)->mutable_task()->mutable_dep();
    deps.erase(deps.begin() + dependency);
    return mutant;
}

bool noticed(const std::shared_ptr<Module>& mutant, const platforms::Platform& platform,
             const Outputs& expected) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const Outcome outcome = run_functional(mutant, platform, seed);
        if (outcome.hazards > 0 || outcome.outputs != expected) return true;
    }
    return false;
}

class ExampleDependencies : public testing::TestWithParam<const char*> {};

TEST_P(ExampleDependencies, EachMattersOrIsImplied) {
    const std::string name = GetParam();
    const std::string path = std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem";
    Diagnostics diagnostics;
    const auto module = compiler::load_program(path, {}, diagnostics);
    const auto platform = compiler::resolve_platform(*module, "", {}, {}, diagnostics);
    ASSERT_TRUE(platform.has_value());
    const Outcome correct = run_functional(module, *platform, std::nullopt);
    EXPECT_EQ(correct.hazards, 0u);
    int checked = 0;
    for (int s = 0; s < module->program.statement_size(); ++s) {
        const auto& statement = module->program.statement(s);
        if (!statement.has_task()) continue;
        for (int d = 0; d < statement.task().dep_size(); ++d) {
            const auto mutant = without_dependency(*module, s, d);
            const bool still_implied =
                implied(mutant->program, static_cast<uint32_t>(s), statement.task().dep(d));
            EXPECT_TRUE(still_implied || noticed(mutant, *platform, correct.outputs))
                << statement.task().name() << " without its dependency on "
                << module->program.statement(static_cast<int>(statement.task().dep(d))).task().name();
            ++checked;
        }
    }
    EXPECT_GT(checked, 5);
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleDependencies,
                         testing::Values("digits", "gemm_relu", "gemm_rmsnorm", "conv_pool"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace kpu
