// One program for many positions of a cache: of the forms of a value that one runs which the position needs.
#include "compiler/graph/forms.hpp"
#include "runtime/simulation.hpp"
#include "tests/compiler/plan/maker.hpp"

namespace kpu::compiler {
namespace {

using namespace testing;

/// Layers with caches, each read by products in forms of more and more rows.
class Decoder {
  public:
    Decoder(ElemType elem, uint32_t seed) : maker(elem, seed), elem_(elem) {
        rows_ = maker.pick(1, 3);
        length_ = maker.pick(rows_ + 3, 24);
        graph::Positions& positions = maker.graph().positions;
        positions.count = length_ - rows_ + 1;
        positions.step = maker.pick(2, 9);
        positions.rows = rows_;
        ValueId x = maker.unary("relu", maker.input({rows_, groups_ * width_}));
        for (int64_t layer = maker.pick(1, 2); layer > 0; --layer) {
            x = attended(x);
            // without a bias, which a sum that is cut begins with: numbers after a softmax are not exact
            if (maker.pick(0, 1) == 1)
                x = node("gemm", {x, maker.constant({groups_ * width_, groups_ * width_}, elem_)},
                         {graph::type("accum_type", maker.sums())});
        }
        maker.output(maker.unary("relu", x));
    }

    /// Sets what is computed at a position.
    void stand_at(int64_t position) {
        const graph::Positions& positions = maker.graph().positions;
        for (graph::Node& node : maker.graph().nodes) {
            const std::string_view name = node.spec().name;
            for (BoundAttr& attr : node.attrs.list) {
                if (name == "choose" && attr.name == "index")
                    attr.integer = (position + rows_ - 1) / positions.step;
                if (name == "insert_rows" && attr.name == "start") attr.integer = position;
            }
        }
    }

    Maker maker;

  private:
    ElemType elem_;
    ValueId node(const char* opcode, std::vector<ValueId> operands, std::vector<BoundAttr> attrs) {
        return maker.graph().add_node(opcode, std::move(operands), attributes(std::move(attrs)),
                                      maker.named(opcode));
    }
    ValueId by_heads(ValueId x) {
        return node("transpose", {maker.reshape(x, {rows_, groups_, width_})}, {ints("perm", {1, 0, 2})});
    }
    ValueId cache(ValueId fresh) {
        const ValueId past = maker.input({groups_, length_, width_});
        const ValueId present =
            node("insert_rows", {past, fresh},
                 {integer("axis", 1), integer("start", maker.graph().positions.count - 1)});
        if (maker.pick(0, 3) > 0) maker.output(present);  // else it is copied
        return present;
    }
    ValueId attended(ValueId x) {
        const ValueId q = by_heads(x), keys = cache(by_heads(maker.unary("relu", x))), values = cache(q);
        const graph::Positions& positions = maker.graph().positions;
        std::vector<ValueId> forms;
        for (int64_t all = positions.step; all - positions.step < length_; all += positions.step) {
            const int64_t count = std::min(all, length_);
            const auto first = [&](ValueId of) {
                return count == length_ ? of
                                        : node("slice", {of},
                                               {ints("starts", {0}), ints("ends", {count}), ints("axes", {1}),
                                                ints("steps", {1})});
            };
            const ValueId across = node("transpose", {first(keys)}, {ints("perm", {0, 2, 1})});
            const ValueId scores = node("gemm", {q, across}, {graph::type("accum_type", maker.sums())});
            const ValueId weights = node("softmax", {scores}, {integer("axis", 2)});
            const ValueId y =
                node("gemm", {weights, first(values)}, {graph::type("accum_type", maker.sums())});
            const ValueId back = node("transpose", {y}, {ints("perm", {1, 0, 2})});
            forms.push_back(maker.reshape(back, {rows_, groups_ * width_}));
        }
        const auto last = static_cast<int64_t>(forms.size()) - 1;
        return node("choose", forms, {integer("index", last)});
    }

