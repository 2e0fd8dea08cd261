// Data of a program's inputs, as options give it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/digest.hpp"
#include "base/npy.hpp"
#include "runtime/cli/command.hpp"
#include "runtime/simulation.hpp"

namespace kpu::cli {

std::optional<uint64_t> seed_of(const std::string& text, const std::string& word, const std::string& option) {
    if (text.rfind(word + ":", 0) != 0) return std::nullopt;
    const int64_t seed = parse_integer(text.substr(word.size() + 1), option);
    if (seed < 0)
        throw UserError(fmt::format("{}: the seed {} is negative. Fix: give 0 or more.", option, seed));
    return static_cast<uint64_t>(seed);
}

void refuse(const std::string& option, const std::string& value, const std::string& allowed) {
    throw UserError(fmt::format("{} does not take `{}`. Fix: give {}.", option, value, allowed));
}

void InputOptions::add_to(CLI::App& command) {
    command.add_option("--input", inputs, "NAME=FILE.npy: data of an input")->allow_extra_args(false);
    command.add_option("--fill", fill, "data of inputs not given: zeros or random:SEED");
}

std::vector<traces::Manifest::File> InputOptions::bind(const std::string& program, bool needed,
                                                       runtime::Simulation& simulation) const {
    std::vector<traces::Manifest::File> files;
    for (const auto& text : inputs) {
        auto [name, path] = split_assignment(text, "--input");
        const auto fits = [&, input = name, file = path](const NpyArray& array) {
            simulation.check_input(input, array, file);
        };
        const std::string bytes = read_npy_bytes(path, fits);
        simulation.set_input(name, parse_npy(bytes, path), path);
        files.push_back({name, path, sha256_hex(bytes)});
    }
    const auto missing = simulation.missing_inputs();
    if (missing.empty()) return files;
    if (fill == "zeros") {
        simulation.fill_inputs_zero();
    } else if (!fill.empty()) {
        const auto seed = seed_of(fill, "random", "--fill");
        if (!seed) refuse("--fill", fill, "zeros or random:SEED");
        simulation.fill_inputs_random(*seed);
    } else if (needed) {
        throw UserError(fmt::format(
            "{}: no data for input{} {}. Fix: give --input NAME=FILE.npy for each, or --fill zeros.", program,
            missing.size() == 1 ? "" : "s", fmt::join(missing, ", ")));
    }
    for (const auto& name : missing) {
        files.push_back({name, "", fill.empty() ? "unbound" : fill});
    }
    return files;
}

}  // namespace kpu::cli
