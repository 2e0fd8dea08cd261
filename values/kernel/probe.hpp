#pragma once
#include <string>

namespace kpu::values::kernel {

class LaunchWorker;

/// Looks at kernels between their statements, for debuggers: at those that its thread executes while it is in a Scope.
class LaunchProbe {
  public:
    virtual ~LaunchProbe() = default;
    /// The worker is about to execute a statement. May throw SimulationError, which ends the run.
    virtual void before_statement(const LaunchWorker& worker) = 0;
    /// The statement failed, and the run is about to end.
    virtual void failed(const LaunchWorker& worker, const std::string& why) = 0;
    /// The worker executes no further statement, or is no more.
    virtual void ended(const LaunchWorker& worker) = 0;

    /// Returns this thread's probe; null: nobody looks.
    static LaunchProbe* current();

    class Scope {
      public:
        explicit Scope(LaunchProbe& probe);
        ~Scope();
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        LaunchProbe* outer_;
    };
};

}  // namespace kpu::values::kernel
