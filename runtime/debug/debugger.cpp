#include "runtime/debug/debugger.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "execution/hazard_report.hpp"

namespace kpu::runtime {

namespace {

constexpr const char* help_text =
    "break line N | line FILE:N | region NAME    stop before such statements of kernels\n"
    "break task NAME | cycle N            stop when it is complete; at that cycle\n"
    "watch ddr|l2|l1[N]|BUFFER ADDRESS BYTES    stop when one of them changed; BUFFER: of the kernel\n"
    "list; delete N                       breakpoints and watches; without one of them\n"
    "continue                             until something stops it\n"
    "step [N]                             N statements of kernels; with a lane chosen, of that invocation\n"
    "task                                 until a task is complete\n"
    "cycle N                              N core cycles (without time: N tasks)\n"
    "group X [Y [Z]] | group              only this workgroup stops it; all of them\n"
    "lane N | lane                        the invocation of the workgroup that print and step mean; the "
    "first one\n"
    "print [NAME | NAME[INDEX, ...]]      variables of the kernel; one, or a buffer; INDEX: 3, or 0..8\n"
    "lanes NAME                           a variable in all invocations of the workgroup\n"
    "bytes ddr|l2|l1[N]|BUFFER ADDRESS BYTES    of the memory\n"
    "where; units; tasks                  where it stands; what units do; what waits for what\n"
    "quit";

/// Message that stops a run which nobody wants any more.
constexpr const char* quit_text = "the debugger ended the run";

}  // namespace

Debugger::Debugger(Simulation& simulation, Dialogue dialogue, const std::atomic<bool>* interrupt)
    : simulation_(simulation), dialogue_(std::move(dialogue)), interrupt_(interrupt) {}

void Debugger::run() {
    if (simulation_.options().mode == Mode::timing)
        throw UserError("a debugger shows values, and timing mode has none. Fix: use mode values+timing.");
    if (simulation_.status() != RunStatus::paused) simulation_.reset();
    {
        const Scope looks(*this);
        simulation_.place_inputs();
        std::string reason =
            simulation_.now() == 0 ? "at the beginning" : fmt::format("at cycle {}", simulation_.now());
        while (!quit_) {
            worker_ = workers_.empty() ? nullptr : workers_.back();
            talk(worker_ == nullptr ? reason : reason + "\n" + here());
            if (!quit_) reason = advance();
        }
    }
    if (inside_ && !over_) simulation_.reset();
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

const std::map<std::string, Debugger::Verb>& Debugger::verbs() {
    constexpr size_t any = SIZE_MAX;
    static const std::map<std::string, Verb> table = {{"break", {any, &Debugger::add_breakpoint}},
                                                      {"watch", {3, &Debugger::add_watch}},
                                                      {"list", {0, &Debugger::list}},
                                                      {"delete", {1, &Debugger::remove}},
                                                      {"lane", {1, &Debugger::choose_lane}},
                                                      {"group", {3, &Debugger::choose_group}},
                                                      {"print", {any, &Debugger::print}},
                                                      {"lanes", {1, &Debugger::print_lanes}},
                                                      {"bytes", {3, &Debugger::bytes}},
                                                      {"where", {0, &Debugger::where}},
                                                      {"units", {0, &Debugger::units}},
                                                      {"tasks", {0, &Debugger::tasks}},
                                                      {"help", {0, &Debugger::help}},
                                                      {"quit", {0, &Debugger::quit}},
                                                      {"continue", {0, &Debugger::go}},
                                                      {"step", {1, &Debugger::go}},
                                                      {"task", {0, &Debugger::go}},
                                                      {"cycle", {1, &Debugger::go}}};
    return table;
}

std::string Debugger::execute(const std::string& line) {
    const Words words = debug::words_of(line);
    if (words.empty()) return "";
    const auto verb = verbs().find(words[0]);
    if (verb == verbs().end())
        throw UserError(fmt::format("`{}` is not a verb. Fix: help lists them.", words[0]));
    if (words.size() - 1 > verb->second.most)
        throw UserError(fmt::format("`{}` is too much after `{}`. Fix: help shows what follows.",
                                    words[verb->second.most + 1], words[0]));
    return (this->*verb->second.answer)(words);
}

std::string Debugger::help(const Words&) { return help_text; }

std::string Debugger::quit(const Words&) {
    quit_ = true;
    return "";
}

std::string Debugger::go(const Words& words) {
    const std::string& verb = words[0];
    if (over_) throw UserError("the run is over. Fix: quit, and begin again.");
    const bool counts = verb == "cycle" || words.size() > 1;
    const uint64_t count = counts ? debug::number_at(words, 1) : 1;
    if (verb == "step" && kernels().empty())
        throw UserError(
            "the program launches no kernel, so it has no statements. Fix: go on by task or cycle.");
    if (count == 0) throw UserError(fmt::format("{} 0 goes nowhere. Fix: give 1 or more.", verb));
    const uint64_t from = !timed() ? simulation_.state().completed : simulation_.now();
    left_ = verb == "cycle" ? from + std::min(count, UINT64_MAX - from) : count;
    shown_ = verb == "step" && !inside_ ? worker_ : nullptr;
    goal_ = verb == "continue" ? Goal::go
            : verb == "step"   ? Goal::statements
            : verb == "task"   ? Goal::task
                               : Goal::cycles;
    return "";
}

/// Returns what there is to say at the end; the program cannot go on.
std::string Debugger::over(const std::string& how) {
    over_ = true;
    std::string text = fmt::format("{} at cycle {}", how, simulation_.now());
    for (const Diagnostics& findings : {simulation_.run_findings(), simulation_.value_findings()}) {
        for (const Diagnostic& finding : findings.all()) text += "\n" + to_string(finding);
    }
    if (simulation_.hazards().count() > 0) text += "\n" + execution::summary(simulation_.hazards());
    return text;
}

std::string Debugger::advance() {
    try {
        for (;;) {
            const uint64_t before = simulation_.state().completed;
            const RunStatus status = advance_once();
            if (quit_) return "";
            std::string reason = why_stopped();
            if (!reason.empty() && status != RunStatus::paused) reason += "\n";
            if (status == RunStatus::finished) return reason + over("the program is finished");
            if (status == RunStatus::deadlock)
                return reason + over("deadlock: " + simulation_.deadlock_report());
            if (status != RunStatus::paused) return reason + over("stopped at its limit");
            if (!reason.empty()) return reason;
            if (interrupted()) return "interrupted";
            const uint64_t completed = simulation_.state().completed;
            if (goal_ == Goal::task && completed > before)
                return fmt::format("a task is complete at cycle {}", simulation_.now());
            if (goal_ == Goal::cycles && (timed() ? simulation_.now() : completed) >= left_)
                return fmt::format("at cycle {}", simulation_.now());
        }
    } catch (const SimulationError& error) {
        return quit_ ? "" : over(fmt::format("the simulation failed: {}", error.what()));
    } catch (const UserError& error) {
        return over(fmt::format("the simulation failed: {}", error.what()));
    }
}

/// Advances to the next place where there may be something to say.
RunStatus Debugger::advance_once() {
    const uint64_t cycle = next_cycle();
    const Cycles most = timed() && cycle != UINT64_MAX ? cycle - simulation_.now() : UINT64_MAX;
    return simulation_.step_task(nullptr, nullptr, most);
}

/// Returns the nearest one that a breakpoint or the verb asks for.
uint64_t Debugger::next_cycle() const {
    uint64_t nearest = goal_ == Goal::cycles ? left_ : UINT64_MAX;
    for (const Breakpoint& b : breakpoints_)
        if (b.kind == Breakpoint::Kind::cycle && !b.over) nearest = std::min(nearest, b.cycle);
    return nearest;
}

void Debugger::before_statement(const Worker& worker) {
    if (quit_) throw SimulationError(quit_text);
    if (workers_.empty() || workers_.back() != &worker) {
        workers_.erase(std::remove(workers_.begin(), workers_.end(), &worker), workers_.end());
        workers_.push_back(&worker);
    }
    const std::string reason = statement_reason(worker);
    last_[&worker] = worker.statement();
    if (reason.empty()) return;
    worker_ = &worker;
    inside_ = true;
    talk(reason + "\n" + here());
    if (quit_) throw SimulationError(quit_text);
    inside_ = false;
    simulation_.pause();  // what ends the step may be another cycle now
}

/// Says why the program stops before the worker's next statement. Empty: it goes on.
std::string Debugger::statement_reason(const Worker& worker) {
    const bool shown = shown_ == &worker;
    if (shown) shown_ = nullptr;
    if (std::string changed = changed_bytes(&worker); !changed.empty()) return changed;
    if (interrupted()) return "interrupted";
    for (const Breakpoint& b : breakpoints_)
        if (stops_at(b, worker)) return b.text();
    if (goal_ != Goal::statements || shown || !is_meant(worker)) return "";
    return --left_ == 0 ? "stepped" : "";
}

/// Called when the program failed. It stays where it failed: there is no way on, but all that is there can be
/// looked at.
void Debugger::failed(const Worker& worker, const std::string& why) {
    over_ = inside_ = true;
    worker_ = &worker;
    talk(fmt::format("the simulation failed: {}\n{}", why, here()));
}

void Debugger::ended(const Worker& worker) {
    if (!quit_ && !over_) {
        const std::string changed = changed_bytes(&worker);
        if (!changed.empty()) {
            pending_ += (pending_.empty() ? "" : "\n") + changed;
            simulation_.pause();
        }
    }
    workers_.erase(std::remove(workers_.begin(), workers_.end(), &worker), workers_.end());
    last_.erase(&worker);
    for (Watch& w : watches_)
        if (w.code == &worker.code()) w.bytes.erase(first_byte(w, &worker));
    if (worker_ == &worker) worker_ = nullptr;
}

}  // namespace kpu::runtime
