#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "execution/data_path.hpp"
#include "platforms/platform.hpp"
#include "runtime/state.hpp"
#include "traces/kernel_rows.hpp"
#include "traces/run_info.hpp"
#include "traces/stats.hpp"
#include "traces/writers.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::runtime {

/// Runs one program from its begin to its end, once. Two ways do it: on the model, and without one.
class Driver {
  public:
    static constexpr uint64_t no_end = UINT64_MAX;

    virtual ~Driver() = default;
    /// Goes on for so many core cycles; without a model, for so many tasks. Never past the run's own limit.
    virtual RunStatus advance(uint64_t steps, const std::atomic<bool>* interrupt) = 0;
    /// Goes on to the next completion, for so many core cycles at most.
    virtual RunStatus advance_task(uint64_t most, const std::atomic<bool>* interrupt) = 0;

    /// Makes advance() return now; called from within it, by a probe of kernels. Without a model there is
    /// nothing between tasks.
    virtual void pause() {}

    virtual Cycles now() const = 0;  ///< without a model: an estimate of the time of what was executed
    virtual uint64_t completed() const = 0;
    virtual uint64_t completions(uint32_t statement) const = 0;
    /// Returns when the last instance of a statement completed; nothing without a model.
    virtual std::optional<Cycles> completed_at(uint32_t) const { return std::nullopt; }
    virtual Completion last_completion() const = 0;  ///< after at least one
    /// Fills in the units and tasks of `state`.
    virtual void describe(State& state) const = 0;
    virtual std::string deadlock_report() const = 0;
    virtual const execution::HazardLog& hazards() const = 0;
    /// Returns the results of each task; empty without values.
    virtual std::vector<values::Executor::Results> results() const = 0;
    /// Warnings that only the run could tell.
    virtual Diagnostics findings() const { return {}; }
    virtual std::vector<traces::UnitInfo> units() const { return {}; }  ///< units of the model

    /// Ends the run here: advance() may not be called any more.
    virtual void finish(traces::StatSet& stats) = 0;
    /// Returns, after finish(), the rows of operations; only the model knows.
    virtual std::vector<traces::OpRow> op_rows() const { return {}; }
    /// Returns, after finish(), what the statements of kernels cost; only the model knows.
    virtual std::vector<traces::KernelRow> kernel_rows() const { return {}; }
    /// Fills in, after finish(), what the model knows of the run.
    virtual void describe(traces::RunInfo&) const {}
};

/// Program and settings of a driver. References outlive it.
struct DriverParts {
    const BoundProgram& program;
    const DeviceLimits& limits;
    const std::optional<platforms::Platform>& platform;
    values::MemoryImage* memory = nullptr;         ///< null: no values
    values::ComputeBackend* backend = nullptr;     ///< null: no values
    traces::EventSink* sink = nullptr;             ///< may be null
    const traces::EnergyPrices* prices = nullptr;  ///< prices of the platform
};
struct SimulationOptions;

std::unique_ptr<Driver> make_timed_driver(const DriverParts& parts, const SimulationOptions& options);
std::unique_ptr<Driver> make_functional_driver(const DriverParts& parts, const SimulationOptions& options);

}  // namespace kpu::runtime
