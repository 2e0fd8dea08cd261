#pragma once

#include <string>
#include <vector>

#include "traces/events.hpp"
#include "traces/run_info.hpp"

namespace kpu::traces {

/// Beside a waveform, so that a viewer opens it ready.
struct ViewerFile {
    std::string path, text;
};

/// Paths of viewer_files().
std::vector<std::string> viewer_paths(const std::string& waveform);

/// Makes the files for the waveform of that path (VCD or FST):
///   .gtkw     save file of GTKWave: a group for each engine, states as text with colours by cause (by the next file),
///             bandwidth and power as analog traces, the window of the costliest operation between markers A and B
///   .causes   what GTKWave shows in place of a cause's number
///   .sucl     command file of Surfer: the same signals under dividers; its markers
std::vector<ViewerFile> viewer_files(const RunInfo& info, const Events& events, const std::string& waveform);

}  // namespace kpu::traces
