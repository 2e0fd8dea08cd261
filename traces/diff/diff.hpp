#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/diff/divergence.hpp"
#include "traces/run_reader.hpp"

namespace kpu::traces {

/// A run as `diff` compares it.
struct DiffSide {
    RunResults run;
    /// Parameters of the platform as (path, value), in the order of their schema; what identifies the
    /// platform (name, version, description) may stand among them.
    std::vector<std::pair<std::string, std::string>> platform;
    /// Tensors that the program declares, each with its memory (L2, DDR), in the order of the program.
    std::vector<std::pair<std::string, std::string>> places = {};
    std::shared_ptr<const Recording> events = nullptr;  ///< null: there are none to compare
    std::string no_events = {};                         ///< why
    /// Advice how to have them the next time; empty: not known.
    std::string events_advice = {};
    bool has_events() const { return events != nullptr || !run.events.empty(); }  ///< read, or in a file
};

/// Returns, of two runs, the one for whose lack of events they cannot be compared; null: both have read them.
const DiffSide* without_events(const DiffSide& a, const DiffSide& b);

struct DiffOptions {
    /// Statistics that changed by less are counted, not listed: a share of A's value; of cycles.total for
    /// cycles of a unit.
    double threshold = 0.01;
    std::optional<double> tolerance;  ///< tolerance of the judged statistics (is_judged), either way
    size_t top = 20;                  ///< rows of each table of the text
};

/// Everything in which two runs differ. Empty for a run and itself.
struct RunDiff {
    struct Field {
        std::string name, a, b;  ///< "" = absent
    };
    struct Statistic {
        std::string key, unit;
        std::optional<double> a, b;  ///< nothing: that run does not have it
        double change() const { return b.value_or(0) - a.value_or(0); }
        /// change / a; infinite from 0
        double relative() const;
        bool beyond_tolerance = false;
    };
    struct Operation {
        std::string id, type;
        bool in_a = false, in_b = false;
        Cycles cycles_a = 0, cycles_b = 0;  ///< charged
        double energy_a = 0, energy_b = 0;  ///< pJ
        Cause cause = Cause::busy_useful;   ///< whose unit-cycles changed most
        int64_t cause_change = 0;
    };
    /// Parameters of the platform, then of the program, then mode and seed.
    std::vector<Field> parameters;
    std::vector<Field> places;          ///< tensors of a compiled network that live in another memory
    std::vector<Field> program;         ///< lines of its text; name and digest when there is no text
    std::vector<Field> data;            ///< inputs and outputs whose content differs, by digest
    std::vector<Statistic> statistics;  ///< the largest questions first: totals, then units by cycles
    size_t small_changes = 0;           ///< statistics below the threshold
    std::vector<Operation> operations;  ///< sorted by change of charged cycles, largest first
    std::optional<Divergence> divergence;
    std::string no_divergence;  ///< why `divergence` is empty although the runs differ

    bool empty() const;
    bool beyond_tolerance() const;
};

/// cycles.total, energy.total_uj, power.average_w, power.peak_w and bytes.*: what --tolerance judges.
bool is_judged(const std::string& key);

/// Compares; the first task that differs is looked for where both have events.
RunDiff compare(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

/// Writes the difference for people; empty when there is none. `more`: lines of others, which stand before
/// the program's text, the last part.
std::string to_text(const RunDiff& diff, const DiffSide& a, const DiffSide& b, const DiffOptions& options,
                    std::string_view more = {});
/// {"schema":1,"equal":...,"parameters":[...],...}: the same as data, every row of every table.
std::string to_json(const RunDiff& diff, const DiffSide& a, const DiffSide& b);

}  // namespace kpu::traces
