#pragma once

#include <atomic>
#include <functional>

#include "runtime/simulation.hpp"

namespace kpu::bindings {

/// Runs `work` in a thread of its own and looks for signals meanwhile, without holding the interpreter lock: a signal whose
/// handler raises (Ctrl-C) sets `interrupt`, waits for the work to stop, and is raised then. So does the end of
/// `timeout_s` seconds (0: no limit), which raises nothing: the work then says that it was interrupted.
runtime::RunStatus supervise(std::atomic<bool>& interrupt, double timeout_s,
                             const std::function<runtime::RunStatus()>& work);

}  // namespace kpu::bindings
