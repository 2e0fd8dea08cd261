#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

// Plain cases are texts: texts/fuse_*.txt.
/// "1*gemm 1relu exp": group, star of the anchor, opcode.
std::string groups_of(const Graph& graph) {
    std::string text;
    for (const Node& node : graph.nodes) {
        const std::string group =
            node.group == 0 ? "" : fmt::format("{}{}", node.group, node.anchor ? "*" : "");
        text += fmt::format("{}{}{}", text.empty() ? "" : " ", group, node.spec().name);
    }
    return text;
}

struct Net : Builder {
    Net() : Builder(1) { x = graph.add_input("x", ElemType::f32, graph::dims({4, 4})); }
    ValueId product(ValueId from) {
        return node("matmul", {from, random_constant(graph, random, {4, 4})}, accumulate());
    }
    std::string fused(std::vector<ValueId> outputs) {
        for (const ValueId id : outputs) output(graph, id);
        Random inputs_of(1);
        const auto inputs = random_inputs(graph, inputs_of);
        const auto before = outputs_of(graph, inputs);
        fuse(graph, options());
        EXPECT_EQ(difference(before, outputs_of(graph, inputs)), 0);
        return groups_of(graph);
    }
    ValueId x;
};

TEST(Fuse, OperandsThatAreRepeatedDoNot) {
    Net net;
    const ValueId row = net.graph.add_input("row", ElemType::f32, graph::dims({4}));
    EXPECT_EQ(net.fused({net.node("mul", {net.product(net.x), row})}), "matmul mul");
    Net larger;
    const ValueId y = larger.product(larger.x);
    EXPECT_EQ(
        larger.fused({larger.node("add", {y, random_constant(larger.graph, larger.random, {2, 1, 1})})}),
        "matmul add");
}

TEST(Fuse, WhatOthersReadEndsAGroup) {
    Net net;
    const ValueId y = net.node("relu", {net.product(net.x)});
    const ValueId z = net.node("exp", {y});
    EXPECT_EQ(net.fused({z, net.node("tanh", {y})}), "1*matmul 1relu exp tanh");
    Net second;
    const ValueId shown = second.node("relu", {second.product(second.x)});
    EXPECT_EQ(second.fused({shown, second.node("exp", {shown})}), "1*matmul 1relu exp");
}

/// Scores of 6 rows, masked, their softmax, and what is behind it.
struct Attention : Builder {
    explicit Attention(uint64_t l1_bytes) : Builder(1) {
        Options device = options();
        device.l1_bytes = l1_bytes;
        const auto operand = [&](const char* name, const std::vector<int64_t>& shape) {
            return graph.add_input(name, ElemType::f32, graph::dims(shape));
        };
        const ValueId scores =
            node("matmul", {operand("q", {2, 6, 8}), operand("k", {2, 8, 100})}, accumulate());
        const ValueId masked = node("add", {scores, operand("mask", {2, 6, 100})});
        const ValueId shares = node("softmax", {masked}, graph::attributes({graph::integer("axis", 2)}));
        output(graph, node("exp", {shares}));
        Random inputs_of(1);
        const auto inputs = random_inputs(graph, inputs_of);
        const auto before = outputs_of(graph, inputs);
        fuse(graph, device);
        EXPECT_EQ(difference(before, outputs_of(graph, inputs)), 0);
    }
};

TEST(Fuse, SoftmaxJoinsItsRowsWhereTheyFit) {
    EXPECT_EQ(groups_of(Attention(1 << 20).graph), "1*matmul 1add 1softmax 1exp");
    EXPECT_EQ(groups_of(Attention(1 << 14).graph), "1*matmul 1add 2*softmax 2exp");
    EXPECT_EQ(groups_of(Attention(0).graph), "1*matmul 1add 2*softmax 2exp") << "L1 is not known";
}

TEST(Fuse, NodesAloneAreTheirOwnAnchor) {
    Net net;
    net.fused({net.transpose(net.x, {1, 0})});
    EXPECT_EQ(net.graph.nodes[0].group, 0u);
    EXPECT_TRUE(net.graph.nodes[0].anchor);
}

/// Checks what Node::group promises, on random networks.
TEST(Fuse, GroupsHoldTogether) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        Graph graph = seed % 3 == 0   ? random_conv_net(seed)
                      : seed % 3 == 1 ? random_transformer(seed)
                                      : random_mixture(seed);
        run_passes(graph, options(), Stage::rewrite);
        run_passes(graph, options(), Stage::schedule);
        const auto makers = graph::producers(graph);
        const auto readers = graph::users(graph);
        uint32_t most = 0, closed = 0;
        std::vector<bool> is_output(graph.values.size(), false);
        for (const graph::Port& port : graph.outputs) is_output[port.value] = true;
        for (size_t i = 0; i < graph.nodes.size(); ++i) {
            const Node& node = graph.nodes[i];
            const bool first = i == 0 || graph.nodes[i - 1].group != node.group;
            const bool last = i + 1 == graph.nodes.size() || graph.nodes[i + 1].group != node.group;
            ASSERT_EQ(node.anchor, node.group == 0 || first);
            if (node.group == 0) continue;
            ASSERT_FALSE(first && last) << "a group of one";
            if (first) ++closed;
            most = std::max(most, node.group);
            for (const ValueId id : node.outputs) {
                if (last) continue;
                ASSERT_FALSE(is_output[id]);
                for (const auto reader : readers[id]) ASSERT_EQ(reader, i + 1);
            }
        }
        ASSERT_EQ(closed, most) << "a group in two pieces";
    }
}

}  // namespace
}  // namespace kpu::passes
