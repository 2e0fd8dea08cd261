// Every pass on random networks: what is computed before and after is the same.
#include "tests/compiler/passes/random_graphs.hpp"

#include <gtest/gtest.h>

#include "base/diagnostics.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

double allowed(Exactness exactness) {
    switch (exactness) {
        case Exactness::bits:
            return 0;
        case Exactness::rounding:
            return 2e-5;  // of the range of the output: sums of some hundred f32 numbers
        case Exactness::type:
            return 3e-2;
    }
    return 0;
}

/// Checks all passes, one by one.
void check_passes(Graph graph, uint64_t seed, Options how) {
    Random random(seed * 7 + 1);
    const std::vector<Data> inputs = random_inputs(graph, random);
    const auto reference = outputs_of(graph, inputs);
    auto before = reference;
    for (const Pass& pass : pass_table()) {
        SCOPED_TRACE(std::string(pass.name) + " of seed " + std::to_string(seed));
        const uint64_t moved_before = moved(graph);
        pass.run(graph, how);
        const auto after = outputs_of(graph, inputs);
        ASSERT_LE(difference(before, after), allowed(pass.exactness)) << to_text(graph);
        if (pass.exactness != Exactness::type) {
            ASSERT_LE(moved(graph), moved_before);
        }
        before = after;
    }
    ASSERT_LE(difference(reference, before), how.precision == ElemType::none ? 1e-4 : 6e-2);
}

TEST(Passes, KeepWhatConvNetsCompute) {
    for (uint64_t seed = 0; seed < 150; ++seed)
        ASSERT_NO_FATAL_FAILURE(check_passes(random_conv_net(seed), seed, options()));
}

TEST(Passes, KeepWhatTransformersCompute) {
    for (uint64_t seed = 0; seed < 60; ++seed)
        ASSERT_NO_FATAL_FAILURE(check_passes(random_transformer(seed), seed, options()));
}

TEST(Passes, KeepWhatMixturesCompute) {
    for (uint64_t seed = 0; seed < 600; ++seed)
        ASSERT_NO_FATAL_FAILURE(check_passes(random_mixture(seed), seed, options()));
}

TEST(Passes, KeepWhatConvNetsComputeOnAnArray) {
    size_t merged = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        Graph graph = random_conv_net(seed);
        ASSERT_NO_FATAL_FAILURE(check_passes(graph, seed, options_of_array(32)));
        run_passes(graph, options_of_array(32), Stage::rewrite);
        merge_groups(graph, options_of_array(32));
        for (const Node& node : graph.nodes) merged += node.attrs.find("blocks") != nullptr ? 1 : 0;
    }
    EXPECT_GT(merged, 20u);
}

TEST(Passes, KeepTheOrderAtTheHostWhenAsked) {
    Options how = options();
    how.host_layout = false;
    for (uint64_t seed = 0; seed < 60; ++seed) {
        Graph graph = random_conv_net(seed);
        ASSERT_NO_FATAL_FAILURE(check_passes(graph, seed, how));
        run_passes(graph, how, Stage::rewrite);
        for (const graph::Port& port : graph.inputs) ASSERT_TRUE(port.perm.empty());
        for (const graph::Port& port : graph.outputs) ASSERT_TRUE(port.perm.empty());
    }
}

TEST(Passes, KeepNetworksInHalfPrecisionNear) {
    Options how = options();
    how.precision = ElemType::f16;
    for (uint64_t seed = 0; seed < 30; ++seed) {
        ASSERT_NO_FATAL_FAILURE(check_passes(random_conv_net(seed), seed, how));
        ASSERT_NO_FATAL_FAILURE(check_passes(random_transformer(seed), seed, how));
    }
}

TEST(Passes, RunStageByStage) {
    Graph graph = random_conv_net(3);
    std::vector<std::string> seen;
    run_passes(graph, options(), Stage::rewrite,
               [&](const Pass& pass, const Graph&, double) { seen.emplace_back(pass.name); });
    EXPECT_EQ(seen.front(), "simplify");
    EXPECT_EQ(seen.back(), "simplify");
    EXPECT_TRUE(is_pass("fuse"));
    EXPECT_FALSE(is_pass("fusion"));
    for (const Pass& pass : pass_table()) EXPECT_FALSE(pass.description.empty());
}

}  // namespace
}  // namespace kpu::passes
