// Every legal plan, not only those that a search takes, gives a program with the values of the graph and without a hazard;
// emit() is pure. KPUSIM_PLANS=800 tries so many; the sample has the seeds from 0 on.
#include <gmock/gmock.h>

#include <cstdlib>
#include <future>
#include <iostream>

#include "compiler/plan/check_plan.hpp"
#include "tests/compiler/plan/networks.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

/// Counts of plans that have each feature.
struct Kinds {
    int strips = 0, held = 0, shared = 0, engines = 0, moved = 0, kept = 0, chunks = 0, little_staging = 0,
        apart = 0;

    void count(const Plan& plan, bool has_moved) {
        const auto any = [&](auto has) { return std::any_of(plan.ops.begin(), plan.ops.end(), has) ? 1 : 0; };
        strips += any([](const PlannedOp& op) { return op.strips > 0; });
        held += plan.held_bytes > 0 ? 1 : 0;
        shared += any([](const PlannedOp& op) {
            return std::find(op.homes.begin(), op.homes.end(), Home::shared) != op.homes.end();
        });
        engines += any([](const PlannedOp& op) { return op.tiling.lanes() > 1; });
        kept += any([](const PlannedOp& op) { return op.tiling.kept_bytes > 0; });
        chunks += any([](const PlannedOp& op) { return op.tiling.chunk > 1; });
        const auto rows_apart = [](const View& view) {
            return view.strides.rank == 2 && view.strides[0] > view.strides[1] && view.strides[1] == 1;
        };
        for (ValueId id = 0; id < plan.memory.views.size(); ++id) {
            const graph::Value& value = plan.graph->value(id);
            if (value.constant() || !rows_apart(plan.memory.views[id]) || value.shape[0] == 1) continue;
            apart += plan.memory.views[id].strides[0] > value.shape[1] ? 1 : 0;
        }
        little_staging += plan.staging_bytes < plan.arena_bytes ? 1 : 0;
        moved += has_moved ? 1 : 0;
    }
};

class RandomPlan {
  public:
    explicit RandomPlan(uint32_t seed)
        : kind_(seed % 4 == 3    ? Kind::recurrent
                : seed % 12 == 0 ? Kind::gated
                : seed % 16 == 2 ? Kind::attention
                : seed % 4 == 1  ? Kind::wide
                                 : Kind::pictures),
          elem_(seed / 4 % 2 == 0 ? ElemType::f16 : ElemType::i8),
          pictures_(elem_, seed),
          steps_(elem_, seed) {
        make_network();
        make_device();
    }

    /// Plans, changes the plan, checks it, runs its program.
    void run(Kinds& kinds) {
        Target target(platform_);
        target.staging_bytes /= kind_ == Kind::recurrent ? 1 << pick(0, 2) : 1 + pick(0, 1);
        const Graph graph = cut(target);
        Guide guide;
        guide.keep = 12;
        guide.inferences = static_cast<uint64_t>(pick(1, 3));
        Plan plan = planned(graph, target, guide);
        EXPECT_THAT(check_plan(plan, target), ::testing::IsEmpty());
        // tilings of what stood in L2 may need more staging from DRAM than there is
        const bool whole = target.staging_bytes == target.l1_bytes;
        const bool moved = whole && move_some(plan);
        const Plan other = with_other_tilings(plan, target, guide);
        EXPECT_THAT(check_plan(other, target), ::testing::IsEmpty());
        kinds.count(other, moved);
        compare(other, target);
    }

  private:
    enum class Kind { pictures, recurrent, wide, gated, attention };
    Maker& maker() { return kind_ == Kind::pictures ? pictures_.maker : steps_.maker; }
    bool rows_are_long() const { return kind_ == Kind::wide || kind_ == Kind::gated; }
    int64_t pick(int64_t least, int64_t most) { return maker().pick(least, most); }