    int64_t rows_ = 1, length_ = 1;
    int64_t groups_ = maker.pick(1, 4), width_ = maker.pick(1, 3) * 8;
};

using Where = std::tuple<Case, platforms::Overrides>;
class Positions : public ::testing::TestWithParam<Where> {};

TEST_P(Positions, HaveOneProgram) {
    const auto& [of, overrides] = GetParam();
    const platforms::Platform platform = platforms::load(of.device, overrides);
    const Target target(platform);
    for (uint32_t seed = 0; seed < 8; ++seed) {
        Decoder decoder(of.elem, seed);
        const Graph graph = decoder.maker.graph();
        graph::check(graph);
        Guide guide;
        guide.inferences = seed % 3 == 2 ? 2 : 1;
        const auto module = std::make_shared<const Module>(lower(graph, target, guide).emitted.module);
        for (int64_t position = 0; position < graph.positions.count; position += decoder.maker.pick(1, 4)) {
            decoder.stand_at(position);
            std::vector<std::string> inputs;
            const std::vector<std::string> expected = expected_of(decoder.maker, guide.inferences, inputs);
            for (const runtime::Mode mode : {runtime::Mode::functional, runtime::Mode::values_timing}) {
                const auto simulation = simulated(graph, module, platform, mode, guide.inferences, inputs,
                                                  {{"position", position}});
                for (size_t o = 0; o < expected.size(); ++o)
                    EXPECT_TRUE(simulation->output(graph.outputs[o].name).data == expected[o])
                        << graph.outputs[o].name << " at " << position << " of seed " << seed;
            }
        }
    }
}

const Where wheres[] = {
    {{ElemType::f32, "tile32"}, {}},
    {{ElemType::f32, "tile32"}, {{"engine.l1.size_bytes", "8192"}, {"l2.size_bytes", "32768"}}},
    {{ElemType::f16, "npm_pro"}, {}},
    {{ElemType::f16, "swkpu-v1"}, {{"sequencer.max_active_tokens", "24"}, {"engine.l1.size_bytes", "16384"}}},
};
INSTANTIATE_TEST_SUITE_P(Devices, Positions, ::testing::ValuesIn(wheres));

TEST(Forms, AreThoseThatNobodyElseNeeds) {
    Decoder decoder(ElemType::f32, 1);
    const Graph& graph = decoder.maker.graph();
    const std::vector<std::optional<uint32_t>> forms = graph::forms_of(graph);
    const std::vector<int32_t> makers = graph::producers(graph);
    size_t chosen = 0;
    for (const graph::Node& node : graph.nodes) {
        if (node.spec().name == "insert_rows") {
            EXPECT_FALSE(forms[static_cast<size_t>(makers[node.outputs[0]])]);
        }
        if (node.spec().name != "choose") continue;
        for (size_t i = 0; i < node.inputs.size(); ++i, ++chosen)
            EXPECT_EQ(forms[static_cast<size_t>(makers[node.inputs[i]])],
                      std::optional(static_cast<uint32_t>(i)));
    }
    EXPECT_GT(chosen, 1u);
}

TEST(Forms, FitToTheirPositions) {
    const auto refusal = [](const std::function<void(Graph&)>& change) {
        Graph graph = Decoder(ElemType::f32, 1).maker.graph();
        change(graph);
        try {
            graph::check_positions(graph);
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(refusal([](Graph&) {}), "");
    EXPECT_THAT(refusal([](Graph& graph) { graph.positions = {}; }),
                ::testing::HasSubstr("has no positions"));
    EXPECT_THAT(refusal([](Graph& graph) { graph.positions.step = 0; }),
                ::testing::HasSubstr("has no positions"));
    EXPECT_THAT(refusal([](Graph& graph) { ++graph.positions.rows; }), ::testing::HasSubstr("rows at"));
    EXPECT_THAT(refusal([](Graph& graph) { --graph.positions.count; }), ::testing::HasSubstr("rows at"));
    EXPECT_THAT(refusal([](Graph& graph) { graph.positions.step = 100; }),
                ::testing::HasSubstr("has not 1 forms"));
}

}  // namespace
}  // namespace kpu::compiler
