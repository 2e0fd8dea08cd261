#pragma once

#include <functional>

namespace kpu::bindings {

/// Work that a thread other than the caller's does, while the caller looks for signals.
class Worker {
  public:
    /// Begins `work`, which throws nothing, in a thread that has none; a new one only where all have. Where the system
    /// gives none, the work is done when this returns.
    explicit Worker(const std::function<void()>& work);
    /// Waits for the work's end, `period_ms` at most. False: it goes on.
    bool wait(int period_ms);
    /// Destroys the worker; only after wait() was true.
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

  private:
    struct Thread;
    struct Pool;
    static Pool*& pool();
    static Thread* begun();
    Thread* thread_;  ///< null: the caller's own did it
};

}  // namespace kpu::bindings
