#include "analysis/pair_proof.hpp"

#include <fmt/format.h>
#include <isl/aff.h>
#include <isl/constraint.h>
#include <isl/ctx.h>
#include <isl/local_space.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#include <algorithm>

#include "base/diagnostics.hpp"
#include "isa/expr.hpp"
#include "isa/footprint.hpp"

namespace kpu::analysis {
namespace {

struct IslFree {
    void operator()(isl_ctx* p) const { isl_ctx_free(p); }
    void operator()(isl_aff* p) const { isl_aff_free(p); }
    void operator()(isl_set* p) const { isl_set_free(p); }
    void operator()(isl_basic_set* p) const { isl_basic_set_free(p); }
    void operator()(isl_local_space* p) const { isl_local_space_free(p); }
    void operator()(isl_point* p) const { isl_point_free(p); }
    void operator()(isl_val* p) const { isl_val_free(p); }
};
template <class T>
using Isl = std::unique_ptr<T, IslFree>;

/// Says why a pair cannot be decided: not a linear problem, or too much work.
struct NotDecided {
    std::string reason;
};

template <class T>
Isl<T> checked(T* p) {
    if (p == nullptr) throw NotDecided{"the proof takes too many steps"};
    return Isl<T>(p);
}

isl_aff* copy(const Isl<isl_aff>& aff) { return isl_aff_copy(aff.get()); }

/// An integer expression over the variables of a pair, with what is known of its value.
struct Form {
    Isl<isl_aff> aff;
    std::optional<Interval> range;
    std::optional<int64_t> constant() const {
        return range && range->lo == range->hi ? std::optional(range->lo) : std::nullopt;
    }
};

/// The set of variable values at which two unordered instances share a byte.
class PairSet {
  public:
    PairSet(isl_ctx* ctx, const BoundProgram& program, const execution::ScheduleOrder& order,
            const PairCase& pair)
        : ctx_(ctx), program_(program), pair_(pair), variables_(variables_of(order, pair)) {
        const Footprint a = footprint_of(program.regions[pair.a.region], 0);
        const Footprint b = footprint_of(program.regions[pair.b.region], 0);
        a_run_ = a.run_bytes;
        b_run_ = b.run_bytes;
        for (int d = 0; d < a.dims; ++d) add_axis(a.stride_bytes[d], 0, a.count[d] - 1);
        for (int d = 0; d < b.dims; ++d) add_axis(b.stride_bytes[d], 1 - b.count[d], 0);
        const auto dims = static_cast<unsigned>(variables_.size() + axes_.size());
        space_ = checked(isl_local_space_from_space(isl_space_set_alloc(ctx_, 0, dims)));
    }

    const std::vector<PairVariable>& variables() const { return variables_; }

    Isl<isl_set> build() {
        bounded_ = checked(isl_basic_set_universe(isl_local_space_get_space(space_.get())));
        for (size_t v = 0; v < variables_.size(); ++v) add_range(v);
        for (size_t c = 0; c < axes_.size(); ++c) {
            const size_t index = variables_.size() + c;
            require(checked(isl_aff_add_constant_val(variable(index).release(), value(-axes_[c].lo))));
            require(checked(
                isl_aff_add_constant_val(isl_aff_neg(variable(index).release()), value(axes_[c].hi))));
        }
        add_overlap();
        Isl<isl_set> result = checked(isl_set_from_basic_set(bounded_.release()));
        if (pair_.cross) return distances(std::move(result));
        return without(std::move(result), pair_.escapes, true);
    }

  private:
    struct Axis {
        int64_t stride, lo, hi;
    };

    void add_axis(int64_t stride, int64_t lo, int64_t hi) {
        for (Axis& axis : axes_) {
            if (axis.stride != stride) continue;
            axis.lo += lo;
            axis.hi += hi;
            return;
        }
        axes_.push_back({stride, lo, hi});
    }

