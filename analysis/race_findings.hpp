#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/pair_case.hpp"
#include "analysis/pair_proof.hpp"
#include "analysis/schedule_check.hpp"
#include "execution/schedule_order.hpp"

namespace kpu::analysis {

/// Decides pairs of accesses, and keeps what there is to report of them: one finding per pair of statements.
class RaceFindings {
  public:
    RaceFindings(const BoundProgram& program, const execution::ScheduleOrder& order)
        : program_(program), order_(order), prover_(program, order) {}

    /// Checks a pair: a stands before b in the text, or is the same task.
    void check(const Access& a, const Access& b) { look(a, b); }
    /// True if there would be anything to report of the two.
    bool would_report(const Access& a, const Access& b);
    /// Stops looking: a finding says why, and at which access.
    void stop(const Access& access, const std::string& why);
    bool stopped() const { return stopped_; }
    size_t size() const { return findings_.size(); }
    /// Takes the findings in the order of the text.
    std::vector<Finding> take();

  private:
    bool look(const Access& a, const Access& b);
    bool decide(const PairCase& pair);
    Verdict verdict_of(const PairCase& pair, Witness& witness);
    uint64_t safe_window(PairCase pair, const Witness& witness);
    Finding race(const PairCase& pair, const Witness& witness);
    std::string dependency_fix(uint32_t from, uint32_t to, Fix& fix) const;
    bool same_window(uint32_t a, uint32_t b) const;
    bool reads(const BoundTask& task, uint32_t region) const;
    bool accumulates(uint32_t statement, uint32_t loop) const;
    std::string window_fix(const PairCase& pair, const Witness& witness, Fix& fix);
    void not_proved(const PairCase& pair, const std::string& why);

    static constexpr uint64_t search_per_pair = 512;  ///< instances tried before a proof
    static constexpr uint64_t search_in_all = uint64_t{1} << 21;

    const BoundProgram& program_;
    const execution::ScheduleOrder& order_;
    PairProver prover_;
    std::map<std::pair<uint32_t, uint32_t>, size_t> reported_;  ///< pairs of statements: index of the finding
    std::vector<Finding> findings_;
    uint64_t search_left_ = search_in_all;
    bool stopped_ = false;
    bool asks_ = false;  ///< whether there is anything to report, no more
};

}  // namespace kpu::analysis
