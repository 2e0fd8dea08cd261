#include "runtime/cli/generate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.hpp"
#include "base/text_output.hpp"
#include "runtime/cli/ending.hpp"
#include "runtime/host_boundary.hpp"

namespace kpu::cli {
namespace {

using Arrays = std::map<std::string, NpyArray>;

/// Costs of a step.
struct Took {
    std::string what;
    uint64_t cycles = 0, dram_bytes = 0;
    double time_us = 0, energy_uj = 0;
};

/// A program with its device.
struct Program {
    std::string path;
    compiler::Input input;
};

Program load(const std::string& path, const GenerateRequest& request) {
    Diagnostics diagnostics;
    const auto source = compiler::Source::of_file(path);
    compiler::DeviceChoice device = request.device.choice();
    device.values = request.settings.mode != runtime::Mode::timing;
    Program program{path, compiler::load_for_device(source, request.front_end, device, diagnostics)};
    if (program.input.module == nullptr) compiler::refuse_no_program(source);
    if (!program.input.has_values() && device.values)
        throw UserError(fmt::format("{}: it has no data to compute with. Fix: add --mode timing.", path));
    print_findings(diagnostics);
    return program;
}

/// Returns the parameter that steps count; null: it has none.
const proto::Param* position_of(const Program& program) {
    const auto& params = program.input.module->program.param();
    const auto found = std::find_if(params.begin(), params.end(),
                                    [](const proto::Param& param) { return param.name() == "position"; });
    return found == params.end() ? nullptr : &*found;
}

/// Returns the settings with this position, where the program has one.
runtime::SimulationOptions at_position(const Program& program, runtime::SimulationOptions settings,
                                       int64_t position) {
    ParamBindings& params = settings.params;
    params.erase(std::remove_if(params.begin(), params.end(),
                                [](const auto& param) { return param.first == "position"; }),
                 params.end());
    if (position_of(program) != nullptr) params.emplace_back("position", position);
    return settings;
}

/// Returns inputs by the output that lies in their bytes: caches, which stay on the device.
std::map<std::string, std::string> states_of(const runtime::Simulation& simulation) {
    std::map<std::string, std::string> states;
    for (const TensorSpec& output : simulation.output_specs()) {
        for (const TensorSpec& input : simulation.input_specs()) {
            if (input.buffer == output.buffer && input.offset == output.offset && input.shape == output.shape)
                states[output.name] = input.name;
        }
    }
    return states;
}

/// Returns the index of the greatest number of the last row; of equal ones the first.
int64_t greatest(const TensorSpec& spec, const NpyArray& array) {
    if (!runtime::host_has_floats(spec) || array.shape.empty() || array.elements() == 0)
        throw UserError(
            fmt::format("--next: output `{}` has no rows of floats. Fix: name the logits.", spec.name));
    const int64_t count = array.shape.back(), first = static_cast<int64_t>(array.elements()) - count;
    const auto* data = reinterpret_cast<const uint8_t*>(array.data.data());
    int64_t best = 0;
    for (int64_t i = 1; i < count; ++i) {
        if (runtime::host_number(spec, data, first + i) > runtime::host_number(spec, data, first + best))
            best = i;
    }
    return best;
}

/// Returns an array of an input that holds one number everywhere.
NpyArray filled(const TensorSpec& spec, int64_t number) {
    const std::string_view dtype = runtime::host_dtype(spec);
    NpyArray array{std::string(dtype), spec.shape, {}};
    const bool wide = dtype == "<i8" || dtype == "<u8";
    if (!wide && !is_integer(spec.elem))
        throw UserError(
            fmt::format("--next: input `{}` holds no integers. Fix: name the tokens' input.", spec.name));
    const size_t size = runtime::host_item_bytes(spec);
    array.data.resize(array.elements() * size);
    for (size_t i = 0; i < array.elements(); ++i) {
        for (size_t b = 0; b < size; ++b)
            array.data[i * size + b] = static_cast<char>(static_cast<uint64_t>(number) >> (8 * b) & 255);
    }
    return array;
}

const TensorSpec& spec_of(const std::vector<TensorSpec>& specs, const std::string& name, const char* role) {
    for (const TensorSpec& spec : specs) {
        if (spec.name == name) return spec;
    }
    std::vector<std::string_view> names;
    for (const TensorSpec& spec : specs) names.push_back(spec.name);
    throw UserError(fmt::format("--next: `{}` is not a known {} of the program. Fix: give one of {}.", name,
                                role, fmt::join(names, ", ")));
}

class Generation {
  public:
    Generation(const GenerateOptions& options, const GenerateRequest& request)
        : options_(options), request_(request), steps_(load(request.program, request)) {
        for (const std::string& text : options.next) next_.push_back(split_assignment(text, "--next"));
    }

