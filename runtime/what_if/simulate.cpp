#include "runtime/what_if/simulate.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "runtime/simulation.hpp"
#include "traces/report.hpp"

namespace kpu::what_if {
namespace {

using Seconds = std::chrono::duration<double>;
using Instant = std::chrono::steady_clock::time_point;

/// A change that makes a run so many times longer is not followed to its end.
constexpr Cycles longest = 4;

/// Report of a simulation: one line in the pipe from its process.
struct Said {
    Cycles cycles = 0;
    uint64_t macs = 0, bytes = 0, hazards = 0;  ///< work, and races
    std::string problem;
};

Said simulate(const Case& changed, Cycles max_cycles) {
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.params = changed.params;
    options.max_cycles = max_cycles;
    options.retarget = true;  // a faster device is another one than the program was compiled for
    Said said;
    try {
        runtime::Simulation simulation(changed.module, &changed.platform, options);
        switch (simulation.run()) {
            case execution::RunStatus::finished:
                break;
            case execution::RunStatus::limit_reached:
                said.problem = fmt::format("takes more than {} times as long", longest);
                break;
            default:
                said.problem = "does not come to its end: tasks wait for each other";
        }
        const traces::StatSet& stats = simulation.stats();
        said.cycles = stats.integer("cycles.total");
        said.macs = stats.integer("ops.macs");
        said.bytes = stats.integer("bytes.dram.write");
        said.hazards = simulation.hazards().count();
    } catch (const std::exception& error) {
        const std::string text = error.what();
        said.problem = text.substr(0, text.find('\n'));
    }
    return said;
}

std::string line_of(size_t index, const Said& said) {
    return fmt::format("{} {} {} {} {} {}\n", index, said.cycles, said.macs, said.bytes, said.hazards,
                       said.problem);
}

/// A process that simulates some of the cases and writes a line about each.
struct Worker {
    pid_t process = -1;
    int pipe = -1;
    std::string text;
};

void write_all(int file, const std::string& text) {
    for (size_t done = 0; done < text.size();) {
        const ssize_t count = ::write(file, text.data() + done, text.size() - done);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) ::_exit(1);
        done += static_cast<size_t>(count);
    }
}

/// Cases `first`, `first + step`, ... in a process of its own: the simulation kernel has one run at a time.
Worker start(const std::vector<const Case*>& cases, size_t first, size_t step, Cycles max_cycles) {
    int ends[2];
    if (::pipe(ends) != 0)
        throw UserError(
            fmt::format("what if: no pipe to another process: {}. Fix: close files, or give "
                        "--bounds-only.",
                        std::strerror(errno)));
    const pid_t process = ::fork();
    if (process < 0) {
        ::close(ends[0]);
        ::close(ends[1]);
        throw UserError(
            fmt::format("what if: no further process: {}. Fix: end others, or give --bounds-only.",
                        std::strerror(errno)));
    }
    if (process == 0) {
        ::close(ends[0]);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read it
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_DFL);
        for (size_t i = first; i < cases.size(); i += step)
            write_all(ends[1], line_of(i, simulate(*cases[i], max_cycles)));
        ::_exit(0);
    }
    ::close(ends[1]);
    return {process, ends[0], {}};
}

/// Processes that end with this, whatever happens.
class Workers {
  public:
    Workers() = default;
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;
    ~Workers() {
        for (const Worker& worker : list_) {
            ::kill(worker.process, SIGKILL);
            ::close(worker.pipe);
            ::waitpid(worker.process, nullptr, 0);
        }
    }

    void add(Worker worker) { list_.push_back(std::move(worker)); }
    /// Reads until all have ended; false when that takes longer than `end`.
    bool read_until(Instant end) {
        std::vector<pollfd> open;
        for (const Worker& worker : list_) open.push_back({worker.pipe, POLLIN, 0});
        for (size_t left = open.size(); left > 0;) {
            const auto wait =
                std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
            if (wait.count() <= 0) return false;
            const int ready = ::poll(open.data(), open.size(),
                                     static_cast<int>(std::min<int64_t>(wait.count() + 1, 60000)));
            if (ready < 0 && errno != EINTR) return false;
            for (size_t i = 0; i < open.size() && ready > 0; ++i) {
                if (open[i].fd < 0 || open[i].revents == 0) continue;
                char buffer[4096];
                const ssize_t count = ::read(open[i].fd, buffer, sizeof buffer);
                if (count > 0) list_[i].text.append(buffer, static_cast<size_t>(count));
                if (count > 0 || (count < 0 && errno == EINTR)) continue;
                open[i].fd = -1;
                --left;
            }
        }
        return true;
    }
    std::string text() const {
        std::string all;
        for (const Worker& worker : list_) all += worker.text;
        return all;
    }

