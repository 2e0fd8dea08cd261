#pragma once

#include <string>
#include <vector>

#include "runtime/cli/command.hpp"
#include "runtime/simulation.hpp"

namespace kpu::cli {

/// Options of `run --generate`: the steps of a decoder one after the other, each at the position after the
/// last one.
struct GenerateOptions {
    uint64_t steps = 0;             ///< 0: one run as ever
    std::string prompt;             ///< a program that runs before the first of them
    std::vector<std::string> next;  ///< INPUT=OUTPUT
    void add_to(CLI::App& command);
};

/// Settings of a run for a chain of steps.
struct GenerateRequest {
    std::string program;
    DeviceOptions device;
    GivenOptions front_end;
    InputOptions inputs;
    runtime::SimulationOptions settings;  ///< settings with the position of the first step
    bool json = false, quiet = false;
};

/// Runs the prompt's program, then the steps. What one step leaves in the bytes of its inputs (caches), the next one finds
/// there; `next` are inputs that are the index of the greatest number in the last row of an output. Prints a line for
/// each. Throws UserError, SimulationError.
void generate(const GenerateOptions& options, const GenerateRequest& request);

}  // namespace kpu::cli