    void run() {
        const int64_t first = first_position();
        if (!options_.prompt.empty()) {
            const Program prompt = load(options_.prompt, request_);
            runtime::SimulationOptions settings = request_.settings;
            settings.params.clear();  // they are those of the steps
            step(prompt, at_position(prompt, std::move(settings), 0), "prompt");
        }
        for (uint64_t i = 0; i < options_.steps && !interrupted; ++i) {
            const auto position = first + static_cast<int64_t>(i);
            step(steps_, at_position(steps_, request_.settings, position), fmt::format("{}", position));
        }
        print();
    }

  private:
    /// Returns the position of the first step; all have room.
    int64_t first_position() const {
        const proto::Param* range = position_of(steps_);
        if (range == nullptr)
            throw UserError(fmt::format(
                "{}: --generate needs a program with a parameter `position`. Fix: compile the model with "
                "--positions N.",
                steps_.path));
        std::optional<int64_t> first;
        for (const auto& [name, value] : request_.settings.params) {
            if (name == "position") first = value;  // the last one counts, as in any run
        }
        if (!first)
            throw UserError("--generate needs the position of the first step. Fix: add --param position=N.");
        const bool fits = *first >= range->min() && *first <= range->max() &&
                          options_.steps <= static_cast<uint64_t>(range->max() - *first) + 1;
        if (fits) return *first;
        throw UserError(
            fmt::format("{}: --generate {} from position {} on leaves positions {} to {}: the cache "
                        "would be full. Fix: take "
                        "fewer steps, or compile the model with more --positions.",
                        steps_.path, options_.steps, *first, range->min(), range->max()));
    }

    void step(const Program& program, const runtime::SimulationOptions& settings, const std::string& what) {
        const platforms::Platform* platform = program.input.platform ? &*program.input.platform : nullptr;
        runtime::Simulation simulation(program.input.module, platform, settings);
        const bool values = settings.mode != runtime::Mode::timing;
        if (values) set_inputs(program, simulation);
        const runtime::RunStatus status = simulation.run(&interrupted);
        if (status == runtime::RunStatus::interrupted) return;
        if (status != runtime::RunStatus::finished || !simulation.complete() ||
            simulation.hazards().count() > 0)
            throw SimulationError(
                fmt::format("{}: the step at {} failed. Fix: run it alone, with --param position={}.",
                            program.path, what, what == "prompt" ? "0" : what));
        const traces::StatSet& stats = simulation.stats();
        const auto real = [&](const char* key) { return stats.contains(key) ? stats.real(key) : 0; };
        took_.push_back({what, stats.integer("cycles.total"),
                         stats.integer("bytes.dram.read") + stats.integer("bytes.dram.write"),
                         real("time.total_us"), real("energy.total_uj")});
        if (values) keep_outputs(simulation);
    }

    void set_inputs(const Program& program, runtime::Simulation& simulation) {
        for (const auto& [name, number] : chosen_)
            kept_[name] = filled(spec_of(simulation.input_specs(), name, "input"), number);
        InputOptions given = request_.inputs;
        given.inputs.clear();
        for (const std::string& text : request_.inputs.inputs) {
            if (kept_.count(split_assignment(text, "--input").first) == 0) given.inputs.push_back(text);
        }
        for (const auto& [name, array] : kept_) simulation.set_input(name, array, "the step before");
        given.bind(program.path, false, simulation);
        const auto missing = simulation.missing_inputs();
        if (missing.empty()) return;
        throw UserError(
            fmt::format("{}: no data for input{} {}. Fix: give --input NAME=FILE.npy for each, --next "
                        "NAME=OUTPUT for what "
                        "follows from the step before, or --fill zeros.",
                        program.path, missing.size() == 1 ? "" : "s", fmt::join(missing, ", ")));
    }

