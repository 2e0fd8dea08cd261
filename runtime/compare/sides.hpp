#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulation.hpp"
#include "traces/diff/diff.hpp"

namespace kpu::compare {

/// Reads the run that a folder holds, with the parameters of its platform; its events are not read yet.
/// Throws UserError.
traces::DiffSide read_side(const std::string& folder);

/// Makes a side of a run of this process, without any file. `name` stands for the folder's path; `manifest`
/// needs the digests of the inputs alone. `events`: take_recording() of the run, or null. Ends a paused run.
traces::DiffSide side_of(runtime::Simulation& simulation, traces::Manifest manifest, std::string name,
                         std::shared_ptr<const traces::Recording> events);

/// A tensor that a program's text declares, from its `buffer` and `#! tensor` lines.
struct DeclaredTensor {
    std::string name, place;  ///< DRAM, L2, ...
    uint64_t bytes = 0;       ///< 0: not known
    bool between = false;     ///< operations: made by one for others
};
std::vector<DeclaredTensor> tensors_of(std::string_view program);

/// Reads the event files of two runs where both have events; says why there are none. Throws UserError on a damaged file.
void load_events(traces::DiffSide& a, traces::DiffSide& b);
/// Loads the events of one run, if it has any.
void load_events(traces::DiffSide& side);

}  // namespace kpu::compare
