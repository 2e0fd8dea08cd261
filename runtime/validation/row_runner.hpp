#pragma once
// Rows of measurements, simulated.
#include <atomic>
#include <map>
#include <string>

#include "isa/module.hpp"
#include "platforms/platform.hpp"
#include "runtime/validation/measured.hpp"

namespace kpu::validation {

/// Shares of the array's cycles of a simulated row, by what they went to.
struct Causes {
    double useful = 0, fill_drain = 0, padding = 0;
    double stalled = 0;   ///< waiting for data or for other work
    std::string largest;  ///< largest stall, as docs/stall_causes.md names them; empty: none
};

struct Run {
    double cycles = 0;
    double dram_bytes = 0;
    Causes causes;
};

class RowRunner {
  public:
    RowRunner(const platforms::Platform& platform, const std::atomic<bool>* interrupt);
    Run run(Module module);
    /// Runs what the row has measured. Kernels follow each other, and the first one pays for the launch.
    /// Throws UserError for what does not fit the platform.
    Run run(const MeasuredRow& row);

  private:
    const platforms::Platform& platform_;
    platforms::Platform behind_;  ///< without a launch
    const std::atomic<bool>* interrupt_;
    std::map<std::string, Run> known_;
};

/// Times of a row in cycles of the platform.
void to_cycles(MeasuredRow& row, const platforms::Platform& platform);

}  // namespace kpu::validation
