#pragma once

#include <map>

#include "isa/bound_program.hpp"
#include "model/task/task_observer.hpp"
#include "traces/kernel_rows.hpp"

namespace kpu::model {

/// Cost of the statements of kernels, summed over the launches of a task statement.
class KernelProfile : public TaskObserver {
  public:
    explicit KernelProfile(const BoundProgram& program) : program_(program) {}
    void completed(const TaskCommand& command) override { add(command); }
    void finished(Cycles, const std::vector<TaskCommand*>& running) override {
        for (const TaskCommand* command : running) add(*command);
    }
    /// Returns the statements that were executed, in the order of program and kernel.
    std::vector<traces::KernelRow> rows() const;

  private:
    void add(const TaskCommand& command);

    const BoundProgram& program_;
    std::map<uint32_t, std::vector<StatementCost>> costs_;  ///< indexed by task statement
};

}  // namespace kpu::model
