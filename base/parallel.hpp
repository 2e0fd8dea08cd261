#pragma once

#include <cstddef>
#include <functional>

namespace kpu {

/// Threads that so many pieces of work are worth: one each, but no more than there are processors, or than `most`.
size_t workers_for(size_t count, size_t most);

/// Calls body(worker, i) for i from 0 to count - 1, begun in this order, each by one of `workers` threads, or fewer where
/// the system gives no more; `worker` is its number. Begins no more once one has thrown; then throws what the lowest i that did has thrown.
void parallel_for(size_t count, size_t workers, const std::function<void(size_t worker, size_t i)>& body);

}  // namespace kpu