    isl_val* value(int64_t v) const { return isl_val_int_from_si(ctx_, v); }
    Isl<isl_aff> number(int64_t v) const {
        return checked(isl_aff_val_on_domain(isl_local_space_copy(space_.get()), value(v)));
    }
    Isl<isl_aff> variable(size_t v) const {
        return checked(
            isl_aff_var_on_domain(isl_local_space_copy(space_.get()), isl_dim_set, static_cast<unsigned>(v)));
    }
    static Isl<isl_aff> difference(Isl<isl_aff> a, Isl<isl_aff> b) {
        return checked(isl_aff_sub(a.release(), b.release()));
    }
    /// Adds aff >= 0.
    void require(Isl<isl_aff> aff) {
        bounded_ =
            checked(isl_basic_set_add_constraint(bounded_.release(), isl_inequality_from_aff(aff.release())));
    }
    static Isl<isl_set> with(const Isl<isl_set>& set, Isl<isl_aff> aff) {
        return checked(
            isl_set_add_constraint(isl_set_copy(set.get()), isl_inequality_from_aff(aff.release())));
    }

    /// Returns the number of the variable of a loop at `depth`, for side a or b.
    size_t index_of(uint16_t depth, bool of_a) const {
        for (size_t v = 0; v < variables_.size(); ++v) {
            if ((of_a ? variables_[v].of_a : variables_[v].of_b) &&
                program_.loops[variables_[v].loop].depth == depth) {
                return v;
            }
        }
        throw InternalError("an expression uses a loop that is not around it");
    }

    void add_range(size_t v) {
        const BoundLoop& loop = program_.loops[variables_[v].loop];
        const bool of_a = variables_[v].of_a;
        Form first = form(loop.first, of_a), last = form(loop.last, of_a);
        std::optional<Interval> range;
        if (first.range && last.range) range = {first.range->lo, last.range->hi};
        ranges_.push_back(range);
        require(difference(variable(v), std::move(first.aff)));
        require(difference(std::move(last.aff), variable(v)));
    }

    /// Adds -run(a) < address(a) - address(b) + steps along the axes < run(b).
    void add_overlap() {
        Isl<isl_aff> apart = difference(form(program_.regions[pair_.a.region].address, true).aff,
                                        form(program_.regions[pair_.b.region].address, false).aff);
        for (size_t c = 0; c < axes_.size(); ++c) {
            Isl<isl_aff> step =
                checked(isl_aff_scale_val(variable(variables_.size() + c).release(), value(axes_[c].stride)));
            apart = checked(isl_aff_add(apart.release(), step.release()));
        }
        require(checked(
            isl_aff_add_constant_val(isl_aff_neg(copy(apart)), value(static_cast<int64_t>(b_run_) - 1))));
        require(checked(isl_aff_add_constant_val(apart.release(), value(static_cast<int64_t>(a_run_) - 1))));
    }

    /// Returns both directions of a pair of iterations that differ; of two equal accesses one says it all.
    Isl<isl_set> distances(Isl<isl_set> set) const {
        const BoundLoop& loop = program_.loops[variables_[pair_.shared].loop];
        const auto window =
            static_cast<int64_t>(std::min<uint64_t>(loop.max_in_flight, static_cast<uint64_t>(INT64_MAX)));
        const int64_t low = pair_.distance == 0 ? 1 : static_cast<int64_t>(pair_.distance);
        const int64_t high = pair_.distance == 0 ? window - 1 : low;
        const auto ahead = [&](size_t from, size_t to) {
            const auto apart = [&] { return difference(variable(to), variable(from)); };
            Isl<isl_set> near = with(set, checked(isl_aff_add_constant_val(apart().release(), value(-low))));
            return with(near, checked(isl_aff_add_constant_val(isl_aff_neg(apart().release()), value(high))));
        };
        Isl<isl_set> later = without(ahead(pair_.shared, pair_.shared + 1), pair_.escapes, true);
        if (pair_.a.statement == pair_.b.statement && pair_.a.region == pair_.b.region) return later;
        Isl<isl_set> back = without(ahead(pair_.shared + 1, pair_.shared), pair_.back, false);
        return checked(isl_set_union(later.release(), back.release()));
    }

