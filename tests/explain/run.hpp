#pragma once
// A traced run without values, and what explains it.

#include <memory>
#include <string>
#include <utility>

#include "base/read_file.hpp"
#include "explain/explanation.hpp"
#include "isa/nem/nem.hpp"
#include "runtime/simulation.hpp"
#include "tests/model/random_program.hpp"

namespace kpu::explain::test {

struct TracedRun {
    runtime::RunStatus status;
    traces::StatSet stats;
    std::vector<traces::OpRow> ops;
    traces::Recording recording;
    Cycles total() const { return stats.integer("cycles.total"); }
};

inline TracedRun traced_run(std::shared_ptr<const Module> module, const platforms::Platform& platform,
                            Cycles max_cycles = UINT64_MAX) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    options.record_events = true;
    options.max_cycles = max_cycles;
    runtime::Simulation simulation(std::move(module), &platform, options);
    const runtime::RunStatus status = simulation.run();
    return {status, simulation.stats(), simulation.op_rows(), simulation.take_recording()};
}

inline std::shared_ptr<const Module> module_of(const std::string& text) {
    Diagnostics diagnostics;
    nem::Document document = nem::parse(text, "test.nem", platforms::file_loader({}), diagnostics);
    if (diagnostics.has_errors()) throw UserError(diagnostics);
    return std::make_shared<Module>(std::move(document.module));
}

inline std::shared_ptr<const Module> example(const std::string& name) {
    return module_of(read_file(std::string(KPUSIM_SOURCE_DIR) + "/examples/" + name + "/" + name + ".nem"));
}

inline std::shared_ptr<const Module> random_module(const platforms::Platform& platform, uint64_t seed) {
    return std::make_shared<Module>(model::RandomProgram(platform, seed, false, true).program().build());
}

}  // namespace kpu::explain::test
