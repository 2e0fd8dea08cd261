#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/schedule_check.hpp"
#include "base/diagnostics.hpp"
#include "compiler/tile_schedule/schedule.hpp"
#include "isa/module.hpp"
#include "platforms/platform.hpp"
#include "traces/event_file.hpp"

namespace CLI {
class App;
}

namespace kpu::cli {

/// Exit codes of the command.
enum ExitCode : int {
    exit_ok = 0,
    exit_bad_input = 1,
    exit_failed = 2,
    exit_mismatch = 3,
    exit_bug = 70,
    exit_interrupted = 130
};

/// Set by Ctrl-C.
extern std::atomic<bool> interrupted;

/// Each adds its verbs to the application; a verb's callback stores the exit code.
void add_run(CLI::App& app, int& exit_code, const std::vector<std::string>& command_line);
void add_program_tools(CLI::App& app, int& exit_code);  ///< check, asm, disasm
void add_list(CLI::App& app, int& exit_code);
void add_export(CLI::App& app, int& exit_code);
void add_diff(CLI::App& app, int& exit_code);
void add_explain(CLI::App& app, int& exit_code);
void add_dram(CLI::App& app, int& exit_code);

/// Options that several verbs share.
struct DeviceOptions {
    std::string platform;
    std::vector<std::string> sets;
    std::vector<std::string> search_paths;
    std::string header;  ///< of a tile schedule that has none
    void add_to(CLI::App& command);
    platforms::Overrides overrides() const;
};

/// A program, from whatever front end its file belongs to, and the platform it meets.
struct Input {
    std::shared_ptr<const Module> module;
    std::optional<platforms::Platform> platform;
    bool topology = false;  ///< layers without data: there is time, but no values
};
/// NEM text, .kpu, a tile schedule, or a SCALE-Sim topology (.csv). Findings go to `diagnostics`. `devices`:
/// a file of devices is no error, but gives no module. Throws UserError.
Input load_input(const std::string& path, const DeviceOptions& device, Diagnostics& diagnostics,
                 bool devices = false);

/// The module alone, for verbs that know no device: NEM text, .kpu or a tile schedule. Throws UserError.
std::shared_ptr<const Module> load_module(const std::string& path, const std::string& header,
                                          const std::vector<std::string>& search_paths,
                                          Diagnostics& diagnostics);
/// A tile schedule with its header, not checked yet; nothing when the file is something else.
std::optional<tile_schedule::Schedule> load_schedule(const std::string& path, const std::string& header);
void add_header_option(CLI::App& command, std::string& header);

/// "NAME=VALUE" split at the first '='. Throws UserError naming the option.
std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option);
/// A decimal integer that fits 64 bits. Throws UserError naming the option.
int64_t parse_integer(const std::string& text, const std::string& option);
/// "2%" or "2" as the share 0.02; not negative. Throws UserError naming the option.
double parse_percent(const std::string& text, const std::string& option);

/// Traces to write, by file name; empty: not wanted. `run` and `export` write the same bytes through this.
struct TracePaths {
    std::string vcd, power, stalls, memory, perfetto, konata;
    std::string window, perfetto_time = "cycles";
    std::vector<std::string> filter;
    std::vector<std::string> files() const { return {vcd, power, stalls, memory, perfetto, konata}; }
    bool empty() const { return (vcd + power + stalls + memory + perfetto + konata).empty(); }
    void add_to(CLI::App& command);
    /// Throws UserError on a window that is none, before anything is simulated.
    void check() const { parse_window(); }
    /// Also says how large a big one will be, and refuses one that its disk has no room for.
    void write(traces::Recording& recording) const;

  private:
    std::pair<Cycles, Cycles> parse_window() const;
};
/// Says how large a big trace will be. Throws UserError when its disk has no room for it.
void announce_trace(const std::string& path, uint64_t bytes);
/// One trace, unless `path` is empty. Throws UserError.
void write_trace(const std::string& path, const traces::Recording& recording,
                 void (*writer)(const traces::RunInfo&, const std::vector<traces::Event>&, Output&));

/// Findings, one a line with its notes; with_source: each followed by its source line and a caret.
std::string findings_text(const Diagnostics& diagnostics, bool with_source);
/// JSON object with a list of the findings; SARIF 2.1.0 log.
std::string json_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
std::string sarif_text(const Diagnostics& diagnostics, const analysis::FindingOrigins& origins);
/// To standard error, with source lines when that is a terminal.
void print_findings(const Diagnostics& diagnostics);

/// Data goes to standard output, everything for people to standard error.
void print_out(const std::string& text);
void print_err(const std::string& text);

}  // namespace kpu::cli