    Isl<isl_set> without(Isl<isl_set> set, const std::vector<execution::Escape>& escapes,
                         bool a_first) const {
        for (const execution::Escape& escape : escapes) {
            if (isl_set_is_empty(set.get()) == isl_bool_true) return set;
            set = without(std::move(set), escape, a_first);
        }
        return set;
    }

    /// Iterations in which the escape does not order the pair, a or b first: one of its parts fails.
    Isl<isl_set> without(Isl<isl_set> set, const execution::Escape& escape, bool a_first) const {
        Isl<isl_set> result;
        const auto fails = [&](Isl<isl_aff> condition) {
            Isl<isl_set> part = with(set, std::move(condition));
            result = result ? checked(isl_set_union(result.release(), part.release())) : std::move(part);
        };
        const auto at_most = [&](Isl<isl_aff> apart, uint64_t most) {
            fails(checked(isl_aff_add_constant_val(isl_aff_neg(apart.release()), value(small(most)))));
        };
        for (const execution::Escape::Distance& distance : escape.distances) {
            const auto depth = static_cast<uint16_t>(distance.depth);
            const auto apart = [&] {
                return difference(variable(index_of(depth, !a_first)), variable(index_of(depth, a_first)));
            };
            fails(checked(isl_aff_add_constant_val(isl_aff_neg(apart().release()),
                                                   value(small(distance.iterations) - 1))));
            if (!distance.or_more)
                fails(checked(
                    isl_aff_add_constant_val(apart().release(), value(-small(distance.iterations) - 1))));
        }
        for (const execution::Escape::Margin& margin : escape.early) {
            const BoundLoop& loop = program_.loops[margin.loop];
            at_most(difference(form(loop.last, a_first).aff, variable(index_of(loop.depth, a_first))),
                    margin.iterations - 1);
        }
        for (const execution::Escape::Margin& margin : escape.late) {
            const BoundLoop& loop = program_.loops[margin.loop];
            at_most(difference(variable(index_of(loop.depth, !a_first)), form(loop.first, !a_first).aff),
                    margin.iterations - 1);
        }
        if (!result) return checked(isl_set_empty(isl_local_space_get_space(space_.get())));
        return result;
    }

    static int64_t small(uint64_t number) {
        return static_cast<int64_t>(std::min<uint64_t>(number, uint64_t{1} << 62));
    }

    Form form(const BoundExpr& expr, bool of_a) const {
        std::vector<Form> stack;
        if (expr.is_constant()) return {number(expr.constant), Interval{expr.constant, expr.constant}};
        for (size_t t = 0; t < expr.kinds.size(); ++t) {
            const proto::ExprToken::Kind kind = expr.kinds[t];
            if (kind == proto::ExprToken::LOOP) {
                const size_t v = index_of(static_cast<uint16_t>(expr.values[t]), of_a);
                stack.push_back({variable(v), v < ranges_.size() ? ranges_[v] : std::nullopt});
            } else if (is_leaf(kind)) {
                stack.push_back({number(expr.values[t]), Interval{expr.values[t], expr.values[t]}});
            } else if (kind == proto::ExprToken::NEG) {
                Form& top = stack.back();
                top.range = interval_of(kind, Interval{0, 0}, top.range);
                top.aff = checked(isl_aff_neg(top.aff.release()));
            } else {
                Form right = std::move(stack.back());
                stack.pop_back();
                stack.back() = apply(kind, std::move(stack.back()), std::move(right));
            }
        }
        return std::move(stack.back());
    }

    static std::optional<Interval> interval_of(proto::ExprToken::Kind kind, const std::optional<Interval>& a,
                                               const std::optional<Interval>& b) {
        if (!a || !b) return std::nullopt;
        BoundExpr expr;
        expr.kinds = {proto::ExprToken::LOOP, proto::ExprToken::LOOP, kind};
        expr.values = {0, 1, 0};
        if (kind == proto::ExprToken::NEG) {
            expr.kinds = {proto::ExprToken::LOOP, kind};
            expr.values = {1, 0};
        }
        return bound_of(expr, {*a, *b});
    }

