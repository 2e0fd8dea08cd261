#include "execution/functional.hpp"

#include <algorithm>

#include "isa/mac_share.hpp"
#include "values/kernel/task.hpp"

namespace kpu::execution {
namespace {

ControlOptions control_options(const FunctionalOptions& options) {
    ControlOptions result;
    result.num_engines = options.num_engines;
    return result;
}

}  // namespace

FunctionalDriver::FunctionalDriver(const BoundProgram& program, values::MemoryImage& memory,
                                   values::ComputeBackend& backend, const FunctionalOptions& options)
    : program_(program),
      options_(options),
      random_(options.seed),
      executions_(program.tasks.size(), 0),
      peak_tokens_(options.num_engines, 0),
      controller_(program, control_options(options), *this),
      data_(program, &memory, &backend, options.report_hazards) {
    data_.limit_kernels(options.kernel_steps);
}

RunStatus FunctionalDriver::run(uint64_t tasks, const std::atomic<bool>* interrupt) {
    if (!data_.prepare(interrupt)) return RunStatus::interrupted;
    if (!started_) {
        started_ = true;
        controller_.start();
        note_tokens();
    }
    data_.interrupt_kernels(interrupt);
    for (; halted_ != nullptr || !ready_.empty(); --tasks) {
        if (interrupt && interrupt->load(std::memory_order_relaxed)) return RunStatus::interrupted;
        if (controller_.completed_count() >= options_.max_tasks) return RunStatus::limit_reached;
        if (tasks == 0) return RunStatus::paused;
        TaskInstance& instance = halted_ != nullptr ? *halted_ : start_next();
        halted_ = &instance;
        try {
            data_.task_completed(instance);
        } catch (const values::kernel::LaunchInterrupted&) {
            return RunStatus::interrupted;
        }
        halted_ = nullptr;
        last_ = {instance.serial, instance.statement, instance.loops};
        ++executions_[program_.statements[instance.statement].index];
        controller_.completed(instance);
        note_tokens();
    }
    return controller_.finished() ? RunStatus::finished : RunStatus::deadlock;
}

void FunctionalDriver::note_tokens() {
    for (unsigned engine = 0; engine < peak_tokens_.size(); ++engine) {
        peak_tokens_[engine] = std::max(peak_tokens_[engine], controller_.tokens_in_flight(engine));
    }
}

void FunctionalDriver::on_ready(TaskInstance& instance) {
    ready_.push_back({options_.random_order ? random_.next() : 0, &instance});
    std::push_heap(ready_.begin(), ready_.end());
}

TaskInstance& FunctionalDriver::start_next() {
    std::pop_heap(ready_.begin(), ready_.end());
    TaskInstance& instance = *ready_.back().instance;
    ready_.pop_back();
    controller_.started(instance);
    data_.task_started(instance);
    return instance;
}

TaskTraffic FunctionalDriver::total_traffic() const {
    TaskTraffic total;
    std::vector<uint64_t> macs(program_.ops.size());  // by operation
    for (size_t i = 0; i < program_.tasks.size(); ++i) {
        const TaskTraffic work = traffic_of(program_, program_.tasks[i]);
        macs[program_.tasks[i].op] += executions_[i] * work.macs;
        for (size_t level = 0; level < total.read.size(); ++level) {
            total.read[level] += executions_[i] * work.read[level];
            total.written[level] += executions_[i] * work.written[level];
        }
    }
    for (size_t op = 0; op < macs.size(); ++op) total.macs += mac_share(program_, op).useful(macs[op]);
    return total;
}

}  // namespace kpu::execution
