#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/npy.hpp"
#include "execution/hazards.hpp"
#include "isa/bound_program.hpp"
#include "platforms/platform.hpp"
#include "runtime/state.hpp"
#include "traces/event_file.hpp"
#include "traces/kernel_rows.hpp"
#include "traces/stats.hpp"
#include "traces/writers.hpp"

namespace kpu::values {
class ComputeBackend;
}

namespace kpu::runtime {

enum class Mode : uint8_t {
    values_timing,  ///< values and time from one execution
    timing,         ///< no values: same cycles and energy
    functional      ///< no model: values, and an estimate of time
};

struct SimulationOptions {
    Mode mode = Mode::values_timing;
    ParamBindings params;
    bool strict = false;        ///< lenient checks become errors
    bool retarget = false;      ///< takes a program that was compiled for another device
    bool hazards = true;        ///< report races and reads of unwritten bytes
    bool random_order = false;  ///< functional mode: any ready task next, by `seed`; else program order
    uint64_t seed = 0;
    Cycles max_cycles = UINT64_MAX;
    uint64_t max_steps =
        UINT64_MAX;                ///< functional mode: statements of invocations that one kernel may execute
    bool sheds_text = false;       ///< nobody else needs the module: what is bound of it goes
    bool record_events = false;    ///< keep the event stream for traces
    double bin_ns = 0;             ///< width of the bins of power and bandwidth; 0: the platform's
    bool record_accesses = false;  ///< in it also every request to a memory, for the memory trace
    /// Gets the event stream as it comes instead of it being kept: records of one unit in order of time, the
    /// last ones when the run is ended (stats()). It must outlive the simulation.
    traces::EventSink* observer = nullptr;
    bool oracle_stepper = false;    ///< one event per burst: the slow oracle of the memory stepper
    bool reference_values = false;  ///< the reference engine instead of the fast one: same bits
    /// Computes instead of an engine of ours, for cross-checks: its bits count. It must outlive the
    /// simulation.
    values::ComputeBackend* backend = nullptr;
};

/// Called now and then during a run: core cycle, tasks completed so far.
using Progress = std::function<void(Cycles, uint64_t)>;

/// A program on a device: load, bind inputs, run or step, read results, reset, run again. Many may live in
/// one process, also interleaved; each owns its own SystemC context. Not for use from two threads at once.
///
///     auto simulation = Simulation(program, platforms::load("npm_lite"), {});
///     simulation.set_input("x", array);
///     simulation.run();
///     auto y = simulation.output("y");
class Simulation {
  public:
    /// Verifies the program for the device, binds parameters, allocates. `platform` null: device-agnostic,
    /// functional mode only. Throws UserError with every finding; warnings are kept in diagnostics().
    Simulation(std::shared_ptr<const Module> module, const platforms::Platform* platform,
               SimulationOptions options);
    ~Simulation();
    Simulation(Simulation&&) noexcept;
    Simulation& operator=(Simulation&&) noexcept;

    const Diagnostics& diagnostics() const;
    const BoundProgram& program() const;
    const SimulationOptions& options() const;
    const platforms::Platform* platform() const;  ///< null: device-agnostic

    const std::vector<TensorSpec>& input_specs() const;
    const std::vector<TensorSpec>& output_specs() const;
    /// Binds a host array. Throws UserError on an unknown name, element type or shape; `origin` names the
    /// array in it.
    void set_input(std::string_view name, const NpyArray& array, const std::string& origin = "array");
    /// Refuses what set_input() would; the array's data need not be there yet.
    void check_input(std::string_view name, const NpyArray& array, const std::string& origin) const;
    /// Fills every input not yet set: zeros, or random values of its type from a seed.
    void fill_inputs_zero();
    void fill_inputs_random(uint64_t seed);
    std::vector<std::string> missing_inputs() const;

