#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/schedule_check.hpp"
#include "base/diagnostics.hpp"
#include "compiler/front_ends.hpp"
#include "isa/bound_program.hpp"
#include "runtime/trials/simulate.hpp"
#include "traces/event_file.hpp"
#include "traces/formats.hpp"
#include "traces/run_folder.hpp"

namespace CLI {
class App;
}
namespace kpu::runtime {
class Simulation;
}

namespace kpu::cli {

/// Exit codes of the command.
enum ExitCode : int {
    exit_ok = 0,
    exit_bad_input = 1,
    exit_failed = 2,
    exit_mismatch = 3,
    exit_hazards = 4,  ///< this and the next two: of check --ci (gate.hpp)
    exit_no_device = 5,
    exit_unchecked = 6,
    exit_bug = 70,
    exit_interrupted = 130
};

/// Partial results are wanted now: see ending.hpp.
extern std::atomic<bool> interrupted;

/// Add verbs to the application; a verb's callback stores the exit code.
void add_run(CLI::App& app, int& exit_code, const std::vector<std::string>& command_line);
void add_program_tools(CLI::App& app, int& exit_code);  ///< check, asm, disasm
void add_compile(CLI::App& app);
void add_list(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_diff(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_dram(CLI::App& app, int& exit_code);
void add_debug(CLI::App& app, int& exit_code);
void add_validate(CLI::App& app, int& exit_code);
void add_external(CLI::App& app);
/// Becomes the program of a verb that another package brings, if the command line names one. Throws UserError where it is
/// not installed.
void run_external(char** argv);

/// Options that several verbs share.
struct DeviceOptions {
    std::string platform;
    std::vector<std::string> sets;
    std::vector<std::string> search_paths;
    void add_to(CLI::App& command);
    platforms::Overrides overrides() const;
    compiler::DeviceChoice choice() const {
        return {platform, overrides(), search_paths, runtime::simulate_trials()};
    }
};
inline constexpr const char* retarget_help =
    "takes a program compiled for another device, if all of it is legal on this one";
/// Describes what the program argument of a verb may be.
std::string program_help();
/// Adds the options that rows declare; what is given goes to `given`, which must outlive the parsing.
void add_row_options(CLI::App& command, const std::vector<OptionRow>& rows, GivenOptions& given);

/// Values of a program's parameters.
struct ParamOptions {
    std::vector<std::string> params;
    void add_to(CLI::App& command);
    ParamBindings bindings() const;
};

/// Data of a program's inputs.
struct InputOptions {
    std::vector<std::string> inputs;
    std::string fill;
    void add_to(CLI::App& command);
    /// Binds every --input and fills the rest. `needed`: what is left then is an error. Result: name, path and hash
    /// of each, for the manifest.
    std::vector<traces::Manifest::File> bind(const std::string& program, bool needed,
                                             runtime::Simulation& simulation) const;
};

/// Returns a choice of the form WORD or WORD:SEED.
std::optional<uint64_t> seed_of(const std::string& text, const std::string& word, const std::string& option);
[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& allowed);
/// Returns "NAME=VALUE" split at the first '='. Throws UserError naming the option.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option);
/// Returns a decimal integer that fits 64 bits. Throws UserError naming the option.
int64_t parse_integer(const std::string& text, const std::string& option);
/// Parses "2%" or "2" as the share 0.02; not negative. Throws UserError naming the option.
double parse_percent(const std::string& text, const std::string& option);

/// Traces to write. `run` and `export` write the same bytes through this.
struct TracePaths {
    struct File {
        const traces::Format* format;
        std::string path;
    };
    std::vector<File> files;
    GivenOptions options;  ///< options of all formats
    traces::ViewText view;
    bool viewer_files = false;  ///< beside each waveform
    bool empty() const { return files.empty(); }
    bool need_accesses() const;
    bool need_energy() const;
    std::vector<std::string> paths() const;
    void add_to(CLI::App& command);
    /// Checks that every format can show that, before there is a run to show. Throws UserError.
    void check() const;
    /// Writes the files. Also says how large a big one will be, and refuses one that its disk has no room
    /// for.
    void write(traces::Recording& recording) const;

  private:
    OptionValues options_of(const traces::Format& format) const;
};
/// Refuses repeated outputs: the later of two would replace the other. Throws UserError.
void refuse_repeated(const std::vector<std::string>& paths);
/// Says how large a big trace will be. Throws UserError when its disk has no room for it.
void announce_trace(const std::string& path, uint64_t bytes);

/// Findings, one a line with its notes; with_source: each followed by its source line and a caret.
std::string findings_text(const Diagnostics& diagnostics, bool with_source);
/// Kind of findings that have no origin.
inline constexpr const char* verifier_rule = "verifier";
/// Writes a JSON object with a list of the findings; SARIF 2.1.0 log.
std::string json_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
std::string sarif_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
/// Prints to standard error, with source lines when that is a terminal.
void print_findings(const Diagnostics& diagnostics);

/// Returns a finite number above 0, for CLI11's check(): its own takes nan.
std::string not_positive(const std::string& text);

/// Reports and data go to standard output, everything else for people to standard error. What people read is
/// written as terminal_text(), data as it is. Throws UserError when standard output does not take it.
void print_out(const std::string& text);
void print_data(const std::string& bytes);
void print_err(const std::string& text);
/// Prints to standard error, with our own control characters: no names in it.
void print_progress(const std::string& text);

}  // namespace kpu::cli
