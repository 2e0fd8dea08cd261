#pragma once

#include <exception>
#include <memory>
#include <mutex>

namespace sc_core {
class sc_report;
class sc_simcontext;
}  // namespace sc_core

namespace kpu::model {

/// A SystemC simulation context. Many live in one process; a process-wide mutex lets one thread in at a time.
/// A process that forks meanwhile has a child that can make simulations of its own.
class SimContext {
  public:
    SimContext();
    /// Ends the context. Everything that was built in it must be gone.
    ~SimContext();
    SimContext(const SimContext&) = delete;
    SimContext& operator=(const SimContext&) = delete;

    /// Makes the context current for its scope, and takes reports of SystemC for it.
    class Entry {
      public:
        explicit Entry(SimContext& context);
        ~Entry();
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

      private:
        std::unique_lock<std::recursive_mutex> lock_;
        sc_core::sc_simcontext* previous_;
        void (*previous_handler_)(const sc_core::sc_report&, const unsigned&);
        SimContext* outer_;
    };

    /// Abandons a context that a fork left in the middle of a step, in a process without the thread that took
    /// it.
    void abandon() { abandoned_ = true; }

  private:
    std::unique_ptr<sc_core::sc_simcontext> context_;
    bool abandoned_ = false;
};

}  // namespace kpu::model