  private:
    std::vector<Worker> list_;
};

std::vector<Said> read_lines(const std::string& text, size_t cases) {
    std::vector<Said> said(cases, Said{0, 0, 0, 0, "its simulation ended without a word"});
    for (size_t from = 0; from < text.size();) {
        const size_t end = std::min(text.find('\n', from), text.size());
        const std::string line = text.substr(from, end - from);
        from = end + 1;
        size_t index = 0, at = 0;
        Said one;
        const auto next = [&](auto& number) {
            size_t used = 0;
            number = std::stoull(line.substr(at), &used);
            at += used + 1;
        };
        next(index), next(one.cycles), next(one.macs), next(one.bytes), next(one.hazards);
        one.problem = line.substr(std::min(at, line.size()));
        said.at(index) = std::move(one);
    }
    return said;
}

/// Simulates all cases; nothing when `limit` is over before they are.
std::optional<std::vector<Said>> simulate_all(const std::vector<const Case*>& cases, size_t processes,
                                              Cycles max_cycles, Seconds limit) {
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(limit);
    Workers workers;
    for (size_t w = 0; w < std::min(processes, cases.size()); ++w)
        workers.add(start(cases, w, processes, max_cycles));
    if (!workers.read_until(end)) return std::nullopt;
    return read_lines(workers.text(), cases.size());
}

Outcome outcome_of(const Change& change, const Said& said, const Said& base) {
    Outcome outcome{change.kind, change.words, {}, said.problem};
    if (!outcome.problem.empty()) return outcome;
    if (said.hazards > base.hazards)
        outcome.problem = "tasks would race";
    else if (said.macs != base.macs || said.bytes != base.bytes)
        outcome.problem = "is other work";
    else
        outcome.cycles = said.cycles;
    return outcome;
}

bool helps_more(const Outcome& a, const Outcome& b) {
    if (a.cycles.has_value() != b.cycles.has_value()) return a.cycles.has_value();
    return a.cycles && *a.cycles < *b.cycles;
}

}  // namespace

Answers simulate_changes(const Case& base, Cycles cycles, double limit_s) {
    Answers answers;
    const size_t processes = std::max(1u, std::thread::hardware_concurrency());
    const auto begin = std::chrono::steady_clock::now();
    const auto first = simulate_all({&base}, 1, cycles + 1, Seconds(limit_s));
    const Seconds once = std::chrono::steady_clock::now() - begin;
    if (!first) {
        answers.skipped = fmt::format("one simulation takes more than {} s", limit_s);
        return answers;
    }
    const Said& as_it_is = first->front();
    answers.cycles = as_it_is.cycles;
    if (!as_it_is.problem.empty() || as_it_is.cycles != cycles) {
        answers.skipped = fmt::format(
            "program and platform beside the events do not take the run's {} cycles when they are simulated "
            "again{}",
            traces::grouped(cycles), as_it_is.problem.empty() ? "" : ": " + as_it_is.problem);
        return answers;
    }
    const std::vector<Change> changes = changes_of(base);
    const Seconds expected = once * double(changes.size()) / double(std::min(processes, changes.size()));
    if (expected.count() > limit_s) {
        answers.skipped = fmt::format("{} simulations would take about {:.0f} s, more than {:g} s",
                                      changes.size(), expected.count(), limit_s);
        return answers;
    }
    std::vector<const Case*> cases;
    for (const Change& change : changes) cases.push_back(&change.changed);
    // a change may make a run longer, and processes share the machine with others
    const auto said = simulate_all(cases, processes, cycles * longest, Seconds(limit_s * longest));
    if (!said) {
        answers.skipped =
            fmt::format("{} simulations took more than {:g} s", changes.size(), limit_s * longest);
        return answers;
    }
    for (size_t i = 0; i < changes.size(); ++i)
        answers.outcomes.push_back(outcome_of(changes[i], (*said)[i], as_it_is));
    std::stable_sort(answers.outcomes.begin(), answers.outcomes.end(), helps_more);
    return answers;
}

}  // namespace kpu::what_if
