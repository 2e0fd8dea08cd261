#include "runtime/trials/simulate.hpp"

#include <map>

#include "runtime/simulation.hpp"

namespace kpu::runtime {
namespace {

compiler::Simulated simulate(const std::shared_ptr<const Module>& program,
                             const platforms::Platform& platform) {
    SimulationOptions options;
    options.mode = Mode::timing;
    options.hazards = false;
    Simulation simulation(program, &platform, options);
    if (simulation.run() != RunStatus::finished) throw UserError(simulation.deadlock_report() + "\n");
    compiler::Simulated result{double(simulation.now()), {}};
    for (const traces::OpRow& row : simulation.op_rows())
        result.charged.push_back(double(row.charged_cycles));
    return result;
}

/// Simulates a compiled program. What stops it, such as a kernel whose time depends on values, is told as
/// what stops the compilation.
compiler::Simulated trial(const std::shared_ptr<const Module>& program, const platforms::Platform& platform) {
    try {
        return simulate(program, platform);
    } catch (const UserError& error) {
        const std::string text = error.what();
        throw UserError("a trial of the program, without values: " + text.substr(0, text.find("Fix: ")) +
                        "Fix: compile with --effort 2.");
    }
}

}  // namespace

compiler::Simulate simulate_trials() {
    auto known = std::make_shared<std::map<std::string, compiler::Simulated>>();
    return [known](const std::shared_ptr<const Module>& program, const platforms::Platform& platform) {
        std::string key = platforms::to_textproto(platform) + program->program.SerializeAsString();
        const auto found = known->find(key);
        if (found != known->end()) return found->second;
        return known->emplace(std::move(key), trial(program, platform)).first->second;
    };
}

}  // namespace kpu::runtime
