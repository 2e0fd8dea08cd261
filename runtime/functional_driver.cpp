// The driver without a model: values, and an estimate of time.
#include <fmt/format.h>

#include "execution/functional.hpp"
#include "isa/iterations.hpp"
#include "runtime/driver.hpp"
#include "runtime/functional_estimate.hpp"
#include "runtime/simulation.hpp"
#include "values/kernel/task.hpp"

namespace kpu::runtime {
namespace {

class UntimedDriver final : public Driver {
  public:
    UntimedDriver(const DriverParts& parts, const SimulationOptions& options)
        : program_(parts.program),
          limits_(parts.limits),
          platform_(parts.platform),
          tasks_(parts.program, *parts.memory, *parts.backend, functional_options(parts, options)) {}

    RunStatus advance(uint64_t steps, const std::atomic<bool>* interrupt) override {
        try {
            return tasks_.run(steps, interrupt);
        } catch (const values::kernel::StepLimitError& error) {
            beyond_limit_ = error.what();
            return RunStatus::limit_reached;
        }
    }
    RunStatus advance_task(uint64_t, const std::atomic<bool>* interrupt) override {
        return advance(1, interrupt);
    }

    Cycles now() const override { return estimate_cycles(program_, tasks_, platform_); }
    uint64_t completed() const override { return tasks_.completed(); }
    uint64_t completions(uint32_t statement) const override {
        return tasks_.executions()[program_.statements[statement].index];
    }
    Completion last_completion() const override {
        const auto& last = tasks_.last_completed();
        return {last.serial, last.statement, program_.tasks[program_.statements[last.statement].index].name,
                kpu::iteration_text(program_, last.statement, last.loops), ""};
    }
    /// None of the live tasks is running, since each is run at once.
    void describe(State& state) const override {
        const execution::Controller& controller = tasks_.controller();
        for (const execution::TaskInstance* task : controller.live()) {
            std::vector<uint32_t> missing;
            for (const uint32_t serial : task->producers) {
                if (controller.find(serial) != nullptr) missing.push_back(serial);
            }
            const std::string iteration = execution::iteration_text(program_, *task);
            state.tasks.push_back(
                {task->serial, task->statement,
                 iteration.empty() ? task->task->name : fmt::format("{} ({})", task->task->name, iteration),
                 std::string(execution::name_of(task->state)), std::move(missing)});
        }
    }
    std::string deadlock_report() const override { return tasks_.controller().explain_block(); }
    const execution::HazardLog& hazards() const override { return tasks_.hazards(); }
    Diagnostics findings() const override;
    std::vector<values::Executor::Results> results() const override { return tasks_.results(); }

    /// Returns what operations made, without its time.
    std::vector<traces::OpRow> op_rows() const override {
        std::vector<traces::OpRow> rows(program_.ops.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            rows[i].id = program_.ops[i].id;
            rows[i].type = program_.ops[i].type;
            rows[i].timed = rows[i].energy_modelled = false;
        }
        return rows;
    }

    void finish(traces::StatSet& stats) override { functional_stats(program_, tasks_, platform_, stats); }

  private:
    static execution::FunctionalOptions functional_options(const DriverParts& parts,
                                                           const SimulationOptions& options) {
        execution::FunctionalOptions result;
        result.random_order = options.random_order;
        result.seed = options.seed;
        result.num_engines = parts.limits.num_engines;
        result.report_hazards = options.hazards;
        result.kernel_steps = options.max_steps;
        return result;
    }

    const BoundProgram& program_;
    const DeviceLimits& limits_;
    const std::optional<platforms::Platform>& platform_;
    execution::FunctionalDriver tasks_;
    std::string beyond_limit_;  ///< tasks in flight beyond the token table; empty: none
};

/// Warns of more tasks in flight than the device's token table holds: with timing, issue would stall there.
/// Nobody is told of a compiled program: it was planned for this table, and has no window that its user could
/// narrow.
Diagnostics UntimedDriver::findings() const {
    Diagnostics found = tasks_.findings();
    if (!beyond_limit_.empty()) found.error({}, beyond_limit_);
    if (program_.module != nullptr && !program_.module->program.target_hash().empty()) return found;
    const std::vector<uint32_t>& peaks = tasks_.peak_tokens();
    for (size_t engine = 0; engine < peaks.size() && limits_.max_active_tokens > 0; ++engine) {
        if (peaks[engine] <= limits_.max_active_tokens) continue;
        found.warning(
            {program_.module != nullptr ? program_.module->origin : std::string(), 0, 0},
            fmt::format("engine {} had {} tasks in flight, but `{}` has max_active_tokens = {}: with timing "
                        "issue stalls there. Fix: narrow @max_in_flight, or accept the stalls.",
                        engine, peaks[engine], limits_.name, limits_.max_active_tokens));
    }
    return found;
}

}  // namespace

std::unique_ptr<Driver> make_functional_driver(const DriverParts& parts, const SimulationOptions& options) {
    return std::make_unique<UntimedDriver>(parts, options);
}

}  // namespace kpu::runtime