    Form apply(proto::ExprToken::Kind kind, Form a, Form b) const {
        using Token = proto::ExprToken;
        const std::optional<Interval> range = interval_of(kind, a.range, b.range);
        if (kind == Token::ADD) return {checked(isl_aff_add(a.aff.release(), b.aff.release())), range};
        if (kind == Token::SUB) return {difference(std::move(a.aff), std::move(b.aff)), range};
        const std::optional<int64_t> x = a.constant(), y = b.constant();
        if (kind == Token::MUL) {
            if (y) return {checked(isl_aff_scale_val(a.aff.release(), value(*y))), range};
            if (x) return {checked(isl_aff_scale_val(b.aff.release(), value(*x))), range};
            throw NotDecided{"an offset or bound multiplies two variables"};
        }
        if (!y || *y <= 0) throw NotDecided{"an offset or bound divides by a variable or a negative number"};
        if (kind == Token::MOD) return {checked(isl_aff_mod_val(a.aff.release(), value(*y))), range};
        if (!a.range || a.range->lo < 0)
            throw NotDecided{"an offset or bound divides a number that may be negative"};
        return {checked(isl_aff_floor(isl_aff_scale_down_val(a.aff.release(), value(*y)))), range};
    }

    isl_ctx* ctx_;
    const BoundProgram& program_;
    const PairCase& pair_;
    const std::vector<PairVariable> variables_;
    std::vector<std::optional<Interval>> ranges_;  ///< ranges of the variables bounded so far
    uint64_t a_run_ = 0, b_run_ = 0;
    std::vector<Axis> axes_;  ///< steps between runs, a's forward and b's backward; equal strides joined
    Isl<isl_local_space> space_;
    Isl<isl_basic_set> bounded_;
};

Witness witness_at(const isl_set* set, const std::vector<PairVariable>& variables) {
    const Isl<isl_set> first = checked(isl_set_lexmin(isl_set_copy(const_cast<isl_set*>(set))));
    const Isl<isl_point> point = checked(isl_set_sample_point(isl_set_copy(first.get())));
    Witness witness;
    for (size_t v = 0; v < variables.size(); ++v) {
        const Isl<isl_val> at =
            checked(isl_point_get_coordinate_val(point.get(), isl_dim_set, static_cast<int>(v)));
        const int64_t number = isl_val_get_num_si(at.get());
        if (variables[v].of_a) witness.a.push(number);
        if (variables[v].of_b) witness.b.push(number);
    }
    return witness;
}

}  // namespace

struct PairProver::Context {
    Isl<isl_ctx> ctx{isl_ctx_alloc()};
    uint64_t spent = 0;
};

PairProver::PairProver(const BoundProgram& program, const execution::ScheduleOrder& order)
    : program_(program), order_(order), context_(std::make_unique<Context>()) {
    isl_options_set_on_error(context_->ctx.get(), ISL_ON_ERROR_CONTINUE);
}
PairProver::~PairProver() = default;

bool PairProver::exhausted() const { return context_->spent >= operations_in_all; }

Verdict PairProver::prove(const PairCase& pair, Witness& witness) {
    isl_ctx* ctx = context_->ctx.get();
    if (exhausted()) return Verdict::unknown;
    isl_ctx_set_max_operations(ctx, operations_per_pair);
    isl_ctx_reset_operations(ctx);
    Verdict verdict = Verdict::unknown;
    try {
        PairSet pairs(ctx, program_, order_, pair);
        const Isl<isl_set> set = pairs.build();
        const isl_bool empty = isl_set_is_empty(set.get());
        if (empty == isl_bool_error) throw NotDecided{"the proof takes too many steps"};
        if (empty == isl_bool_false) witness = witness_at(set.get(), pairs.variables());
        verdict = empty == isl_bool_true ? Verdict::disjoint : Verdict::overlap;
    } catch (const NotDecided& why) {
        reason_ = why.reason;
    }
    // isl does not tell what it has counted: a pair that hit its limit spent that, others the usual amount
    context_->spent += verdict == Verdict::unknown ? operations_per_pair : operations_of_a_proof;
    isl_ctx_reset_error(ctx);
    return verdict;
}

}  // namespace kpu::analysis