    void make_network() {
        if (kind_ == Kind::wide) {  // rows that lie in few channels of DRAM when they are cut
            ValueId x = maker().input({pick(40, 100), 2048});
            for (int64_t i = pick(2, 3); i > 0; --i)
                x = steps_.product(x, steps_.weights(maker().graph().value(x).shape[1], pick(1, 2) * 512));
            return maker().output(x);
        }
        if (kind_ == Kind::recurrent) {
            const int64_t side = pick(2, 12) * 16;
            ValueId x = maker().input({pick(1, 3), side});
            const ValueId w = steps_.weights(side, side);
            for (int64_t i = pick(2, 6); i > 0; --i) x = steps_.product(x, w, pick(0, 1) == 0);
            return maker().output(x);
        }
        if (kind_ == Kind::gated) {
            maker().output(gated(maker(), pick(40, 130), pick(300, 900)));
            return;
        }
        if (kind_ == Kind::attention) {
            maker().output(attention(maker(), pick(1, 4), pick(20, 90), pick(20, 120), pick(8, 24)));
            return;
        }
        const int64_t side =
            pick(0, 1) == 0 ? 56 : 20;  // large ones go to DRAM, unless they are cut into strips
        const ValueId x = maker().input({1, side + pick(-8, 8), side + pick(-8, 8), pick(3, 12)});
        ValueId y = pictures_.layers(x, pick(2, 7));
        if (y == x) y = maker().unary("relu", x);
        maker().output(y);
    }

    void make_device() {
        const int64_t engines = int64_t{1} << pick(0, 2);
        const int64_t l1 = (rows_are_long() ? int64_t{32768} : int64_t{8192}) << pick(0, 2);
        const int64_t l2 = engines * l1 + (int64_t{16384} << pick(0, kind_ == Kind::recurrent ? 4 : 2));
        platform_ = platforms::load(pick(0, 1) == 0 ? "tile32" : "swkpu-v1",
                                    {{"ddr.channels", std::to_string(int64_t{1} << pick(1, 3))},
                                     {"engine.l1.size_bytes", std::to_string(l1)},
                                     {"l2.size_bytes", std::to_string(l2)},
                                     {"engine.count", std::to_string(engines)}});
    }

    /// Plans with all of the staging where tiles do not fit into less.
    static Plan planned(const Graph& graph, Target& target, const Guide& guide) {
        if (target.staging_bytes < target.l1_bytes) {
            try {
                return compiler::plan(graph, target, guide);
            } catch (const UserError& error) {
                EXPECT_THAT(error.what(), ::testing::HasSubstr("fit L1, but not the"));
                target.staging_bytes = target.l1_bytes;
            }
        }
        return compiler::plan(graph, target, guide);
    }

    /// In strips, every other time; those of columns always.
    Graph cut(const Target& target) {
        if (kind_ != Kind::gated && pick(0, 1) == 0) return maker().graph();
        const std::optional<InStrips> strips = in_strips(maker().graph(), target);
        return strips ? strips->graph : maker().graph();
    }

    /// Moves some tensors out of L2.
    bool move_some(Plan& plan) {
        bool any = false;
        for (uint32_t s = 0; s < plan.memory.storages.size(); ++s) {
            const Storage& of = plan.memory.storages[s];
            const bool in_l2 = of.home == Home::l2 && !of.input && !of.output && !of.constant;
            if (!in_l2 || of.first > of.last || pick(0, 2) > 0) continue;
            plan = moved_to_ddr(std::move(plan), s);
            any = true;
        }
        return any;
    }

    /// Returns one of those that the search kept, or that are near them.
    Plan with_other_tilings(const Plan& plan, const Target& target, const Guide& guide) {
        const Plan near = with_neighbours(plan, target, guide);
        std::vector<Tiling> tilings;
        for (size_t i = 0; i < plan.ops.size(); ++i) {
            const auto& from = pick(0, 1) == 0 ? plan.ops[i].alternatives : near.ops[i].alternatives;
            tilings.push_back(
                from->fastest[static_cast<size_t>(pick(0, static_cast<int64_t>(from->fastest.size()) - 1))]);
        }
        return replan(plan, target, tilings);
    }

    void compare(const Plan& plan, const Target& target) {
        auto emitted_there = std::async(std::launch::async, [&] { return emit(plan, target); });
        Lowered lowered = lower(plan, target);
        const std::string bytes = lowered.emitted.module.program.SerializeAsString();
        EXPECT_EQ(emit(plan, target).module.program.SerializeAsString(), bytes);
        EXPECT_EQ(emitted_there.get().module.program.SerializeAsString(), bytes);
        add_weights(lowered);
        std::vector<std::string> inputs;
        const std::vector<std::string> expected = expected_of(maker(), plan.inferences, inputs);
        const auto module = std::make_shared<const Module>(lowered.emitted.module);
        const Graph& graph = maker().graph();
        for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
            const auto simulation = simulated(graph, module, platform_, mode, plan.inferences, inputs);
            for (size_t o = 0; o < expected.size(); ++o)
                EXPECT_TRUE(simulation->output(graph.outputs[o].name).data == expected[o]);
        }
    }

    Kind kind_;
    ElemType elem_;
    Pictures pictures_;
    Recurrence steps_;
    platforms::Platform platform_;
};

