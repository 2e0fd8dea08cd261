#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/simulation.hpp"
#include "values/kernel/probe.hpp"

namespace kpu::runtime {

/// A session with a program that stands still: verbs come in as lines, answers go out as text. docs/debugging.md.
class Debugger : public values::kernel::LaunchProbe {
  public:
    /// Takes the answer to the verb before and gives the next verb; nothing: the session is over.
    using Dialogue = std::function<std::optional<std::string>(const std::string& answer)>;

    /// The simulation has its inputs and has not begun. Both outlive the debugger.
    Debugger(Simulation& simulation, Dialogue dialogue);
    /// Until the dialogue ends it, or `quit`.
    void run();

    void before_statement(const values::kernel::LaunchWorker& worker) override;

  private:
    struct Breakpoint {
        enum class Kind : uint8_t { line, region, task, cycle } kind = Kind::line;
        std::string name;    ///< of a region or task
        uint64_t value = 0;  ///< line or cycle
        uint32_t number = 0;
        uint64_t completed = 0;  ///< of the task, when last looked at
        bool over = false;       ///< a cycle that was reached
        std::string text() const;
    };
    struct Watch {
        Level level = Level::ddr;
        unsigned engine = 0;
        uint64_t address = 0;
        std::vector<uint8_t> bytes;
        uint32_t number = 0;
        std::string text() const;
    };
    enum class Goal : uint8_t { stay, go, statements, task, cycles };

    // what the verbs do; the answer
    std::string execute(const std::string& line);
    std::string add_breakpoint(const std::vector<std::string>& words);
    std::string add_watch(const std::vector<std::string>& words);
    std::string remove(const std::vector<std::string>& words);
    std::string go(const std::vector<std::string>& words);
    std::string choose_lane(const std::vector<std::string>& words);
    std::string print(const std::vector<std::string>& words) const;
    std::string print_variable(const std::string& name) const;
    std::string print_element(const std::string& buffer, uint64_t index) const;
    std::string list() const;
    std::string where() const;
    std::string units() const;
    std::string tasks() const;

    void talk(const std::string& reason);
    std::string advance();
    RunStatus advance_once();
    std::string why_stopped();
    std::string changed_bytes();
    std::string statement_reason(const values::kernel::LaunchWorker& worker);
    uint64_t next_cycle() const;
    bool timed() const { return simulation_.options().mode != Mode::functional; }
    uint32_t lane() const;
    std::vector<uint32_t> visible_variables() const;
    uint64_t completed_of(const std::string& task) const;

    Simulation& simulation_;
    const Dialogue dialogue_;
    std::vector<Breakpoint> breakpoints_;
    std::vector<Watch> watches_;
    uint32_t numbers_ = 0;
    Goal goal_ = Goal::stay;
    uint64_t left_ = 0;  ///< statements, or the cycle to stop at
    std::optional<uint32_t> lane_;
    const values::kernel::LaunchWorker* worker_ = nullptr;  ///< while a kernel stands still
    bool over_ = false, quit_ = false;
};

}  // namespace kpu::runtime