    /// Runs to the end, a limit, or an interrupt. After a run that ended, starts again from cycle 0 with the
    /// same inputs.
    RunStatus run(const std::atomic<bool>* interrupt = nullptr, const Progress& progress = {});
    /// Runs `cycles` core cycles further (functional mode: that many tasks).
    RunStatus step(Cycles cycles, const std::atomic<bool>* interrupt = nullptr);
    /// Runs to the next task completion, `most` core cycles at most.
    RunStatus step_task(Completion* completed = nullptr, const std::atomic<bool>* interrupt = nullptr,
                        Cycles most = UINT64_MAX);
    /// Pauses from within a step, by a probe of kernels: with time, the step ends at the present cycle.
    void pause();
    /// Goes back to cycle 0: memory cleared, inputs bound again.
    void reset();

    RunStatus status() const;  ///< paused before the first step
    /// True if the results are those of a whole run: it finished, with hazards or without.
    bool complete() const;
    Cycles now() const;  ///< functional mode: the estimate of the time of what was executed
    State state() const;
    std::string deadlock_report() const;

    /// Returns a dense array of an output tensor, as it is now. Throws UserError on an unknown name or in
    /// timing mode.
    NpyArray output(std::string_view name) const;
    /// Returns a tensor of the program or a whole buffer, by name, as it is now. A tensor has its shape; a
    /// buffer has one dimension and the type of its regions, u8 when they differ. Throws UserError as
    /// output().
    NpyArray read(std::string_view name) const;
    std::vector<std::string> stored_names() const;  ///< names that read() takes
    /// Returns the bytes of a level, while stopped. Throws UserError outside the allocated memory and in
    /// timing mode.
    std::vector<uint8_t> read_bytes(Level level, unsigned engine, uint64_t address, uint64_t count) const;
    void write_bytes(Level level, unsigned engine, uint64_t address, const std::vector<uint8_t>& bytes);
    /// Returns a region by name as a dense array; `loop_values` for regions that move with loop variables,
    /// outermost first.
    NpyArray read_region(std::string_view name, const std::vector<int64_t>& loop_values = {}) const;
    void write_region(std::string_view name, const NpyArray& array,
                      const std::vector<int64_t>& loop_values = {});

    /// Statistics and rows of ops.csv. Asking ends a paused run here: the next run() starts again from cycle
    /// 0.
    const traces::StatSet& stats();
    /// Statistics of this run, also when another one was begun.
    std::shared_ptr<const traces::StatSet> shared_stats();
    const std::vector<traces::OpRow>& op_rows();
    /// Makes what a run needs, which takes its time for long programs; else run() does.
    void prepare();
    std::vector<traces::OpRow> take_op_rows();  ///< as the caller's own
    /// Returns what the statements of kernels cost, where time was modelled.
    std::vector<traces::KernelRow> kernel_rows();
    /// Returns the completed instances of a task statement so far.
    uint64_t completions(uint32_t statement) const;
    /// Puts inputs into memory, as the first step does, so that it can be looked at before.
    void place_inputs();
    /// Races and reads of unwritten bytes so far.
    const execution::HazardLog& hazards() const;
    /// Returns what only the run could tell: in functional mode, more tasks in flight than the device's token
    /// table holds, so that with timing issue would stall.
    Diagnostics run_findings() const;
    /// Returns what it could tell of these inputs' values: results that left the range of their type, outputs
    /// that are not finite though the inputs are. No fault of the program.
    Diagnostics value_findings() const;
    /// Returns the units of the device, by the number that events give; of none before the first step, and in
    /// functional mode.
    std::vector<traces::UnitInfo> units() const;
    /// Parts of run_info(), which names every statement of the program.
    std::string_view mode_name() const;
    traces::EnergyPrices energy_prices() const;  ///< prices of the platform; none without one
    /// Returns what is known of the run, for reports and traces; ends a paused run.
    traces::RunInfo run_info();
    /// Returns the recorded events, in order of time; leaves none. Ends a paused run.
    traces::Recording take_recording();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace kpu::runtime