TEST(RandomPlans, GiveTheValuesOfTheGraph) {
    const char* wanted = std::getenv("KPUSIM_PLANS");
    const auto count = static_cast<uint32_t>(wanted == nullptr ? 60 : std::strtoul(wanted, nullptr, 10));
    Kinds kinds;
    for (uint32_t seed = 0; seed < count && !::testing::Test::HasFailure(); ++seed) {
        SCOPED_TRACE(seed);
        RandomPlan(seed).run(kinds);
    }
    std::cout << count << " plans; in strips " << kinds.strips << ", held weights " << kinds.held
              << ", shared L2 " << kinds.shared << ", several engines " << kinds.engines << ", moved to DRAM "
              << kinds.moved << ", kept in L2 " << kinds.kept << ", parts of sums together " << kinds.chunks
              << ", staging smaller than L1 " << kinds.little_staging << ", rows apart " << kinds.apart
              << "\n";
    for (const int kind : {kinds.strips, kinds.held, kinds.shared, kinds.engines, kinds.moved, kinds.kept,
                           kinds.chunks, kinds.little_staging, kinds.apart})
        EXPECT_GE(kind, static_cast<int>(count) / 20);
}

/// Each reason is found in a plan that has it.
class Illegal : public ::testing::Test {
  protected:
    Illegal() : maker_(ElemType::f16, 1), target_(platforms::load("tile32", {{"engine.count", "2"}})) {
        const ValueId x = maker_.input({1, 12, 12, 8});
        maker_.output(maker_.conv(maker_.conv(x, 16, 3, 1, 1), 16, 1, 1, 0));
        plan_ = plan(maker_.graph(), target_);
    }
    void expect(const std::string& part) {
        EXPECT_THAT(check_plan(plan_, target_), ::testing::Contains(::testing::HasSubstr(part)));
    }
    Storage& storage() {
        for (Storage& of : plan_.memory.storages) {
            if (of.home == Home::l2 && of.first <= of.last && !of.input && !of.output) return of;
        }
        throw std::logic_error("no tensor in L2");
    }
    Maker maker_;
    Target target_;
    Plan plan_;
};

TEST_F(Illegal, TilesBeyondTheirAxis) {
    plan_.ops[0].tiling.tile[0] = 100;
    expect("a tile of 100");
}
TEST_F(Illegal, MoreEnginesThanTiles) {
    plan_.ops[0].tiling.split.assign(plan_.ops[0].tiling.split.size(), 3);
    expect("engines");
}
TEST_F(Illegal, MoreInFlightThanIterations) {
    plan_.ops[0].tiling.depth = 1 << 20;
    expect("iterations in flight");
}
TEST_F(Illegal, TilesThatExceedL1) {
    plan_.ops[0].tiling.slot_bytes = 1 << 30;
    expect("bytes of L1");
}
TEST_F(Illegal, TensorsBehindTheEndOfL2) {
    storage().address = tile_align * (plan_.resident_bytes / tile_align + 1);
    expect("ends at");
}
TEST_F(Illegal, TensorsOnOddBytes) {
    storage().address += 64;
    expect("no multiple of");
}
TEST_F(Illegal, TensorsInTheSameBytes) {
    Storage other = storage();
    other.name = "other";
    plan_.memory.storages.push_back(other);
    expect("the same bytes of L2");
}
TEST_F(Illegal, TensorsThatDieEarly) {
    storage().last = storage().first;
    expect("lives from");
}
TEST_F(Illegal, OperandsThatLiveElsewhere) {
    storage().home = Home::ddr;
    expect("does not live where its plan says");
}
TEST_F(Illegal, AnL2ThatIsTooSmall) {
    plan_.held_bytes = target_.l2_bytes;
    expect("L2 has");
}
TEST_F(Illegal, InputsThatAreLoadedTooEarly) {
    plan_.ops[0].tiling.hoisted[plan_.ops[0].op.nodes[0].outputs[0]] = true;
    expect("is loaded before the loop");
}
TEST_F(Illegal, TilesThatAreKeptButDoNotComeFromDdr) {
    PlannedOp& op = plan_.ops[1];
    op.tiling.keep[op.op.nodes[0].inputs[0]] = Keep::whole;
    expect("does not come from DDR");
}
TEST_F(Illegal, MissingFields) {
    plan_.ops[0].kept.pop_back();
    expect("not a field for each");
}

}  // namespace
}  // namespace kpu::compiler
