// Random networks after every pass, as text: there and back, with the same bytes.
#include <gtest/gtest.h>

#include "compiler/graph/text.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using testing::options;
using testing::random_conv_net;
using testing::random_mixture;
using testing::random_transformer;

void check_round_trip(const Graph& graph, const graph::TextHead& head) {
    std::string constants;
    const std::string text = to_text(graph, head, &constants);
    const graph::TextGraph read = graph::from_text(text, "<text>", constants);
    ASSERT_NO_THROW(graph::check(read.graph));
    EXPECT_EQ(read.head.passed, head.passed);
    std::string constants_again;
    ASSERT_EQ(to_text(read.graph, read.head, &constants_again), text);
    ASSERT_EQ(constants_again, constants);
    ASSERT_EQ(read.graph.values.size(), graph.values.size());
    for (size_t i = 0; i < graph.values.size(); ++i)
        ASSERT_EQ(read.graph.values[i].name, graph.values[i].name);
    // without the file of constants, time alone is left
    const Graph without = graph::from_text(text, "<text>").graph;
    EXPECT_EQ(without.nodes.size(), graph.nodes.size());
    EXPECT_EQ(without.absent.empty(), constants.empty());
}

TEST(GraphText, IsTheGraphBehindEveryPass) {
    for (uint64_t seed = 100; seed < 112; ++seed) {
        SCOPED_TRACE(::testing::Message() << "seed " << seed);
        for (Graph graph : {random_conv_net(seed), random_transformer(seed), random_mixture(seed)}) {
            ASSERT_NO_FATAL_FAILURE(check_round_trip(graph, {0, "a model"}));
            for (const Stage stage : {Stage::rewrite, Stage::types, Stage::schedule}) {
                run_passes(graph, options(), stage, [](const Pass& pass, const Graph& now, double) {
                    check_round_trip(now, {static_cast<uint32_t>(place_of(pass) + 1), ""});
                });
                ASSERT_FALSE(::testing::Test::HasFailure());
            }
        }
    }
}

TEST(GraphText, GoesOnFromWhereItWasPrinted) {
    Graph whole = random_conv_net(7);
    std::string text, constants;
    const auto print = [&](const Pass& pass, const Graph& now, double) {
        if (pass.name != "layout") return;
        constants.clear();
        text = to_text(now, {static_cast<uint32_t>(place_of(pass) + 1), ""}, &constants);
    };
    run_passes(whole, options(), Stage::rewrite, print);
    graph::TextGraph part = graph::from_text(text, "<text>", constants);
    Options rest = options();
    rest.passed = part.head.passed;
    std::vector<std::string> seen;
    run_passes(part.graph, rest, Stage::rewrite,
               [&](const Pass& pass, const Graph&, double) { seen.emplace_back(pass.name); });
    EXPECT_EQ(seen.front(), "sink_reshapes");
    std::string of_whole, of_part;
    EXPECT_EQ(to_text(part.graph, {}, &of_part), to_text(whole, {}, &of_whole));
    EXPECT_EQ(of_part, of_whole);
}

}  // namespace
}  // namespace kpu::passes
