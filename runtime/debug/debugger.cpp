#include "runtime/debug/debugger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "runtime/debug/words.hpp"
#include "values/kernel/launch.hpp"

namespace kpu::runtime {

using values::kernel::LaunchWorker;

namespace {

constexpr const char* help_text =
    "break line N | break region NAME | break task NAME | break cycle N    stop there\n"
    "watch ddr|l2|l1[N] ADDRESS BYTES     stop when one of them changed\n"
    "list; delete N                       breakpoints and watches; without one of them\n"
    "continue                             until something stops it\n"
    "step [N]                             N statements of kernels; with a lane chosen, of that invocation\n"
    "task                                 until a task is complete\n"
    "cycle N                              N core cycles (without time: N tasks)\n"
    "lane N | lane                        the invocation of the workgroup that print and step mean; the "
    "first one\n"
    "print [NAME | BUFFER[INDEX]]         variables of the kernel, or an element of a buffer of it\n"
    "bytes ddr|l2|l1[N] ADDRESS BYTES     of the memory\n"
    "where; units; tasks                  where it stands; what units do; what waits for what\n"
    "quit";

/// What stops a run that nobody wants any more.
constexpr const char* quit_text = "the debugger ended the run";

}  // namespace

Debugger::Debugger(Simulation& simulation, Dialogue dialogue)
    : simulation_(simulation), dialogue_(std::move(dialogue)) {}

void Debugger::run() {
    const Scope looks(*this);
    simulation_.place_inputs();
    std::string reason = "at the beginning";
    while (!quit_) {
        talk(reason);
        if (!quit_) reason = advance();
    }
}

/// Answers verbs until one of them lets the program go on.
void Debugger::talk(const std::string& reason) {
    goal_ = Goal::stay;
    std::string answer = reason;
    while (goal_ == Goal::stay) {
        const std::optional<std::string> verb = dialogue_(answer);
        if (!verb) quit_ = true;
        if (quit_) return;
        try {
            answer = execute(*verb);
        } catch (const UserError& error) {
            answer = std::string("error: ") + error.what();
        }
        if (quit_) return;
    }
}

std::string Debugger::execute(const std::string& line) {
    const std::vector<std::string> words = debug::words_of(line);
    if (words.empty()) return "";
    const std::string& verb = words[0];
    if (verb == "break") return add_breakpoint(words);
    if (verb == "watch") return add_watch(words);
    if (verb == "list") return list();
    if (verb == "delete") return remove(words);
    if (verb == "lane") return choose_lane(words);
    if (verb == "print") return print(words);
    if (verb == "where") return where();
    if (verb == "units") return units();
    if (verb == "tasks") return tasks();
    if (verb == "help") return help_text;
    if (verb == "bytes") {
        const debug::Range range = debug::range_of(words);
        return debug::hex_text(simulation_.read_bytes(range.level, range.engine, range.address, range.bytes));
    }
    if (verb == "quit") {
        quit_ = true;
        return "";
    }
    return go(words);
}

std::string Debugger::go(const std::vector<std::string>& words) {
    const std::string& verb = words[0];
    if (verb != "continue" && verb != "step" && verb != "task" && verb != "cycle")
        throw UserError(fmt::format("`{}` is no verb. Fix: help lists them.", verb));
    if (over_) throw UserError("the run is over. Fix: quit, and begin again.");
    const bool counts = verb == "cycle" || (verb == "step" && words.size() > 1);
    const uint64_t count = counts ? debug::number_at(words, 1) : 1;
    if (count == 0) throw UserError(fmt::format("{} 0 goes nowhere. Fix: give 1 or more.", verb));
    goal_ = verb == "continue" ? Goal::go
            : verb == "step"   ? Goal::statements
            : verb == "task"   ? Goal::task
                               : Goal::cycles;
    left_ =
        goal_ == Goal::cycles ? (timed() ? simulation_.now() : simulation_.state().completed) + count : count;
    return "";
}

std::string Debugger::advance() {
    const auto ended = [&](const std::string& how) {
        over_ = true;
        return fmt::format("{} at cycle {}", how, simulation_.now());
    };
    try {
        for (;;) {
            const uint64_t before = simulation_.state().completed;
            const RunStatus status = advance_once();
            if (quit_) return "";
            if (status == RunStatus::finished) return ended("the program is finished");
            if (status == RunStatus::deadlock) return ended("deadlock: " + simulation_.deadlock_report());
            if (status != RunStatus::paused) return ended("stopped at its limit");
            const uint64_t completed = simulation_.state().completed;
            if (std::string reason = why_stopped(); !reason.empty()) return reason;
            if (goal_ == Goal::task && completed > before)
                return fmt::format("a task is complete at cycle {}", simulation_.now());
            if (goal_ == Goal::cycles && (timed() ? simulation_.now() : completed) >= left_)
                return fmt::format("at cycle {}", simulation_.now());
        }
    } catch (const SimulationError& error) {
        return quit_ ? "" : ended(fmt::format("the simulation failed: {}", error.what()));
    }
}

/// To the next place where there may be something to say.
RunStatus Debugger::advance_once() {
    const uint64_t cycle = next_cycle();
    const bool looks_at_tasks =
        goal_ == Goal::task || !watches_.empty() ||
        std::any_of(breakpoints_.begin(), breakpoints_.end(),
                    [](const Breakpoint& b) { return b.kind == Breakpoint::Kind::task; });
    if (cycle == UINT64_MAX || !timed()) return simulation_.step_task();
    return simulation_.step(looks_at_tasks ? 1 : cycle - simulation_.now());
}

/// The nearest one that a breakpoint or the verb asks for.
uint64_t Debugger::next_cycle() const {
    uint64_t nearest = goal_ == Goal::cycles ? left_ : UINT64_MAX;
    for (const Breakpoint& b : breakpoints_)
        if (b.kind == Breakpoint::Kind::cycle && !b.over) nearest = std::min(nearest, b.value);
    return nearest;
}

/// Breakpoints of tasks and cycles, and watches. Empty: none of them.
std::string Debugger::why_stopped() {
    std::string reason = changed_bytes();
    for (Breakpoint& b : breakpoints_) {
        if (b.kind == Breakpoint::Kind::cycle && !b.over && simulation_.now() >= b.value) {
            b.over = true;
            reason = fmt::format("{}: reached at cycle {}", b.text(), simulation_.now());
        }
        if (b.kind != Breakpoint::Kind::task) continue;
        const uint64_t completed = completed_of(b.name);
        if (completed > b.completed)
            reason = fmt::format("{}: complete at cycle {}", b.text(), simulation_.now());
        b.completed = completed;
    }
    return reason;
}

std::string Debugger::changed_bytes() {
    for (Watch& w : watches_) {
        std::vector<uint8_t> now = simulation_.read_bytes(w.level, w.engine, w.address, w.bytes.size());
        if (now == w.bytes) continue;
        std::string text =
            fmt::format("{}: was {}, is {}", w.text(), debug::hex_text(w.bytes), debug::hex_text(now));
        w.bytes = std::move(now);
        return text;
    }
    return "";
}

void Debugger::before_statement(const LaunchWorker& worker) {
    if (quit_) throw SimulationError(quit_text);
    const std::string reason = statement_reason(worker);
    if (reason.empty()) return;
    worker_ = &worker;
    talk(reason + "\n" + where());
    worker_ = nullptr;
    if (quit_) throw SimulationError(quit_text);
}

/// Why the program stops before the worker's next statement. Empty: it goes on.
std::string Debugger::statement_reason(const LaunchWorker& worker) {
    const values::kernel::Batch& batch = worker.batch();
    const kernel::Code& code = worker.code();
    const uint32_t statement = batch.statement();
    if (std::string changed = changed_bytes(); !changed.empty()) return changed;
    const uint64_t line = statement < code.places.size() ? code.places[statement].line : 0;
    const kernel::CodeStatement& s = code.statements[statement];
    for (const Breakpoint& b : breakpoints_) {
        const bool here = b.kind == Breakpoint::Kind::line
                              ? b.value == line
                              : b.kind == Breakpoint::Kind::region && s.kind == kernel::Kind::region &&
                                    code.body.statement(static_cast<int>(statement)).name() == b.name;
        if (here) return b.text();
    }
    if (goal_ != Goal::statements) return "";
    const std::vector<uint32_t>& lanes = batch.lanes();
    if (lane_ && !std::binary_search(lanes.begin(), lanes.end(), *lane_)) return "";
    return --left_ == 0 ? "stepped" : "";
}

uint32_t Debugger::lane() const {
    const std::vector<uint32_t>& lanes = worker_->batch().lanes();
    return lane_.value_or(lanes.empty() ? 0 : lanes.front());
}

uint64_t Debugger::completed_of(const std::string& task) const {
    uint64_t count = 0;
    const BoundProgram& program = simulation_.program();
    for (uint32_t i = 0; i < program.statements.size(); ++i) {
        const BoundStatement& s = program.statements[i];
        if (s.kind == BoundStatement::Kind::task && program.tasks[s.index].name == task)
            count += simulation_.completions(i);
    }
    return count;
}

}  // namespace kpu::runtime
