#include <algorithm>

#include "analysis/pair_case.hpp"
#include "base/diagnostics.hpp"
#include "isa/footprint.hpp"

namespace kpu::analysis {
namespace {

LoopValues loop_values(const std::vector<int64_t>& values) {
    LoopValues result;
    for (const int64_t value : values) result.push(value);
    return result;
}

/// Counts through the variables of a pair, the last one fastest.
class PairSearch {
  public:
    PairSearch(const BoundProgram& program, const execution::ScheduleOrder& order, const PairCase& pair)
        : program_(program), order_(order), pair_(pair), variables_(variables_of(order, pair)) {
        for (const PairVariable& variable : variables_) {
            a_.resize(a_.size() + variable.of_a);
            b_.resize(b_.size() + variable.of_b);
        }
        value_.resize(variables_.size());
        last_.resize(variables_.size());
    }

    Verdict run(uint64_t& budget, Witness& witness) {
        if (variables_.empty()) return touches() ? found(witness) : Verdict::disjoint;
        size_t v = 0;
        enter(0);
        for (;;) {
            if (budget == 0) return Verdict::unknown;
            --budget;
            if (value_[v] > last_[v]) {
                if (v == 0) return Verdict::disjoint;
                --v;
            } else {
                store(v);
                if (v + 1 < variables_.size()) {
                    enter(++v);
                    continue;
                }
                if (admitted() && touches()) return found(witness);
            }
            if (value_[v] == INT64_MAX) return Verdict::unknown;
            ++value_[v];
        }
    }

  private:
    bool differs(size_t v) const { return pair_.cross && v == pair_.shared + 1; }

    void store(size_t v) {
        const uint16_t depth = program_.loops[variables_[v].loop].depth;
        if (variables_[v].of_a) a_[depth] = value_[v];
        if (variables_[v].of_b) b_[depth] = value_[v];
    }

    void enter(size_t v) {
        const BoundLoop& loop = program_.loops[variables_[v].loop];
        const LoopValues outer = loop_values(variables_[v].of_a ? a_ : b_);
        value_[v] = loop.first.eval(outer);
        last_[v] = loop.last.eval(outer);
        if (!differs(v)) return;
        const auto reach = static_cast<int64_t>(
            std::min<uint64_t>(loop.max_in_flight - 1, static_cast<uint64_t>(INT64_MAX)));
        int64_t low = 0, high = 0;
        const int64_t middle = a_[loop.depth];
        if (!__builtin_sub_overflow(middle, reach, &low)) value_[v] = std::max(value_[v], low);
        if (!__builtin_add_overflow(middle, reach, &high)) last_[v] = std::min(last_[v], high);
    }

    bool admitted() const {
        if (pair_.cross) {
            const int64_t x = value_[pair_.shared], y = value_[pair_.shared + 1];
            if (x == y) return false;
            const uint64_t apart = x < y ? static_cast<uint64_t>(y) - static_cast<uint64_t>(x)
                                         : static_cast<uint64_t>(x) - static_cast<uint64_t>(y);
            if (pair_.distance != 0 && apart != pair_.distance) return false;
            return x < y ? none_holds(pair_.escapes, a_, b_) : none_holds(pair_.back, b_, a_);
        }
        return none_holds(pair_.escapes, a_, b_);
    }

    bool none_holds(const std::vector<execution::Escape>& escapes, const std::vector<int64_t>& earlier,
                    const std::vector<int64_t>& later) const {
        if (escapes.empty()) return true;
        const LoopValues a = loop_values(earlier), b = loop_values(later);
        return std::none_of(escapes.begin(), escapes.end(),
                            [&](const execution::Escape& escape) { return order_.holds(escape, a, b); });
    }

    bool touches() const {
        const BoundRegion &x = program_.regions[pair_.a.region], &y = program_.regions[pair_.b.region];
        return windows_overlap(x, x.address.eval(loop_values(a_)), y, y.address.eval(loop_values(b_)));
    }

    Verdict found(Witness& witness) const {
        witness = {loop_values(a_), loop_values(b_)};
        return Verdict::overlap;
    }

    const BoundProgram& program_;
    const execution::ScheduleOrder& order_;
    const PairCase& pair_;
    const std::vector<PairVariable> variables_;
    std::vector<int64_t> a_, b_;  ///< indexed by depth
    std::vector<int64_t> value_, last_;
};

}  // namespace

std::vector<PairVariable> variables_of(const execution::ScheduleOrder& order, const PairCase& pair) {
    const std::vector<uint32_t>&a = order.loops_of(pair.a.statement), &b = order.loops_of(pair.b.statement);
    std::vector<PairVariable> result;
    for (size_t d = 0; d < pair.shared; ++d) result.push_back({a[d], true, true});
    size_t rest = pair.shared;
    if (pair.cross) {
        result.push_back({a[rest], true, false});
        result.push_back({b[rest], false, true});
        ++rest;
    }
    for (size_t d = rest; d < a.size(); ++d) result.push_back({a[d], true, false});
    for (size_t d = rest; d < b.size(); ++d) result.push_back({b[d], false, true});
    return result;
}

Verdict search_pair(const BoundProgram& program, const execution::ScheduleOrder& order, const PairCase& pair,
                    uint64_t& budget, Witness& witness) {
    try {
        return PairSearch(program, order, pair).run(budget, witness);
    } catch (const UserError&) {
        return Verdict::unknown;
    }
}

}  // namespace kpu::analysis
