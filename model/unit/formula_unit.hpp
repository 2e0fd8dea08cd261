#pragma once

#include <map>
#include <memory>
#include <vector>

#include "model/unit/unit.hpp"

namespace kpu::model {

/// A unit whose time for a task follows a formula that is known beforehand, plus what streams are late: a
/// subclass says what a task is made of, and this class starts its streams, keeps tasks in order, and
/// completes them. unit.md has the rules.
class FormulaUnit : public Unit {
  public:
    using Unit::Unit;
    void stream_completed(StreamTransaction& transaction) override;

  protected:
    /// Returns the terms, streams, work and energy of a task. Called once for a statement and port of the
    /// second unit that it occupies (`partner_bytes_per_cycle`, 0 without one).
    virtual TaskPlan plan(const BoundTask& task, uint32_t partner_bytes_per_cycle) = 0;
    /// Returns the same of a product of a kernel; only arrays have them.
    virtual TaskPlan plan_product(const Product& product);
    void start(TaskCommand& command) override;
    void wake() override { update(); }
    /// Called when no task is inside any more.
    virtual void drained() {}
    bool idle() const { return jobs_.empty(); }

  private:
    /// A task inside the unit, and how far its streams are.
    struct Job {
        struct Operand {
            std::unique_ptr<StreamTransaction> stream;
            Cycles end = 0;  ///< cycle of the last byte; 0 while it is to come
        };
        TaskCommand* command = nullptr;
        const TaskPlan* plan = nullptr;
        std::vector<Operand> operands;
        std::vector<std::unique_ptr<StreamTransaction>> results;
        Cycles begin = 0;  ///< the first operand enters
        size_t operands_open = 0, results_open = 0;
        bool results_posted = false;
    };
    struct Planned {
        uint32_t partner_bytes_per_cycle;
        TaskPlan plan;
    };

    const TaskPlan& plan_of(TaskCommand& command);
    void update();
    void wake_from(Cycles earliest);
    void advance(Job& job, Cycles now);
    void finish(Job& job, Cycles now);
    void hand_over(const Job& job);
    void begin_in_order();
    static bool streams_ended(const Job& job);
    static Cycles stall(const Job& job);
    static Cycles free_at(const Job& job) {
        return job.begin + job.plan->occupancy + stall(job) - job.plan->lead;
    }
    static Cycles work_end(const Job& job) {
        return job.begin + job.plan->fill + job.plan->steady + stall(job);
    }
    static Cycles formula_end(const Job& job) { return work_end(job) + job.plan->drain; }
    static TaskReport& report(const Job& job) { return job.command->report; }
    std::unique_ptr<Job> take_job();

    /// Plans of each task of the program; of those in loops.
    std::vector<std::vector<std::unique_ptr<Planned>>> plans_;
    std::map<Product, TaskPlan> product_plans_;
    std::vector<std::unique_ptr<Job>> jobs_;  ///< in order of start, and of completion
    /// Cycle from which no operand of completed jobs enters any more.
    Cycles entrance_free_ = 0;
    Cycles work_ended_ = 0;  ///< end of the last steady state of completed jobs
    std::vector<std::unique_ptr<Job>> spare_jobs_;
};

}  // namespace kpu::model
