#pragma once

#include <string>

#include "runtime/simulation.hpp"
#include "traces/run_folder.hpp"
#include "traces/run_reader.hpp"

namespace kpu::runtime {

/// Writes what a run leaves: stats.json, ops.csv, manifest.json, program.nem, program.kern,
/// platform.textproto and the outputs. `ops`: the rows of the simulation, with estimates if there are others.
/// The caller gives the manifest its command line, its inputs and the paths of program and platform; the rest
/// is filled in here. Ends a paused run. Throws UserError.
/// stats.json says `"complete": false` until finish_saved_run(), which follows when traces are written too.
void save_run(traces::RunFolder& files, Simulation& simulation, const std::vector<traces::OpRow>& ops,
              traces::Manifest manifest);
/// Returns the same in memory, as traces::read_run() gives it of a folder: `name` stands for the folder's
/// path. Outputs by their digests. Ends a paused run.
traces::RunResults results_of(Simulation& simulation, traces::Manifest manifest, std::string name);
/// Writes stats.json as it stays. Throws UserError.
void finish_saved_run(const traces::RunFolder& files, Simulation& simulation);

}  // namespace kpu::runtime
