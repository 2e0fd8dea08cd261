#pragma once

#include <string>
#include <utility>
#include <vector>

#include "traces/run_folder.hpp"
#include "traces/stats.hpp"
#include "traces/writers.hpp"

namespace kpu::traces {

/// Contents of a run folder, read back. What an older or a damaged folder lacks is empty, but for the
/// statistics.
struct RunResults {
    std::string path;
    bool complete = false;
    StatSet stats;
    std::vector<OpRow> ops;
    Manifest manifest;
    std::vector<std::pair<std::string, std::string>> outputs;  ///< file and SHA-256 of each
    std::string platform;                                      ///< protobuf text
    std::string program;                                       ///< NEM text
    std::string program_kernels;                               ///< text of its kernels
    std::string events;                                        ///< path of the event file in it; empty: none
};

/// The name under which a run's event file is looked for in its folder where its manifest has no other: `run -o DIR
/// --events DIR/events.kpuev`.
constexpr const char* events_file_name = "events.kpuev";

/// Returns a folder that `run -o` left. Throws UserError naming the file and what is wrong with it.
RunResults read_run(const std::string& folder);
/// The event file of a run: of its folder, the one in it; else the file itself. Throws UserError when the folder has none.
std::string event_file_of(const std::string& path);
/// Returns the same from the folder, or from a copy of its stats.json alone, which then has no operations.
RunResults read_baseline(const std::string& path);

/// Returns the rows of an ops.csv. Throws UserError.
std::vector<OpRow> parse_ops_csv(std::string_view text, const std::string& origin);

}  // namespace kpu::traces
