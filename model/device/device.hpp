#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "execution/data_path.hpp"
#include "execution/run_status.hpp"
#include "isa/bound_program.hpp"
#include "platforms/platform.pb.h"
#include "traces/event.hpp"
#include "traces/kernel_rows.hpp"
#include "traces/stats.hpp"
#include "traces/task_work.hpp"
#include "traces/writers.hpp"
#include "values/compute.hpp"
#include "values/memory_image.hpp"

namespace kpu::model {

using execution::RunStatus;

struct DeviceOptions {
    bool oracle_stepper = false;                   ///< one kernel event per burst: slow, same results
    traces::EventSink* sink = nullptr;             ///< receives every event of the run
    bool accesses = false;                         ///< to the sink also every request to a memory
    const traces::EnergyPrices* prices = nullptr;  ///< prices of the platform; null: found anew
    values::ComputeBackend* backend = nullptr;     ///< null: timing only
    bool hazards = true;                           ///< look for races and reads of bytes that nobody wrote
    /// Other than 0: the modules are made and bound in an order shuffled by this seed. Changes nothing that a
    /// run shows; tests prove it.
    uint64_t construction_seed = 0;
};

/// A program on a device: the modules of a platform in a simulation context of their own. device.md.
/// The platform, program and memory image must outlive it. No SystemC in this interface.
class Device {
  public:
    /// memory: null when there is no backend. Throws UserError when the program needs what the platform
    /// lacks.
    Device(const proto::Platform& platform, const BoundProgram& program, values::MemoryImage* memory,
           const DeviceOptions& options);
    Device(proto::Platform&&, const BoundProgram&, values::MemoryImage*, const DeviceOptions&) = delete;
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    static constexpr Cycles no_limit = ~Cycles{0};
    /// Goes on until core cycle `until_cycle` (what completes at its edge included), the end, or, if
    /// `stop_at_task`, the next completion: paused there, unless finished. May be called again. Throws what
    /// the model throws (UserError, SimulationError, InternalError).
    RunStatus run(Cycles until_cycle = no_limit, bool stop_at_task = false,
                  const std::atomic<bool>* interrupt = nullptr);

    /// Makes run() return at the present time, paused. Called from within run(), by what it calls.
    void pause();

    /// Returns core edges before the present time; after a finished run, cycles.total.
    Cycles now() const;
    const std::vector<traces::UnitInfo>& units()
        const;  ///< unit id = index; the device itself is the last one

    struct Completed {
        uint32_t serial = traces::no_task;  ///< no_task: none yet
        uint32_t statement = 0;
        LoopValues loops;
        uint16_t unit = traces::no_unit;
        Cycles start = 0, end = 0;
    };
    Completed last_completed() const;
    uint64_t completions(uint32_t statement) const;  ///< completed instances of a task statement
    Cycles completed_at(uint32_t statement) const;   ///< when the last of them completed

    struct UnitState {
        uint16_t unit = traces::no_unit;
        traces::Cause cause = traces::Cause::idle_no_work;
        uint32_t task = traces::no_task;  ///< executing, or waited for
    };
    struct TaskStatus {
        uint32_t serial = 0;
        uint32_t statement = 0;
        std::string name;  ///< token name and iteration
        execution::TaskState state = execution::TaskState::waiting;
        uint16_t unit = traces::no_unit;  ///< running
        std::vector<uint32_t> missing;    ///< serials of the tasks whose tokens it misses, as far as issued
    };
    struct State {
        Cycles cycle = 0;
        std::vector<UnitState> units;
        std::vector<TaskStatus> tasks;  ///< live, in order of issue
        uint64_t issued = 0, completed = 0;
    };
    State state() const;
    /// Explains after a deadlock what waits for what.
    std::string explain_deadlock() const;

    /// Ends the run here: no run() afterwards. Fills in every key of the statistics.
    void finish(traces::StatSet& stats);
    /// Returns, after finish(), a row for each operation, the background last.
    std::vector<traces::OpRow> op_rows() const;
    /// Returns, after finish(), what the statements of kernels cost.
    std::vector<traces::KernelRow> kernel_rows() const;
    traces::EnergyLedger& ledger();
    /// Returns what the traced tasks did; index = value of their work records. Empty without a sink.
    std::vector<traces::TaskWork> works() const;
    /// Races and reads of unwritten bytes found so far; null when neither values nor hazards were asked for.
    const execution::HazardLog* hazards() const;
    std::vector<values::Executor::Results> results() const;  ///< indexed by task; empty without values
    Diagnostics findings() const;                            ///< accesses of kernels outside of their buffers

    /// Bytes of completed streams that a unit's memory socket read and wrote, by level.
    struct SocketBytes {
        std::array<uint64_t, 3> read{}, written{};
    };
    SocketBytes socket_bytes(uint16_t unit) const;

    /// Returns the modules as an indented tree, then every binding "initiator -> target"; one line each.
    std::string module_list() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

/// Sets hazards.count, hazards.<kind>, hazards.benign.
void hazard_statistics(const execution::HazardLog& log, traces::StatSet& stats);

/// Returns the module list of a platform without a program.
std::string list_modules(const proto::Platform& platform);
/// Returns the units of a platform, in order of unit id.
std::vector<traces::UnitInfo> unit_table(const proto::Platform& platform);

}  // namespace kpu::model
