#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "model/task/task_command.hpp"
#include "traces/task_work.hpp"

namespace kpu::model {

/// Work of the tasks, each kind of work once: most tasks of a statement do the same at other addresses.
class WorkTable {
  public:
    /// Returns the entry of a task whose streams are all posted, or that will not complete.
    uint32_t index_of(const TaskCommand& command);
    const std::vector<traces::TaskWork>& works() const { return works_; }

  private:
    std::vector<traces::TaskWork> works_;
    std::unordered_multimap<size_t, uint32_t> by_hash_;
    std::unordered_map<uint32_t, uint32_t> of_statement_;  ///< the last one
    traces::TaskWork scratch_;
};

/// Returns a request with the same route as `work`; for MemorySystem::route.
StreamRequest request_like(const traces::StreamWork& work);

}  // namespace kpu::model
