#include "model/control/functional.hpp"

#include <algorithm>

namespace kpu::control {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every machine and library.
uint64_t next_random(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

bool later(const TaskInstance* a, const TaskInstance* b) { return a->serial > b->serial; }

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
      random_state_(options.seed),
      executions_(program.tasks.size(), 0),
      controller_(program, control_options(options), *this),
      data_(program, &memory, &backend, options.report_hazards) {}

FunctionalStatus FunctionalDriver::run(uint64_t tasks, const std::atomic<bool>* interrupt) {
    if (!started_) {
        started_ = true;
        controller_.start();
    }
    for (; !ready_.empty(); --tasks) {
        if (interrupt && interrupt->load(std::memory_order_relaxed)) return FunctionalStatus::interrupted;
        if (controller_.completed_count() >= options_.max_tasks) return FunctionalStatus::limit_reached;
        if (tasks == 0) return FunctionalStatus::paused;
        TaskInstance& instance = take();
        controller_.started(instance);
        data_.task_started(instance);
        data_.task_completed(instance);
        last_ = {instance.serial, instance.statement, instance.loops};
        ++executions_[program_.statements[instance.statement].index];
        controller_.completed(instance);
    }
    return controller_.finished() ? FunctionalStatus::finished : FunctionalStatus::deadlock;
}

void FunctionalDriver::on_ready(TaskInstance& instance) {
    ready_.push_back(&instance);
    if (!options_.random_order) std::push_heap(ready_.begin(), ready_.end(), later);
}

TaskInstance& FunctionalDriver::take() {
    if (options_.random_order) {
        std::swap(ready_[next_random(random_state_) % ready_.size()], ready_.back());
    } else {
        std::pop_heap(ready_.begin(), ready_.end(), later);
    }
    TaskInstance& instance = *ready_.back();
    ready_.pop_back();
    return instance;
}

TaskWork FunctionalDriver::total_work() const {
    TaskWork total;
    for (size_t i = 0; i < program_.tasks.size(); ++i) {
        const TaskWork work = work_of(program_, program_.tasks[i]);
        total.macs += executions_[i] * work.macs;
        for (size_t level = 0; level < total.read.size(); ++level) {
            total.read[level] += executions_[i] * work.read[level];
            total.written[level] += executions_[i] * work.written[level];
        }
    }
    return total;
}

}  // namespace kpu::control
