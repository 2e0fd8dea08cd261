#include "python/bindings/supervise.hpp"

#include <chrono>
#include <optional>

#include "python/bindings/bindings.hpp"
#include "python/bindings/workers.hpp"

namespace kpu::bindings {
namespace {

using runtime::RunStatus;

/// Period in which a run looks for Ctrl-C and other signals of Python.
constexpr int signal_period_ms = 50;

}  // namespace

RunStatus supervise(std::atomic<bool>& interrupt, double timeout_s, const std::function<RunStatus()>& work) {
    // one thread at a time is in a simulation: one that a simulation's own call-back starts stays in its
    // thread
    static thread_local bool simulates = false;
    if (simulates) {
        const py::gil_scoped_release release;
        return work();
    }
    RunStatus status = RunStatus::paused;
    std::exception_ptr failure;
    std::optional<py::error_already_set> signal;
    const auto begin = std::chrono::steady_clock::now();
    const auto out_of_time = [&] {
        return timeout_s > 0 &&
               std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(timeout_s);
    };
    {
        const py::gil_scoped_release release;
        const std::function<void()> watched = [&] {
            simulates = true;
            try {
                status = work();
            } catch (...) {
                failure = std::current_exception();
            }
        };
        Worker worker(watched);
        while (!worker.wait(signal_period_ms)) {
            if (out_of_time()) interrupt = true;
            if (signal) continue;
            const py::gil_scoped_acquire acquire;
            if (PyErr_CheckSignals() != 0) {
                signal.emplace();
                interrupt = true;
            }
        }
    }
    if (signal) throw std::move(*signal);
    if (failure) std::rethrow_exception(failure);
    return status;
}

}  // namespace kpu::bindings
