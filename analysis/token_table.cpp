// Tries a program's control flow, without time or values, against the device's token table.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "analysis/waste.hpp"
#include "execution/controller.hpp"

namespace kpu::analysis {
namespace {

enum class Choice : uint8_t { oldest, newest };

/// Completes one ready task after the other.
class TableTrial : private execution::ControlListener {
  public:
    TableTrial(const BoundProgram& program, const DeviceLimits& limits, Choice choice)
        : choice_(choice), peaks_(limits.num_engines, 0), controller_(program, options_of(limits), *this) {}

    /// Explains what waits for what when the program comes to a stand; empty when it ends, or goes on beyond
    /// so many tasks.
    std::string stand(uint64_t tasks) {
        controller_.start();
        note_peaks();
        for (uint64_t n = 0; n < tasks && !ready_.empty(); ++n) {
            const auto it = choice_ == Choice::oldest ? ready_.begin() : std::prev(ready_.end());
            execution::TaskInstance& instance = *it->second;
            ready_.erase(it);
            controller_.started(instance);
            controller_.completed(instance);
            note_peaks();
        }
        if (!ready_.empty() || controller_.finished()) return {};
        const std::vector<const execution::TaskInstance*> live = controller_.live();
        statement_ = live.empty() ? 0 : live.front()->statement;
        return controller_.explain_block();
    }
    uint32_t statement() const { return statement_; }
    bool finished() const { return controller_.finished(); }
    const std::vector<uint32_t>& peaks() const { return peaks_; }

  private:
    static execution::ControlOptions options_of(const DeviceLimits& limits) {
        execution::ControlOptions options;
        options.max_active_tokens = limits.max_active_tokens;
        options.num_engines = limits.num_engines;
        return options;
    }
    void note_peaks() {
        for (unsigned engine = 0; engine < peaks_.size(); ++engine)
            peaks_[engine] = std::max(peaks_[engine], controller_.tokens_in_flight(engine));
    }
    void on_issue(execution::TaskInstance&) override {}
    void on_ready(execution::TaskInstance& instance) override { ready_.emplace(instance.serial, &instance); }

    const Choice choice_;
    std::map<uint32_t, execution::TaskInstance*> ready_;  ///< indexed by serial
    uint32_t statement_ = 0;
    std::vector<uint32_t> peaks_;  ///< indexed by engine
    execution::Controller controller_;
};

}  // namespace

std::vector<Finding> find_table_deadlocks(const BoundProgram& program, const DeviceLimits& limits,
                                          uint64_t tasks) {
    if (limits.agnostic || limits.max_active_tokens == 0) return {};
    for (const Choice choice : {Choice::oldest, Choice::newest}) {
        std::string chain;
        uint32_t statement = 0;
        try {
            TableTrial trial(program, limits, choice);
            chain = trial.stand(tasks);
            statement = trial.statement();
        } catch (const SimulationError&) {
            return {};  // a region that leaves its buffer, endless loops: the run says so
        } catch (const UserError&) {
            return {};
        }
        if (chain.empty()) continue;
        Finding finding;
        finding.kind = FindingKind::deadlock;
        finding.statement = finding.other_statement = statement;
        finding.message = fmt::format(
            "deadlock: the token table of the device holds {} tasks, and in some order of completion all of "
            "them "
            "wait for tasks that get no entry. Fix: let what a waiting task needs be issued before it, with "
            "a "
            "wait, or choose a device with a larger table.",
            limits.max_active_tokens);
        while (!chain.empty() && chain.back() == '\n') chain.pop_back();
        for (size_t begin = 0; begin < chain.size();) {
            const size_t end = std::min(chain.find('\n', begin), chain.size());
            finding.notes.push_back(chain.substr(begin, end - begin));
            begin = end + 1;
        }
        return {std::move(finding)};
    }
    return {};
}

std::vector<Finding> find_token_limits(const std::vector<uint32_t>& peaks, const DeviceLimits& limits) {
    std::vector<Finding> findings;
    if (limits.agnostic || limits.max_active_tokens == 0) return findings;
    for (size_t engine = 0; engine < peaks.size(); ++engine) {
        if (peaks[engine] <= limits.max_active_tokens) continue;
        Finding finding;
        finding.kind = FindingKind::token_limit;
        finding.severity = Severity::info;
        finding.message = fmt::format(
            "token limit: up to {} tasks of engine {} are in flight, and the token table of the device holds "
            "{}: issue "
            "waits for entries. Fix: nothing if that is meant; else reduce @max_in_flight.",
            peaks[engine], engine, limits.max_active_tokens);
        findings.push_back(std::move(finding));
    }
    return findings;
}

std::vector<uint32_t> peak_tokens(const BoundProgram& program, const DeviceLimits& limits, uint64_t tasks) {
    DeviceLimits unlimited = limits;
    unlimited.max_active_tokens = 0;
    try {
        TableTrial trial(program, unlimited, Choice::oldest);
        trial.stand(tasks);
        if (trial.finished()) return trial.peaks();
    } catch (const SimulationError&) {
    } catch (const UserError&) {
    }
    return {};
}

}  // namespace kpu::analysis