    /// Keeps outputs for the next step: caches, tokens, and what stays the same.
    void keep_outputs(const runtime::Simulation& simulation) {
        for (const auto& [output, input] : states_of(simulation)) kept_[input] = simulation.output(output);
        for (const auto& [input, output] : next_) {
            const TensorSpec& from = spec_of(simulation.output_specs(), output, "output");
            tokens_.push_back(greatest(from, simulation.output(output)));
            chosen_[input] = tokens_.back();
        }
    }

    void print() const;

    const GenerateOptions& options_;
    const GenerateRequest& request_;
    Program steps_;
    std::vector<std::pair<std::string, std::string>> next_;
    Arrays kept_;                            ///< inputs of the next step
    std::map<std::string, int64_t> chosen_;  ///< parameters that are one number
    std::vector<int64_t> tokens_;
    std::vector<Took> took_;
};

void Generation::print() const {
    Took all{"all"};
    size_t steps = 0;
    for (const Took& one : took_) {
        if (one.what == "prompt") continue;
        ++steps;
        all.cycles += one.cycles, all.dram_bytes += one.dram_bytes;
        all.time_us += one.time_us, all.energy_uj += one.energy_uj;
    }
    if (request_.json) {
        nlohmann::ordered_json rows = nlohmann::json::array();
        for (const Took& one : took_)
            rows.push_back({{"position", one.what},
                            {"cycles", one.cycles},
                            {"time_us", one.time_us},
                            {"dram_bytes", one.dram_bytes},
                            {"energy_uj", one.energy_uj}});
        nlohmann::ordered_json document{{"schema", 1}, {"steps", std::move(rows)}};
        if (!tokens_.empty()) document["tokens"] = tokens_;
        return print_data(document.dump(1) + "\n");
    }
    if (request_.quiet) return;
    std::string text =
        fmt::format("{:>10} {:>14} {:>12} {:>14} {:>14}\n", "position", "cycles", "us", "DRAM bytes", "uJ");
    for (const Took& one : took_)
        text += fmt::format("{:>10} {:>14} {:>12.2f} {:>14} {:>14.2f}\n", one.what, one.cycles, one.time_us,
                            one.dram_bytes, one.energy_uj);
    if (steps > 0)
        text +=
            fmt::format("{} tokens: {:.0f} cycles, {:.2f} us, {:.2f} uJ each; {:.1f} tokens/s\n", steps,
                        static_cast<double>(all.cycles) / static_cast<double>(steps),
                        all.time_us / static_cast<double>(steps), all.energy_uj / static_cast<double>(steps),
                        static_cast<double>(steps) / all.time_us * 1e6);
    if (!tokens_.empty()) text += fmt::format("next: {}\n", fmt::join(tokens_, " "));
    print_out(text);
}

}  // namespace

void GenerateOptions::add_to(CLI::App& command) {
    command
        .add_option("--generate", steps,
                    "steps of a decoder that was compiled with --positions, one after the other from --param "
                    "position=P "
                    "on; caches stay where they are")
        ->check(CLI::PositiveNumber);
    command.add_option(
        "--prompt", prompt,
        "with --generate: the program of the prompt, which runs before (inputs of both have the same "
        "names)");
    command
        .add_option("--next", next,
                    "with --generate, INPUT=OUTPUT: the input of the next step is the index of the greatest "
                    "number in the "
                    "last row of an output")
        ->allow_extra_args(false);
}

void generate(const GenerateOptions& options, const GenerateRequest& request) {
    const KeepsPartialResults keeps;
    Generation(options, request).run();
}

}  // namespace kpu::cli
