#pragma once
// The device's own parts; only model/device includes this.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "model/accounting/accounting.hpp"
#include "model/accounting/energy_booking.hpp"
#include "model/accounting/kernel_profile.hpp"
#include "model/accounting/task_trace.hpp"
#include "model/device/device.hpp"
#include "model/device/sim_context.hpp"
#include "model/memory/interconnect.hpp"
#include "model/memory/memory_target.hpp"
#include "model/sequencer/task_arbiter.hpp"
#include "model/unit/unit.hpp"
#include "platforms/platform.hpp"
#include "traces/ledger.hpp"

namespace kpu::model {

class Device::Impl {
  public:
    Impl(const proto::Platform& platform, const BoundProgram& program, values::MemoryImage* memory,
         const DeviceOptions& options);
    ~Impl();

    RunStatus run(Cycles until_cycle, bool stop_at_task, const std::atomic<bool>* interrupt);
    void finish(traces::StatSet& stats);
    std::vector<traces::OpRow> op_rows() const;
    State state() const;
    std::string module_list() const;
    std::vector<traces::TaskWork> works() const;
    void pause();
    Cycles now() const;
    std::string task_name(const execution::TaskInstance& task) const;

    const proto::Platform& platform;
    const BoundProgram& program;
    const DeviceOptions options;
    const Clock core;
    const platforms::Engines engines;
    const std::vector<traces::UnitInfo> units;

    values::MemoryImage* memory;  ///< the caller's, or own_memory
    std::unique_ptr<values::MemoryImage> own_memory;
    std::unique_ptr<execution::Controller> controller;
    std::unique_ptr<execution::DataPath> data;
    std::unique_ptr<traces::EnergyLedger> ledger;
    std::unique_ptr<TaskBoard> board;
    // who listens to what becomes of tasks
    std::unique_ptr<TaskObserver> data_observer;  ///< values and hazards; null: neither
    std::unique_ptr<Accounting> accounting;
    std::unique_ptr<TaskTrace> trace;  ///< null: no sink
    std::unique_ptr<WorkCounts> work;
    std::unique_ptr<KernelProfile> kernels;
    std::unique_ptr<EnergyBooking> energy;
    TaskObservers observers;
    StopControl stop;
    ErrorSlot errors;
    mutable SimContext context;
    std::unique_ptr<Interconnect> interconnect;
    std::vector<std::unique_ptr<MemoryTarget>> memories;
    std::unique_ptr<TaskArbiter> arbiter;
    std::vector<std::unique_ptr<Unit>> task_units;  ///< indexed by unit id; null for units without tasks
    std::vector<std::unique_ptr<Sequencer>> sequencers;
    std::vector<std::pair<std::string, std::string>> bindings;

  private:
    using Steps = std::vector<std::function<void()>>;
    void build();
    void add_task_units(Steps& make, Steps& wire);
    void add_memories(Steps& make, Steps& wire);
    void add_sequencers(Steps& make, Steps& wire);
    void add_arbiter(Steps& make, Steps& wire);
    void in_order(Steps& steps) const;
    std::unique_ptr<Unit> make_task_unit(uint16_t unit);
    std::vector<uint16_t> units_of_resources() const;
    void trace_memories();
    template <class Initiator, class Target>
    void bind(Initiator& initiator, Target& target);
    void count_statistics(traces::StatSet& stats);
    void unit_statistics(traces::StatSet& stats, std::vector<uint64_t>& busy);
    void array_statistics(traces::StatSet& stats);
    void resource_statistics(traces::StatSet& stats, std::vector<uint64_t>& busy);
    void busy_statistics(traces::StatSet& stats, const std::vector<uint64_t>& busy);
    void memory_statistics(traces::StatSet& stats);

    Cycles now_ = 0;
    Cycles step_end_ = 0;
    bool inside_ = false;  ///< the kernel runs, and calls whoever asks for the time
    bool ended_ = false;
    bool energy_modelled_ = true;
};

}  // namespace kpu::model
