#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "isa/bound_program.hpp"

namespace kpu::traces {

/// Names of tasks for people. Those of a compiled network have none of their own: "conv1: image to L2" says more than a
/// number. Those that would have the same name are counted: "conv1: image to L2 #2".
class TaskNames {
  public:
    explicit TaskNames(const BoundProgram& program);
    /// Names the task of a statement; each is asked for once, in the order of the program.
    std::string of(size_t statement);

  private:
    bool is_compiled(size_t statement) const;

    const BoundProgram& program_;
    /// Indexed by task: the tensor that a transfer or store moves; empty: unknown.
    std::vector<std::string> moved_;
    std::unordered_map<std::string, int> seen_;
};

}  // namespace kpu::traces
