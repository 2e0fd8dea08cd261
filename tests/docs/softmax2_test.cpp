// The second opcode of docs/adding_an_opcode.md: its row has the answers of softmax, so the compiler does with it what it
// does with softmax, though nothing of the compiler names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "compiler/front_ends.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/graph/text.hpp"
#include "isa/nem/nem.hpp"
#include "runtime/simulation.hpp"

namespace kpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Attention of eight heads, then a softmax between transposes. OPCODE stands for softmax or the other.
constexpr std::string_view attention = R"(graph attention
  input q: %q f32[8,256,64]  host f32
  input k: %k f32[8,64,256]  host f32
  input v: %v f32[8,256,64]  host f32
  constant %eighth f32[1] = [0.125]
  constant %mask f32[1,1,256,256] = splat -1
  %scores = matmul(%q, %k) {accum_type=f32}  f32[8,256,256]  from scores:MatMul
  %scaled = mul(%scores, %eighth)  f32[8,256,256]  from scale:Mul
  %heads = reshape(%scaled) {target_shape=[1,8,256,256]}  f32[1,8,256,256]  from heads:Reshape
  %masked = add(%heads, %mask)  f32[1,8,256,256]  from hide:Add
  %shares = OPCODE(%masked) {axis=-1}  f32[1,8,256,256]  from weigh:Rows
  %rows = reshape(%shares) {target_shape=[8,256,256]}  f32[8,256,256]  from rows:Reshape
  %mixed = matmul(%rows, %v) {accum_type=f32}  f32[8,256,64]  from mix:MatMul
  %last = transpose(%mixed) {perm=[1,0,2]}  f32[256,8,64]  from last:Transpose
  %joined = OPCODE(%last) {axis=2}  f32[256,8,64]  from again:Rows
  %back = transpose(%joined) {perm=[1,0,2]}  f32[8,256,64]  from back:Transpose
  %double = mul(%back, %eighth)  f32[8,256,64]  from double:Mul
  output y: %double f32[8,256,64]  host f32
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

compiler::Input compiled(const std::string& text, const std::string& platform, const std::string& precision,
                         std::string* said = nullptr) {
    GivenOptions options{{"precision", precision}};
    if (precision == "int8") options.emplace_back("calibrate", "random:1");
    compiler::DeviceChoice device;
    device.platform = platform;
    Diagnostics notes;
    compiler::Input input =
        compiler::load_for_device(compiler::Source::of_bytes(text, "attention.txt"), options, device, notes);
    if (said != nullptr) *said = notes.to_string();
    return input;
}

class SoftmaxOfTwo : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

// Fused, cut in strips, without the transposes and reshapes around it, and not in steps.
TEST_P(SoftmaxOfTwo, IsCompiledAsSoftmax) {
    const auto [platform, precision] = GetParam();
    std::string said_of_one, said_of_other;
    const auto text_with = [&, platform = platform, precision = precision](std::string_view opcode,
                                                                           std::string& said) {
        const std::string graph = replaced(std::string(attention), "OPCODE", opcode);
        return nem::print(*compiled(graph, platform, precision, &said).module);
    };
    const std::string one = text_with("softmax", said_of_one), other = text_with("softmax2", said_of_other);
    EXPECT_THAT(one, HasSubstr(R"("name":"strips")"));
    // one operation with its scores where whole rows of them fit L1
    const bool with_scores = std::string_view(platform) == "npm_lite";
    EXPECT_THAT(one, HasSubstr(with_scores ? R"("fused_with":["scale","hide","weigh","rows","heads"])"
                                           : R"("fused_with":["rows","heads"])"));
    EXPECT_THAT(one, Not(HasSubstr("transpose.async")));
    if (std::string_view(precision) == "int8") {
        EXPECT_THAT(said_of_one, HasSubstr("most of its probabilities are below a step: mix"));
    }
    EXPECT_THAT(other, HasSubstr("softmax2.async"));
    EXPECT_TRUE(replaced(other, "softmax2", "softmax") == one);
    EXPECT_EQ(replaced(said_of_other, "softmax2", "softmax"), said_of_one);
}

INSTANTIATE_TEST_SUITE_P(Devices, SoftmaxOfTwo,
                         ::testing::Values(std::pair("edge16", "int8"), std::pair("npm_lite", "fp16"),
                                           std::pair("swkpu-v2", "fp16")),
                         [](const auto& of) {
                             return replaced(std::string(of.param.first), "-", "_") + "_" + of.param.second;
                         });

template <class Operand>
NpyArray array(const std::vector<int64_t>& shape, const std::vector<Operand>& elements) {
    NpyArray result{"<f4", shape, {}};
    result.data.assign(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(Operand));
    return result;
}

std::vector<float> floats_of(const void* bytes, size_t size) {
    std::vector<float> result(size / sizeof(float));
    std::memcpy(result.data(), bytes, size);
    return result;
}

// 2^-2, 2^-1, 2^0, 2^-1 of their sum 2.25; and a column.
TEST(SoftmaxOfTwo, ValuesByHand) {
    for (const auto& [axis, wanted] :
         {std::pair("-1", std::vector<float>{1, 2, 4, 2}), std::pair("0", std::vector<float>{9, 9, 9, 9})}) {
        const std::string text = std::string("graph rows\n  input x: %x f32[1,4]  host f32\n") +
                                 "  %y = softmax2(%x) {axis=" + axis +
                                 "}  f32[1,4]  from weigh:Rows\n  output y: %y f32[1,4]  host f32\n";
        const compiler::Input input = compiled(text, "tile32", "f32");
        runtime::Simulation simulation(input.module, &*input.platform, {});
        simulation.set_input("x", array<float>({1, 4}, {0, 1, 2, 1}));
        ASSERT_EQ(simulation.run(), runtime::RunStatus::finished);
        const NpyArray y = simulation.output("y");
        const std::vector<float> found = floats_of(y.data.data(), y.data.size());
        for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(found.at(i), wanted[i] / 9) << axis;
    }
}

// A program in strips computes what the graph does.
TEST(SoftmaxOfTwo, ValuesOfAProgramInStrips) {
    const std::string text = replaced(std::string(attention), "OPCODE", "softmax2");
    const graph::Graph graph = graph::from_text(text, "attention.txt").graph;
    const compiler::Input input = compiled(text, "npm_lite", "fp16");
    runtime::Simulation simulation(input.module, &*input.platform, {});
    std::mt19937 random(1);
    std::uniform_real_distribution<float> numbers(-2, 2);
    std::vector<graph::Data> operands;
    for (const graph::Port& port : graph.inputs) {
        const graph::Value& value = graph.value(port.value);
        std::vector<float> elements(value.elements());
        for (float& element : elements) element = numbers(random);
        simulation.set_input(port.name, array<float>({value.shape.begin(), value.shape.end()}, elements));
        std::vector<uint8_t> bytes(elements.size() * sizeof(float));
        std::memcpy(bytes.data(), elements.data(), bytes.size());
        operands.push_back(graph::make_data(std::move(bytes)));
    }
    ASSERT_EQ(simulation.run(), runtime::RunStatus::finished);
    const auto engine = values::make_fast_backend();
    const graph::Data right = graph::GraphExecutor(graph, *engine).run(operands).at(0);
    const NpyArray y = simulation.output("y");
    const std::vector<float> found = floats_of(y.data.data(), y.data.size()),
                             wanted = floats_of(right.bytes, right.size);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 0.02F * wanted[i]) << i;
}

}  // namespace
}  // namespace kpu
