#pragma once

#include <cstdint>

#include "runtime/run_estimate.hpp"
#include "runtime/simulation.hpp"

namespace kpu::cli {

/// Care for runs that take long: a time limit, memory, disk, a line of progress.
class LongRun {
  public:
    /// Warns, before anything is simulated, when the run may need more memory than there is; refuses when its
    /// events will need more of the disk, and nothing limits the run. Throws UserError.
    void prepare(const BoundProgram& program, const runtime::SimulationOptions& options);
    /// Runs to the end, the time limit, an interrupt, or until memory or disk are nearly used up. `watched`: a
    /// person sees standard error.
    runtime::RunStatus run(runtime::Simulation& simulation, bool watched);

    enum class Stop : uint8_t { none, time, memory, disk };
    Stop stop() const { return stop_; }  ///< why run() stopped by itself

  private:
    double tasks_ = 0;  ///< expected
    bool recording_ = false;
    Stop stop_ = Stop::none;
};

}  // namespace kpu::cli
