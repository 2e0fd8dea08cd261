// The driver on the model: values and time, or time alone.
#include <algorithm>

#include "isa/iterations.hpp"
#include "model/device/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/simulation.hpp"

namespace kpu::runtime {
namespace {

class TimedDriver final : public Driver {
  public:
    TimedDriver(const DriverParts& parts, const SimulationOptions& options)
        : program_(parts.program),
          max_cycles_(options.max_cycles),
          device_(*parts.platform, parts.program, parts.memory, device_options(parts, options)) {}

    RunStatus advance(uint64_t steps, const std::atomic<bool>* interrupt) override {
        return run(end_of(steps), false, interrupt);
    }
    RunStatus advance_task(uint64_t most, const std::atomic<bool>* interrupt) override {
        return run(end_of(most), true, interrupt);
    }

    void pause() override { device_.pause(); }

    Cycles now() const override { return device_.now(); }
    uint64_t completed() const override { return device_.state().completed; }
    uint64_t completions(uint32_t statement) const override { return device_.completions(statement); }
    std::optional<Cycles> completed_at(uint32_t statement) const override {
        if (device_.completions(statement) == 0) return std::nullopt;
        return device_.completed_at(statement);
    }
    Completion last_completion() const override {
        const auto last = device_.last_completed();
        Completion completion{last.serial, last.statement,
                              program_.tasks[program_.statements[last.statement].index].name,
                              kpu::iteration_text(program_, last.statement, last.loops), ""};
        if (last.unit != traces::no_unit) completion.unit = device_.units()[last.unit].name;
        return completion;
    }
    void describe(State& state) const override {
        const auto device_state = device_.state();
        for (const auto& unit : device_state.units) {
            state.units.push_back(
                {device_.units()[unit.unit].name, std::string(traces::full_name_of(unit.cause))});
        }
        for (const auto& task : device_state.tasks) {
            state.tasks.push_back({task.serial, task.statement, task.name,
                                   std::string(execution::name_of(task.state)), task.missing});
        }
    }
    std::string deadlock_report() const override { return device_.explain_deadlock(); }
    const execution::HazardLog& hazards() const override {
        static const execution::HazardLog none;
        const execution::HazardLog* found = device_.hazards();
        return found != nullptr ? *found : none;
    }
    Diagnostics findings() const override { return device_.findings(); }
    std::vector<values::Executor::Results> results() const override { return device_.results(); }
    std::vector<traces::UnitInfo> units() const override { return device_.units(); }

    void finish(traces::StatSet& stats) override { device_.finish(stats); }
    std::vector<traces::OpRow> op_rows() const override { return device_.op_rows(); }
    std::vector<traces::KernelRow> kernel_rows() const override { return device_.kernel_rows(); }
    void describe(traces::RunInfo& info) const override {
        info.units = device_.units();
        info.works = device_.works();
        info.total_cycles = device_.now();
        info.end_ps = info.clock().edge(info.total_cycles);
    }

  private:
    static model::DeviceOptions device_options(const DriverParts& parts, const SimulationOptions& options) {
        model::DeviceOptions result;
        result.oracle_stepper = options.oracle_stepper;
        result.sink = parts.sink;
        result.accesses = options.record_accesses;
        result.prices = parts.prices;
        result.backend = parts.backend;
        result.hazards = options.hazards;
        return result;
    }

    Cycles end_of(uint64_t steps) const {
        const Cycles left = max_cycles_ - std::min(max_cycles_, now());
        return steps < left ? now() + steps : max_cycles_;
    }

    RunStatus run(Cycles until, bool stop_at_task, const std::atomic<bool>* interrupt) {
        const uint32_t before = device_.last_completed().serial;
        const RunStatus status = device_.run(until, stop_at_task, interrupt);
        const bool at_task = stop_at_task && device_.last_completed().serial != before;
        return status == RunStatus::paused && !at_task && now() >= max_cycles_ ? RunStatus::limit_reached
                                                                               : status;
    }

    const BoundProgram& program_;
    const Cycles max_cycles_;
    model::Device device_;
};

}  // namespace

std::unique_ptr<Driver> make_timed_driver(const DriverParts& parts, const SimulationOptions& options) {
    return std::make_unique<TimedDriver>(parts, options);
}

}  // namespace kpu::runtime
