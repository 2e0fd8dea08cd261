#include <gmock/gmock.h>

#include "tests/compiler/graph/graphs.hpp"

namespace kpu::graph {
namespace {

using testing::constant;
using ::testing::HasSubstr;
using testing::named;
using ::testing::Not;
using testing::output;

Graph small_graph() {
    Graph graph;
    graph.name = "small";
    const ValueId x = graph.add_input("x", ElemType::f32, dims({2, 3}));
    graph.inputs[0].perm = {1, 0};
    const ValueId w = constant(graph, {3, 4}, std::vector<float>(12, 1));
    const ValueId y = graph.add_node("matmul", {x, w}, attributes({type("accum_type", ElemType::f32)}),
                                     named("MatMul_0", "MatMul"));
    NodeOptions options = named("Clip \"1\"", "Clip");
    options.output = "z";
    output(graph,
           graph.add_node("clamp", {y}, attributes({real("min_val", 0), real("max_val", 6.5)}), options));
    graph.outputs[0].host = HostType::int64;
    return graph;
}

TEST(GraphText, NamesOperandsAttributesTypesAndSources) {
    Graph graph = small_graph();
    graph.nodes[0].absorbed.push_back({"Add_1", "Add"});
    graph.nodes[0].group = graph.nodes[1].group = 3;
    graph.nodes[0].anchor = true;
    EXPECT_EQ(
        to_text(graph),
        "graph small\n"
        "  input x: %x f32[2,3]  host f32 perm=[1,0]\n"
        "  constant %c f32[3,4] = splat 1\n"
        "  %MatMul_0 = matmul(%x, %c) {accum_type=f32}  f32[2,4]  from MatMul_0:MatMul + Add_1:Add  group 3  "
        "anchor\n"
        "  %z = clamp(%MatMul_0) {min_val=0 max_val=6.5}  f32[2,4]  from \"Clip \\\"1\\\"\":Clip  group 3\n"
        "  output z: %z f32[2,4]  host i64 as f32\n");
}

TEST(GraphText, ShowsQuantisation) {
    Graph graph = small_graph();
    graph.value(graph.inputs[0].value).quant.kind = proto::Quant::PER_TENSOR;
    graph.value(graph.inputs[0].value).quant.scales = {0.5};
    graph.value(graph.inputs[0].value).quant.zero_points = {-3};
    EXPECT_THAT(to_text(graph), HasSubstr("%x f32[2,3] scale=0.5 zero=-3"));
}

TEST(GraphPicture, HasNodesGroupsAndArrows) {
    Graph graph = small_graph();
    EXPECT_THAT(to_dot(graph), Not(HasSubstr("subgraph")));
    graph.nodes[0].group = graph.nodes[1].group = 1;
    const std::string dot = to_dot(graph);
    EXPECT_THAT(dot, HasSubstr("digraph \"small\" {"));
    EXPECT_THAT(dot, HasSubstr("subgraph cluster_1 {"));
    EXPECT_THAT(dot, HasSubstr("n0 [label=\"matmul\\nMatMul_0\", tooltip=\"accum_type=f32\"];"));
    EXPECT_THAT(dot, HasSubstr("n1 [label=\"clamp\\nClip \\\"1\\\"\""));
    EXPECT_THAT(dot, HasSubstr("i0 -> n0 [label=\"f32[2,3]\"];"));
    EXPECT_THAT(dot, HasSubstr("n0 -> n1 [label=\"f32[2,4]\"];"));
    EXPECT_THAT(dot, HasSubstr("n1 -> o0"));
}

}  // namespace
}  // namespace kpu::graph
