#include <gtest/gtest.h>

#include <set>

#include "analysis/pair_case.hpp"
#include "analysis/pair_proof.hpp"
#include "analysis/races.hpp"
#include "execution/schedule_order.hpp"
#include "isa/footprint.hpp"
#include "isa/nem/nem.hpp"
#include "isa/verify.hpp"
#include "tests/analysis/pairwise_races.hpp"
#include "tests/analysis/random_flat.hpp"
#include "tests/analysis/random_schedule.hpp"
#include "tests/analysis/unroller.hpp"

namespace kpu::analysis {

using execution::loop_facts;
using execution::ScheduleOrder;

namespace {

BoundProgram verified(Module module) {
    Diagnostics diagnostics;
    std::optional<BoundProgram> program =
        verify(std::make_shared<Module>(std::move(module)), {}, {}, diagnostics);
    EXPECT_TRUE(program) << diagnostics.to_string();
    return program.value();
}

BoundProgram random_program(uint64_t seed, const test::RandomShape& shape) {
    return verified(test::RandomSchedule(seed, shape).build());
}

struct PairCounts {
    size_t pairs = 0, ordered = 0;
};

/// Checks that the closed form orders exactly the pairs of instances that unrolling orders.
void compare_with_unrolled(uint64_t seed, const BoundProgram& program, PairCounts& counts) {
    const test::Unroller unrolled(program, 400);
    if (!unrolled.complete()) return;
    const ScheduleOrder order(program, loop_facts(program));
    for (size_t b = 0; b < unrolled.instances().size(); ++b) {
        for (size_t a = 0; a < unrolled.instances().size(); ++a) {
            if (a == b) continue;
            const test::Instance &x = unrolled.instances()[a], &y = unrolled.instances()[b];
            ++counts.pairs;
            counts.ordered += unrolled.before(b).test(a);
            ASSERT_EQ(order.before(x.statement, x.loops, y.statement, y.loops), unrolled.before(b).test(a))
                << "seed " << seed << ": instance " << a << " (statement " << x.statement << ") and " << b
                << " (statement " << y.statement << ")" << nem::print(*program.module);
        }
    }
}

/// Does so on random programs of constant bounds.
void compare_with_unrolled(const test::RandomShape& shape) {
    PairCounts counts;
    for (uint64_t seed = 0; seed < 400; ++seed)
        ASSERT_NO_FATAL_FAILURE(compare_with_unrolled(seed, random_program(seed, shape), counts));
    EXPECT_GT(counts.ordered, counts.pairs / 10);
    EXPECT_GT(counts.pairs - counts.ordered, counts.pairs / 10);
}

TEST(ScheduleOrder, IsThatOfTheUnrolledProgram) { compare_with_unrolled({true, 8, 3}); }

TEST(ScheduleOrder, OfProgramsWithoutLoopsIsThatOfTheUnrolledProgram) {
    PairCounts counts;
    for (uint64_t seed = 0; seed < 400; ++seed)
        ASSERT_NO_FATAL_FAILURE(
            compare_with_unrolled(seed, verified(test::RandomFlat(seed).build()), counts));
    EXPECT_GT(counts.ordered, counts.pairs / 20);
    EXPECT_GT(counts.pairs - counts.ordered, counts.pairs / 10);
}

TEST(ScheduleOrder, WithCarriedTokensIsThatOfTheUnrolledProgram) {
    compare_with_unrolled({true, 10, 3, true});
}

TEST(ScheduleOrder, ClaimsNothingWhereLoopsMayBeEmpty) {
    // With bounds that follow outer variables, some loops empty, every claimed order is one of the unrolled
    // program, and few are missed.
    size_t ordered = 0, missed = 0;
    for (uint64_t seed = 0; seed < 400; ++seed) {
        const BoundProgram program = random_program(seed, {false, 8, 3, seed % 2 == 0});
        const test::Unroller unrolled(program, 400);
        if (!unrolled.complete()) continue;
        const ScheduleOrder order(program, loop_facts(program));
        for (size_t b = 0; b < unrolled.instances().size(); ++b) {
            for (size_t a = 0; a < unrolled.instances().size(); ++a) {
                if (a == b) continue;
                const test::Instance &x = unrolled.instances()[a], &y = unrolled.instances()[b];
                const bool claimed = order.before(x.statement, x.loops, y.statement, y.loops);
                const bool is = unrolled.before(b).test(a);
                ASSERT_TRUE(is || !claimed) << "seed " << seed;
                ordered += is;
                missed += is && !claimed;
            }
        }
    }
    EXPECT_LT(missed * 20, ordered);
}

/// Pairs of statements with unordered instances that share a byte, one of them writing, by unrolling.
std::set<std::pair<uint32_t, uint32_t>> unrolled_races(const BoundProgram& program,
                                                       const test::Unroller& unrolled) {
    std::set<std::pair<uint32_t, uint32_t>> result;
    const auto task = [&](const test::Instance& i) -> const BoundTask& {
        return program.tasks[program.statements[i.statement].index];
    };
    const auto meet = [&](const test::Instance& x, const std::vector<uint32_t>& of_x, const test::Instance& y,
                          const std::vector<uint32_t>& of_y) {
        for (const uint32_t r : of_x) {
            for (const uint32_t q : of_y) {
                const BoundRegion &a = program.regions[r], &b = program.regions[q];
                if (a.buffer == b.buffer &&
                    windows_overlap(a, a.address.eval(x.loops), b, b.address.eval(y.loops)))
                    return true;
            }
        }
        return false;
    };
    for (size_t b = 0; b < unrolled.instances().size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
            if (unrolled.before(b).test(a) || unrolled.before(a).test(b)) continue;
            const test::Instance &x = unrolled.instances()[a], &y = unrolled.instances()[b];
            if (meet(x, task(x).outputs, y, task(y).inputs) || meet(x, task(x).inputs, y, task(y).outputs) ||
                meet(x, task(x).outputs, y, task(y).outputs))
                result.insert(std::minmax(x.statement, y.statement));
        }
    }
    return result;
}

TEST(Races, ProofAndSearchAgree) {
    // isl and trying every instance come to the same verdict on every pair of operands, and isl's witness is
    // the one that the search finds first.
    size_t overlaps = 0, disjoint = 0;
    for (uint64_t seed = 0; seed < 150; ++seed) {
        const BoundProgram program = random_program(seed, {seed % 2 == 0, 6, 3, seed % 3 == 0});
        const ScheduleOrder order(program, loop_facts(program));
        PairProver prover(program, order);
        std::vector<Access> accesses;
        for (uint32_t s = 0; s < program.statements.size(); ++s) {
            if (program.statements[s].kind != BoundStatement::Kind::task) continue;
            const BoundTask& task = program.tasks[program.statements[s].index];
            accesses.push_back({s, task.inputs[0], false});
            accesses.push_back({s, task.outputs[0], true});
        }
        const auto compare = [&](const PairCase& pair) {
            uint64_t budget = 1 << 20;
            Witness searched, proved;
            const Verdict by_search = search_pair(program, order, pair, budget, searched);
            const Verdict by_proof = prover.prove(pair, proved);
            ASSERT_NE(by_search, Verdict::unknown);
            ASSERT_EQ(by_search, by_proof) << "seed " << seed << prover.reason();
            (by_proof == Verdict::overlap ? overlaps : disjoint) += 1;
            if (by_proof != Verdict::overlap) return;
            for (size_t d = 0; d < searched.a.depth; ++d) EXPECT_EQ(searched.a[d], proved.a[d]);
            for (size_t d = 0; d < searched.b.depth; ++d) EXPECT_EQ(searched.b[d], proved.b[d]);
        };
        for (const Access& a : accesses) {
            for (const Access& b : accesses) {
                if (a.statement > b.statement) continue;
                if (program.regions[a.region].buffer != program.regions[b.region].buffer) continue;
                PairCase pair{a, b, order.common_loops(a.statement, b.statement), false, {}, {}, 0};
                if (a.statement < b.statement &&
                    !order.always_ordered(a.statement, b.statement, pair.escapes))
                    compare(pair);
                pair.escapes.clear();
                pair.cross = true;
                if (a.statement == b.statement && a.region == b.region)
                    continue;  // one direction suffices there
                for (pair.shared = 0; pair.shared < order.common_loops(a.statement, b.statement);
                     ++pair.shared) {
                    pair.escapes = order.carried(a.statement, b.statement, pair.shared);
                    pair.back = order.carried(b.statement, a.statement, pair.shared);
                    compare(pair);
                }
            }
        }
    }
    EXPECT_GT(overlaps, 500u);
    EXPECT_GT(disjoint, 500u);
}

TEST(Races, AreThoseOfTheUnrolledProgram) {
    // On random programs the pairs of tasks reported are exactly those that race when everything is unrolled.
    size_t racing = 0, clean = 0;
    for (uint64_t seed = 0; seed < 600; ++seed) {
        const BoundProgram program = random_program(seed, {true, 7, 3, seed % 2 == 0});
        const test::Unroller unrolled(program, 400);
        if (!unrolled.complete()) continue;
        std::set<std::pair<uint32_t, uint32_t>> found;
        for (const Finding& finding : find_races(program, ScheduleOrder(program, loop_facts(program)))) {
            ASSERT_NE(finding.kind, FindingKind::not_proved) << seed << finding.message;
            found.insert(std::minmax(finding.statement, finding.other_statement));
        }
        const auto expected = unrolled_races(program, unrolled);
        ASSERT_EQ(found, expected) << "seed " << seed;
        (expected.empty() ? clean : racing) += 1;
    }
    EXPECT_GT(racing, 100u);
    EXPECT_GT(clean, 20u);
}

/// Eight tasks read bytes side by side, then each is followed by one that reads every second of them, which
/// is all that follows it; the ninth of these makes the search drop readers that say no more.
TEST(Races, ReadersWithGapsHideNoReadersOfTheBytesBetween) {
    builder::Program p("gaps");
    const builder::Buffer s = p.buffer("S", Level::l2, 1024), x = p.buffer("X", Level::ddr, 1024);
    const builder::Buffer d = p.buffer("D", Level::l2, 64 * 1024);
    const builder::TensorType dense = builder::tensor(ElemType::i8, {64});
    const builder::TensorType gaps = builder::tensor(ElemType::i8, {300, 1}).strides({2, 1});
    const builder::TensorType packed = builder::tensor(ElemType::i8, {300, 1});
    int tasks = 0;
    const auto read = [&](const builder::TensorType& from, const builder::TensorType& to) {
        const int64_t place = tasks * 1024;
        const std::string name = fmt::format("t{}", tasks++);
        return p.transfer(name, p.region(name + "_to", d, place, to), p.region(name + "_from", s, 0, from));
    };
    std::vector<builder::Task> first, second;
    for (int i = 0; i < 8; ++i) first.push_back(read(dense, dense));
    for (int i = 0; i < 8; ++i) second.push_back(read(gaps, packed).after({first[static_cast<size_t>(i)]}));
    second.push_back(read(gaps, packed));
    const builder::TensorType one = builder::tensor(ElemType::i8, {1});
    p.transfer("write", p.region("hit", s, 1, one), p.region("one", x, 0, one));
    p.transfer("last", p.region("end", d, 63 * 1024, one), p.region("other", x, 1, one)).after(second);
    const BoundProgram program = verified(p.build());
    const ScheduleOrder order(program, loop_facts(program));
    EXPECT_EQ(find_races(program, order).size(), 8u);
    EXPECT_EQ(test::pairwise_races(program, order).size(), 8u);
}

}  // namespace
}  // namespace kpu::analysis
