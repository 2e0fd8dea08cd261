// Texts of graphs: there and back, and what is wrong in one.
#include <gmock/gmock.h>

#include <random>

#include "compiler/graph/text.hpp"
#include "tests/compiler/graph/graphs.hpp"

namespace kpu::graph {
namespace {

using testing::data_of;
using testing::elements_of;
using ::testing::HasSubstr;
using testing::named;
using testing::output;

constexpr const char* small = R"(# a remark
graph small
  passed 3
  model "my net.onnx"
  input x: %x f32[2,3]  host f32 perm=[1,0]
  constant %w f32[3,2] = [1,-2.5,0,4,5e-07,-0]
  constant %ones f16[2] = splat 1
  constant %nan f32[1] = [0x0000c0ff]
  %y = matmul(%x, %w) {accum_type=f32}  f32[2,2]  from "Mat Mul":MatMul + Add_1:Add  group 2  anchor  kept f32
  %z = relu(%y)  f32[2,2]  group 2  alone  strips 3
  output z: %z f32[2,2]  host i64 as i32
)";

std::string error_of(const std::string& text, std::string_view constants = {}) {
    try {
        from_text(text, "g.txt", constants);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

/// Returns `small` with one text in place of another.
std::string with(const std::string& from, const std::string& to) {
    std::string text = small;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(GraphFromText, ReadsEveryPart) {
    const TextGraph found = from_text(small, "g.txt");
    const Graph& graph = found.graph;
    EXPECT_EQ(found.head.passed, 3u);
    EXPECT_EQ(found.head.model, "my net.onnx");
    EXPECT_EQ(graph.inputs.at(0).perm, (std::vector<int>{1, 0}));
    EXPECT_EQ(graph.outputs.at(0).host, HostType::int64);
    EXPECT_EQ(elements_of<float>(graph.values.at(1).data),
              (std::vector<float>{1, -2.5F, 0, 4, 5e-7F, -0.0F}));
    EXPECT_EQ(elements_of<uint16_t>(graph.values.at(2).data), (std::vector<uint16_t>{0x3c00, 0x3c00}));
    EXPECT_EQ(elements_of<uint32_t>(graph.values.at(3).data), (std::vector<uint32_t>{0xffc00000}));
    const Node& node = graph.nodes.at(0);
    EXPECT_EQ(node.source.name + "|" + node.source.type, "Mat Mul|MatMul");
    EXPECT_EQ(node.absorbed.at(0).name, "Add_1");
    EXPECT_EQ(node.group, 2u);
    EXPECT_TRUE(node.anchor);
    EXPECT_EQ(node.kept, ElemType::f32);
    EXPECT_EQ(graph.nodes.at(1).strips, 3u);
    EXPECT_TRUE(graph.nodes.at(1).alone);
    EXPECT_TRUE(graph.absent.empty());
    std::string constants;
    EXPECT_EQ("# a remark\n" + to_text(graph, found.head, &constants), small);
}

TEST(GraphFromText, KeepsIdsAndQuantisation) {
    Graph graph;
    const ValueId w = graph.add_constant("w w", ElemType::i8, dims({2, 1}), data_of<int8_t>({-128, 127}));
    const ValueId x = graph.add_input("x:0", ElemType::f32, dims({1, 2}));
    graph.value(w).quant = {proto::Quant::PER_CHANNEL, 0, 0, {0.1, 1.0 / 3}, {0, -5}};
    output(graph, graph.add_node("relu", {x}, {}, named("a\"b\\c\n", "Relu")));
    const std::string text = to_text(graph, {}, nullptr);
    const Graph again = from_text(text, "g.txt").graph;
    EXPECT_EQ(again.values.at(w).name, "w w");
    EXPECT_EQ(again.values.at(x).name, "x:0");
    EXPECT_EQ(again.values.at(w).quant.scales, graph.value(w).quant.scales);
    EXPECT_EQ(again.nodes.at(0).source.name, "a\"b\\c\n");
    EXPECT_EQ(to_text(again, {}, nullptr), text);
}

TEST(GraphFromText, KeepsPositions) {
    const std::string text = R"(graph steps
  positions 8 step 4 rows 2
  input past: %past f32[1,9,2]  host f32
  input at: %at i32[1]  host i64 as i32 follows position plus=-3
  input mask: %mask i32[1,9]  host i32 follows up_to plus=1 perm=[1,0]
  input new: %new f32[1,2,2]  host f32
  %present = insert_rows(%past, %new) {axis=1 start=7}  f32[1,9,2]
  output present: %present f32[1,9,2]  host f32
)";
    const Graph graph = from_text(text, "g.txt").graph;
    EXPECT_EQ(graph.positions.count, 8);
    EXPECT_EQ(graph.positions.step, 4);
    EXPECT_EQ(graph.positions.rows, 2);
    EXPECT_EQ(graph.inputs.at(1).follows, Follows::position);
    EXPECT_EQ(graph.inputs.at(1).plus, -3);
    EXPECT_EQ(graph.inputs.at(2).follows, Follows::up_to);
    EXPECT_EQ(to_text(graph, {}, nullptr), text);
    EXPECT_THAT(error_of("graph a\n  positions 0 step 1 rows 1\n"), HasSubstr("g.txt:2:13: error: "));
    EXPECT_THAT(error_of("graph a\n  input x: %x f32[1]  host f32 follows suit\n"),
                HasSubstr("g.txt:2:40: error: `position` is missing"));
}

TEST(GraphFromText, LargeConstantsStandBesideIt) {
    std::mt19937 random(1);
    std::vector<float> numbers(1000);
    for (float& number : numbers) number = static_cast<float>(random()) / 1e6F;
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({10, 100}));
    const ValueId w = graph.add_constant("w", ElemType::f32, dims({10, 100}), data_of(numbers));
    output(graph, graph.add_node("add", {x, w}, {}, named("Add_0", "Add")));
    std::string constants;
    const std::string text = to_text(graph, {}, &constants);
    EXPECT_EQ(constants.size(), 4000u);
    EXPECT_EQ(elements_of<float>(from_text(text, "g.txt", constants).graph.value(w).data), numbers);
    const Graph without = from_text(text, "g.txt").graph;
    EXPECT_EQ(without.absent.count("w"), 1u);
    EXPECT_EQ(without.value(w).data.size, 4000u);
    constants[5] ^= 1;
    EXPECT_THAT(error_of(text, constants),
                HasSubstr("g.txt:2:13: error: the file of constants is not the one"));
    EXPECT_THAT(to_text(graph), HasSubstr("constant %w f32[10,100] = ..."));
}

TEST(GraphFromText, MistakesHaveTheirPlace) {
    const std::pair<std::string, std::string> cases[] = {
        {error_of(""), "g.txt:1:1: error: there is no graph. Fix: begin with `graph NAME`."},
        {error_of("graph a\n"), "g.txt:2:1: error: the graph has no output"},
        {error_of(with("graph small", "small")), "g.txt:2:1: error: `graph` is missing"},
        {error_of(with("passed 3", "passed x")), "g.txt:3:10: error: a whole number is missing"},
        {error_of(with("perm=[1,0]", "perm=[1,1]")),
         "g.txt:5:39: error: this is not an order of the dimensions"},
        {error_of(with("%x f32[2,3]", "%x f33[2,3]")), "g.txt:5:15: error: there is no element type `f33`"},
        {error_of(with("%x f32[2,3]", "%x f32[2,-3]")), "g.txt:5:18: error: the tensor is too large"},
        {error_of(with("%x f32[2,3]", "%x f32[1,1,1,1,1,2,3]")),
         "g.txt:5:18: error: 7 dimensions are too many"},
        {error_of(with("4,5e-07,-0]", "4]")), "g.txt:6:26: error: 6 numbers are needed, and there are 4"},
        {error_of(with("4,5e-07,-0]", "4,5e-07,-0,1]")), "g.txt:6:46: error: `]` is missing"},
        {error_of(with("0x0000c0ff", "0x00")), "g.txt:8:26: error: 4 bytes are needed"},
        {error_of(with("%ones f16[2] = splat 1", "%ones f16[99999,99999] = splat 1")),
         "g.txt:7:37: error: constants whose elements are not in the text are too large"},
        {error_of(with("%ones f16[2] = splat 1", "%w f16[2] = splat 1")),
         "g.txt:7:12: error: `w` is there already"},
        {error_of(with("matmul(%x, %w)", "matmul(%x, %v)")), "g.txt:9:19: error: there is no value `v` yet"},
        {error_of(with("matmul(", "matmil(")), "g.txt:9:8: error: there is no operation `matmil`"},
        {error_of(with("%y = matmul(%x, %w)", "%y = matmul(%x, %ones)")), "g.txt:9:3: error: matmul"},
        {error_of(with(" {accum_type=f32}", "")),
         "g.txt:9:3: error: matmul lacks its attribute `accum_type`"},
        {error_of(with("accum_type=f32", "axis=1")),
         "g.txt:9:24: error: `axis` is not another attribute of it"},
        {error_of(with("}  f32[2,2]", "}  f32[2,3]")), "g.txt:9:3: error: output 0 is [2,2]"},
        {error_of(std::string(small) + "  gone a w\n"), "g.txt:12:10: error: `w` is there already"},
        {error_of(with("\"Mat Mul\"", "\"Mat Mul")), "error: "},
        {error_of(with("alone", "lone")), "g.txt:10:37: error: the line goes on"},
        {error_of(with("%z f32[2,2]  host", "%z f32[2,3]  host")),
         "g.txt:11:16: error: the output has another type"},
    };
    for (const auto& [found, expected] : cases) EXPECT_THAT(found, HasSubstr(expected));
}

}  // namespace
}  // namespace kpu::graph
