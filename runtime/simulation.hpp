#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"
#include "isa/values/compute.hpp"
#include "isa/values/memory_image.hpp"
#include "model/control/data_path.hpp"
#include "platforms/platform.hpp"
#include "traces/event_log.hpp"
#include "traces/npy.hpp"
#include "traces/ops_csv.hpp"
#include "traces/stats.hpp"

namespace kpu::runtime {

enum class Mode : uint8_t {
    values_timing,  ///< values and time from one execution
    timing,         ///< no values: same cycles and energy
    functional      ///< no model: values, and an estimate of time
};

struct SimulationOptions {
    Mode mode = Mode::values_timing;
    ParamBindings params;
    bool strict = false;        ///< hazards found while running fail the run; lenient checks become errors
    bool hazards = true;        ///< report races and reads of unwritten bytes
    bool random_order = false;  ///< functional mode: any ready task next, by `seed`; else program order
    uint64_t seed = 0;
    Cycles max_cycles = UINT64_MAX;
    bool record_events = false;     ///< keep the event stream for traces
    bool oracle_stepper = false;    ///< one event per burst: the slow oracle of the memory stepper
    bool reference_values = false;  ///< the reference engine instead of the fast one: same bits
};

enum class RunStatus : uint8_t { finished, paused, deadlock, limit_reached, interrupted };

/// What a unit does now.
struct UnitState {
    std::string unit;
    std::string activity;  ///< group.cause
    std::string task;      ///< executing task, empty when none
};

/// A task that is issued and not complete.
struct TaskStatus {
    uint32_t serial = 0;
    std::string name;
    std::string iteration;             ///< "i=3"
    std::string state;                 ///< waiting, ready, running
    std::vector<std::string> missing;  ///< names of the tasks whose tokens it still needs
};

struct State {
    Cycles cycle = 0;
    std::vector<UnitState> units;
    std::vector<TaskStatus> tasks;
    uint64_t ddr_bytes = 0, l2_bytes = 0;
    std::vector<uint64_t> l1_bytes;
};

/// One program on one device: load, bind inputs, run or step, read results, reset, run again. Many may live
/// in one process, also interleaved; each owns its own SystemC context. Not for use from two threads at once.
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

    const std::vector<TensorSpec>& input_specs() const;
    const std::vector<TensorSpec>& output_specs() const;
    /// Binds a host array. Throws UserError on an unknown name, element type or element count that does not
    /// fit.
    void set_input(std::string_view name, const traces::NpyArray& array);
    /// Fills every input not yet set: zeros, or random values of its type from a seed.
    void fill_inputs_zero();
    void fill_inputs_random(uint64_t seed);
    std::vector<std::string> missing_inputs() const;

    /// Runs to the end, a limit, or an interrupt. After a run that ended, starts again from cycle 0 with the
    /// same inputs.
    RunStatus run(const std::atomic<bool>* interrupt = nullptr);
    /// Runs `cycles` core cycles further (functional mode: tasks).
    RunStatus step(Cycles cycles);
    /// Runs to the next task completion and names it.
    RunStatus step_task(std::string* completed);
    /// Back to cycle 0: memory cleared, inputs bound again.
    void reset();
    /// Frees memory and the device; only results stay.
    void unload();

    Cycles now() const;
    State state() const;
    std::string deadlock_report() const;

    traces::NpyArray output(std::string_view name) const;
    /// Bytes of a level, and typed regions as dense elements, while stopped.
    std::vector<uint8_t> read_bytes(Level level, unsigned engine, uint64_t address, uint64_t count) const;
    void write_bytes(Level level, unsigned engine, uint64_t address, const std::vector<uint8_t>& bytes);
    traces::NpyArray read_region(std::string_view name, const std::vector<int64_t>& loop_values = {}) const;
    void write_region(std::string_view name, const traces::NpyArray& array,
                      const std::vector<int64_t>& loop_values = {});

    /// Statistics, rows of ops.csv, hazards: complete once the run has ended, partial before.
    traces::StatSet stats() const;
    std::vector<traces::OpRow> op_rows() const;
    const std::vector<control::Hazard>& hazards() const;
    /// Events of the run; null unless recorded.
    const traces::EventLog* events() const;
    traces::RunInfo run_info() const;
    RunStatus status() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace kpu::runtime
