#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/passes/rewriter.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

/// Branches that grow and shrink, and meet again; in a random one of the orders that can be executed.
Graph branching(uint64_t seed, int branches) {
    Builder b(seed);
    Random& random = b.random;
    std::vector<ValueId> made{b.graph.add_input("x", ElemType::f32, graph::dims({8}))};
    const auto any = [&] {
        return made[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(made.size()) - 1))];
    };
    std::vector<ValueId> ends;
    for (int i = 0; i < branches; ++i) {
        std::vector<ValueId> copies(static_cast<size_t>(pick(random, 2, 9)), any());
        ValueId y = b.node("concat", copies, graph::attributes({graph::integer("axis", 0)}));
        if (pick(random, 0, 2) == 0) y = b.reshape(y, {1, b.shape(y)[0]});
        const std::vector<int64_t> axes(1, b.shape(y).rank - 1);
        const BoundAttrs first =
            graph::attributes({graph::ints("starts", {0}), graph::ints("ends", {pick(random, 1, 8)}),
                               graph::ints("axes", axes), graph::ints("steps", {1})});
        y = b.node("slice", {y}, first);
        if (b.shape(y).rank > 1) y = b.reshape(y, {b.shape(y)[1]});
        made.push_back(y);
    }
    for (const ValueId id : made) {
        if (graph::users(b.graph)[id].empty()) ends.push_back(id);
    }
    output(b.graph, b.node("concat", ends, graph::attributes({graph::integer("axis", 0)})));
    std::shuffle(b.graph.nodes.begin(), b.graph.nodes.end(), random);
    sort_nodes(b.graph);
    return std::move(b.graph);
}

/// The lowest peak of all orders, by trying them all.
class Exhaustive {
  public:
    explicit Exhaustive(const Graph& graph) : graph_(graph), makers_(graph::producers(graph)) {
        done_.assign(graph.nodes.size(), false);
    }
    uint64_t best() {
        extend();
        return best_;
    }

  private:
    void extend() {
        if (order_.size() == graph_.nodes.size()) {
            Graph trial = graph_;
            for (size_t i = 0; i < order_.size(); ++i) trial.nodes[i] = graph_.nodes[order_[i]];
            best_ = std::min(best_, peak_bytes(trial));
            return;
        }
        for (size_t i = 0; i < graph_.nodes.size(); ++i) {
            const auto there = [&](ValueId id) {
                return makers_[id] < 0 || done_[static_cast<size_t>(makers_[id])];
            };
            const std::vector<ValueId>& inputs = graph_.nodes[i].inputs;
            if (done_[i] || !std::all_of(inputs.begin(), inputs.end(), there)) continue;
            done_[i] = true;
            order_.push_back(i);
            extend();
            order_.pop_back();
            done_[i] = false;
        }
    }

    const Graph& graph_;
    std::vector<int32_t> makers_;
    std::vector<bool> done_;
    std::vector<size_t> order_;
    uint64_t best_ = UINT64_MAX;
};

TEST(Order, SmallGraphsGetTheBestOrder) {
    int better = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
        Graph graph = branching(seed, 3);
        if (graph.nodes.size() > 10) continue;
        const uint64_t before = peak_bytes(graph), best = Exhaustive(graph).best();
        order(graph, options());
        graph::check(graph);
        ASSERT_EQ(peak_bytes(graph), best) << to_text(graph);
        better += best < before ? 1 : 0;
    }
    EXPECT_GT(better, 3) << "the given orders were the best already: the test says nothing";
}

TEST(Order, IsNeverWorseThanTheGivenOne) {
    int better = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        Graph graph = branching(1000 + seed, 40);
        Random random(1);
        const auto inputs = random_inputs(graph, random);
        const auto values = outputs_of(graph, inputs);
        const uint64_t before = peak_bytes(graph);
        order(graph, options());
        ASSERT_LE(peak_bytes(graph), before);
        ASSERT_EQ(difference(values, outputs_of(graph, inputs)), 0);
        better += peak_bytes(graph) < before ? 1 : 0;
    }
    EXPECT_GT(better, 4);
}

TEST(Order, PeakCountsWhatLivesTogether) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({10}));  // 40 bytes
    const ValueId y = b.node("exp", {x});
    output(b.graph, b.node("add", {b.reshape(y, {10}), x}));
    EXPECT_EQ(peak_bytes(b.graph), 120u);  // x, y (also as a reshape), the sum
    b.graph.nodes[1].group = 0;
    Builder c(1);
    const ValueId u = c.graph.add_input("u", ElemType::f32, graph::dims({10}));
    output(c.graph, c.node("tanh", {c.node("exp", {u})}));
    EXPECT_EQ(peak_bytes(c.graph), 80u);
    fuse(c.graph, options());
    EXPECT_EQ(peak_bytes(c.graph), 80u);  // input and output; what is between stays on chip
}

TEST(Order, WhatShrinksRunsAtOnce) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({40}));
    const auto half = [&](ValueId of) {
        return b.node("slice", {of},
                      graph::attributes({graph::ints("starts", {0}), graph::ints("ends", {4}),
                                         graph::ints("axes", {0}), graph::ints("steps", {1})}));
    };
    const auto twice = [&](ValueId of) {
        return b.node("concat", {of, of}, graph::attributes({graph::integer("axis", 0)}));
    };
    // what is read late lives all the while, though no order has a lower peak: that is where the largest is made
    const ValueId large = b.node("exp", {x});
    const ValueId largest = half(twice(twice(x)));
    ValueId y = b.node("tanh", {largest});
    for (int i = 0; i < 3; ++i) y = b.node("tanh", {y});
    output(b.graph, b.node("add", {half(large), y}));
    const uint64_t before = peak_bytes(b.graph);
    order(b.graph, options());
    EXPECT_LE(peak_bytes(b.graph), before);
    EXPECT_EQ(opcodes_of(b.graph).rfind("exp slice", 0), 0u) << to_text(b.graph);
}

TEST(Order, GroupsStayTogether) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        Graph graph = random_conv_net(seed);
        run_passes(graph, options(), Stage::rewrite);
        fuse(graph, options());
        const uint64_t before = peak_bytes(graph);
        order(graph, options());
        graph::check(graph);
        ASSERT_LE(peak_bytes(graph), before);
    }
}

}  // namespace
}  // namespace kpu::passes
