#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/debug/elements.hpp"
#include "runtime/debug/places.hpp"
#include "runtime/debug/words.hpp"
#include "runtime/simulation.hpp"
#include "values/kernel/launch.hpp"
#include "values/kernel/probe.hpp"

namespace kpu::runtime {

/// A session with a program that stands still: verbs come in as lines, answers go out as text. docs/debugging.md.
class Debugger : public values::kernel::LaunchProbe {
  public:
    /// Takes the answer to the verb before and gives the next verb; nothing: the session is over.
    using Dialogue = std::function<std::optional<std::string>(const std::string& answer)>;

    /// The simulation has its inputs. Both outlive the debugger, and so does `interrupt`, which may be null: it stops a
    /// program that runs, and the dialogue takes it back.
    Debugger(Simulation& simulation, Dialogue dialogue, const std::atomic<bool>* interrupt = nullptr);
    /// Runs until the dialogue ends it, or `quit`. A program that is left inside of a kernel is back at its
    /// beginning.
    void run();

    void before_statement(const values::kernel::LaunchWorker& worker) override;
    void failed(const values::kernel::LaunchWorker& worker, const std::string& why) override;
    void ended(const values::kernel::LaunchWorker& worker) override;

  private:
    using Worker = values::kernel::LaunchWorker;
    using Words = std::vector<std::string>;
    struct Breakpoint {
        enum class Kind : uint8_t { line, region, task, cycle } kind = Kind::line;
        std::string name;  ///< name of the line, region or task
        uint32_t number = 0;
        std::map<const kernel::Code*, debug::Statements> statements;  ///< line, region: those that it is
        uint64_t cycle = 0;
        uint64_t completed = 0;  ///< completions of the task, when last looked at
        bool over = false;       ///< a cycle that was reached
        std::string text() const;
    };
    struct Watch {
        std::string place;  ///< as it was named
        debug::Place memory;
        const kernel::Code* code = nullptr;  ///< watches a buffer of this kernel; null: a memory
        uint32_t buffer = 0;
        uint64_t address = 0, count = 0;
        uint32_t number = 0;
        /// Bytes when last looked at; for a buffer, those of each place that it has in launches under way.
        std::map<const uint8_t*, std::vector<uint8_t>> bytes;
        std::string text() const;
    };
    enum class Goal : uint8_t { stay, go, statements, task, cycles };
    struct Verb {
        size_t most;  ///< number of words after it
        std::string (Debugger::*answer)(const Words& words);
    };
    static const std::map<std::string, Verb>& verbs();

    // debugger.cpp
    std::string execute(const std::string& line);
    std::string help(const Words& words);
    std::string quit(const Words& words);
    std::string go(const Words& words);
    void talk(const std::string& reason);
    std::string advance();
    std::string over(const std::string& how);
    RunStatus advance_once();
    uint64_t next_cycle() const;
    bool interrupted() const { return interrupt_ != nullptr && interrupt_->load(std::memory_order_relaxed); }
    std::string statement_reason(const Worker& worker);
    bool timed() const { return simulation_.options().mode != Mode::functional; }

    // stops.cpp: breakpoints and watches
    std::string add_breakpoint(const Words& words);
    std::string add_watch(const Words& words);
    std::string list(const Words& words);
    std::string remove(const Words& words);
    std::string choose_lane(const Words& words);
    std::string choose_group(const Words& words);
    debug::Kernels kernels() const;
    void place_in_kernels(Breakpoint& breakpoint) const;
    std::string why_stopped();
    std::string changed_bytes(const Worker* worker);
    static const uint8_t* first_byte(const Watch& watch, const Worker* worker);
    std::vector<uint8_t> watched(const Watch& watch, const Worker* worker) const;
    bool stops_at(const Breakpoint& breakpoint, const Worker& worker) const;
    bool is_meant(const Worker& worker) const;
    uint64_t completed_of(const std::string& task) const;

    // answers.cpp: what stands still
    std::string print(const Words& words);
    std::string print_lanes(const Words& words);
    std::string bytes(const Words& words);
    std::string where(const Words& words);
    std::string units(const Words& words);
    std::string tasks(const Words& words);
    std::string here() const;
    std::string place_of(const Worker& worker) const;
    uint32_t statement_of(const Worker& worker) const;
    const Worker& worker() const;
    uint32_t lane() const;
    std::vector<uint32_t> visible_variables() const;
    std::optional<uint32_t> find_variable(const std::string& name) const;
    uint32_t find_buffer(const std::string& name) const;
    std::string print_variable(uint32_t variable) const;
    std::optional<debug::Elements> elements_of(const std::string& name) const;

    Simulation& simulation_;
    const Dialogue dialogue_;
    const std::atomic<bool>* const interrupt_;
    std::vector<Breakpoint> breakpoints_;
    std::vector<Watch> watches_;
    uint32_t numbers_ = 0;
    Goal goal_ = Goal::stay;
    uint64_t left_ = 0;             ///< statements, or the cycle to stop at
    std::optional<uint32_t> lane_;  ///< that was chosen
    std::optional<std::array<uint32_t, 3>> group_;
    std::vector<const Worker*> workers_;      ///< under way, the one that executed last at the end
    std::map<const Worker*, uint32_t> last_;  ///< the statement that it executed last
    const Worker* worker_ = nullptr;          ///< that print means, while the program stands still
    const Worker* shown_ = nullptr;  ///< its next statement was shown, so that it is no step to go there
    std::string pending_;            ///< why to stop, found where it cannot
    bool inside_ = false;            ///< before a statement
    bool over_ = false, quit_ = false;
};

}  // namespace kpu::runtime
