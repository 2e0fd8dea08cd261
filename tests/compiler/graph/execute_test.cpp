#include "compiler/graph/execute.hpp"

#include <gmock/gmock.h>

#include "base/diagnostics.hpp"
#include "tests/compiler/graph/graphs.hpp"

namespace kpu::graph {
namespace {

using testing::constant;
using testing::data_of;
using testing::elements_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::named;
using testing::output;

BoundQuant steps(double scale, int64_t zero) {
    BoundQuant quant;
    quant.kind = proto::Quant::PER_TENSOR;
    quant.scales = {scale};
    quant.zero_points = {zero};
    return quant;
}

std::vector<Data> run(const Graph& graph, const std::vector<Data>& inputs) {
    check(graph);
    const auto backend = values::make_fast_backend();
    return GraphExecutor(graph, *backend).run(inputs);
}

TEST(GraphExecutor, BroadcastsOperandsOfElementwiseNodes) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({2, 1, 3}));
    const ValueId row = constant(graph, {3}, {1, 2, 3});
    const ValueId column = constant(graph, {2, 1}, {10, 20});
    const ValueId sum = graph.add_node("add", {x, row}, {}, named("sum"));
    output(graph, graph.add_node("sub", {column, sum}, {}, named("difference")));
    const auto result = run(graph, {data_of<float>({0, 0, 0, 5, 5, 5})});
    EXPECT_THAT(elements_of<float>(result[0]), ElementsAre(9, 8, 7, 19, 18, 17, 4, 3, 2, 14, 13, 12));
}

TEST(GraphExecutor, ScalarsHaveRankZero) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({}));
    const ValueId two = constant(graph, {}, {2});
    const ValueId product = graph.add_node("mul", {x, two}, {}, named("product"));
    output(graph, product);
    const ValueId table = constant(graph, {3, 2}, {0, 1, 2, 3, 4, 5});
    const ValueId at = graph.add_constant("at", ElemType::i32, dims({}), data_of<int32_t>({2}));
    output(graph, graph.add_node("gather", {table, at}, attributes({integer("axis", 0)}), named("row")));
    EXPECT_EQ(graph.value(product).shape.rank, 0);
    EXPECT_EQ(graph.value(graph.outputs[1].value).shape, dims({2}));
    const auto result = run(graph, {data_of<float>({21})});
    EXPECT_THAT(elements_of<float>(result[0]), ElementsAre(42));
    EXPECT_THAT(elements_of<float>(result[1]), ElementsAre(4, 5));
}

TEST(GraphExecutor, QuantisedChannelsKeepTheirScalesWhenRepeated) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::i8, dims({2, 2}));
    graph.value(x).quant = steps(1, 0);
    BoundQuant channels = steps(1, 0);
    channels.kind = proto::Quant::PER_CHANNEL;
    channels.scales = {1, 10};
    channels.zero_points = {0, 1};
    const ValueId c = graph.add_constant("c", ElemType::i8, dims({2}), data_of<int8_t>({3, 3}), channels);
    NodeOptions options = named("sum");
    options.quant = steps(1, 0);
    output(graph, graph.add_node("add", {x, c}, {}, options));
    const auto result = run(graph, {data_of<int8_t>({1, 2, 3, 4})});
    EXPECT_THAT(elements_of<int8_t>(result[0]), ElementsAre(4, 22, 6, 24));
}

TEST(GraphExecutor, ShowsEachValueOnceInOrder) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({4}));
    const ValueId y = graph.add_node("relu", {x}, {}, named("y"));
    const ValueId a = graph.add_node(
        "split", {y}, attributes({integer("axis", 0), ints("split_sizes", {1, 3})}), named("parts"));
    output(graph, a);
    const auto backend = values::make_reference_backend();
    std::vector<ValueId> seen;
    std::vector<uint64_t> sizes;
    GraphExecutor executor(graph, *backend);
    executor.run({data_of<float>({1, -1, 2, -2})}, [&](ValueId id, const values::Tensor& tensor) {
        seen.push_back(id);
        sizes.push_back(tensor.elements());
        if (id == y) {
            EXPECT_EQ(reinterpret_cast<const float*>(tensor.data)[1], 0);
        }
    });
    EXPECT_THAT(seen, ElementsAre(x, y, a, a + 1));
    EXPECT_THAT(sizes, ElementsAre(4, 4, 1, 3));
}

TEST(GraphExecutor, TakesConstantsAtAnyAddress) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({2}));
    const Data whole = data_of<uint8_t>({0, 0, 0, 128, 63, 0, 0, 0, 64});  // 1 and 2, one byte late
    const ValueId c = graph.add_constant("c", ElemType::f32, dims({2}), {whole.owner, whole.bytes + 1, 8});
    output(graph, graph.add_node("mul", {x, c}, {}, named("y")));
    EXPECT_THAT(elements_of<float>(run(graph, {data_of<float>({3, 4})})[0]), ElementsAre(3, 8));
}

TEST(GraphExecutor, RefusesInputsOfAnotherSize) {
    Graph graph;
    output(graph,
           graph.add_node("relu", {graph.add_input("image", ElemType::f32, dims({2}))}, {}, named("y")));
    const auto message = [&](const std::vector<Data>& inputs) -> std::string {
        try {
            run(graph, inputs);
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    EXPECT_THAT(message({}), HasSubstr("has 1 inputs, 0 are given. Fix:"));
    EXPECT_THAT(message({data_of<float>({1})}), HasSubstr("input `image` has 4 bytes, f32[2] needs 8. Fix:"));
}

TEST(GraphExecutor, SaysWhichOperatorRefuses) {
    Graph graph;
    const ValueId x = graph.add_input("x", ElemType::f32, dims({2}));
    const ValueId y = graph.add_input("y", ElemType::f16, dims({2}));
    output(graph, graph.add_node("add", {x, y}, {}, named("Add_7")));
    try {
        run(graph, {data_of<float>({1, 2}), data_of<uint16_t>({0, 0})});
        FAIL() << "operands of two types";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("operator `Add_7`: add does not take these operands"));
    }
}

// ---- the host's arrays

Port port(ValueId value, ElemType elem, HostType host = HostType::same, std::vector<int> perm = {}) {
    return {"p", value, elem, host, std::move(perm)};
}

TEST(HostArrays, OrderOfDimensions) {
    Graph graph;
    const ValueId nhwc = graph.add_value("v", ElemType::f32, dims({1, 2, 1, 3}));
    const Port p = port(nhwc, ElemType::f32, HostType::same, {0, 3, 1, 2});
    EXPECT_EQ(host_shape(graph, p), dims({1, 3, 2, 1}));
    const Data host = data_of<float>({0, 1, 10, 11, 20, 21});  // [c][y]
    const Data value = from_host(graph, p, host);
    EXPECT_THAT(elements_of<float>(value), ElementsAre(0, 10, 20, 1, 11, 21));
    EXPECT_EQ(elements_of<float>(to_host(graph, p, value)), elements_of<float>(host));
}

TEST(HostArrays, WideIntegersAndBooleans) {
    Graph graph;
    const ValueId v = graph.add_value("v", ElemType::i32, dims({2}));
    const Port wide = port(v, ElemType::i32, HostType::int64);
    EXPECT_EQ(host_bytes(graph, wide), 16u);
    const Data value = from_host(graph, wide, data_of<int64_t>({-5, 2147483647}));
    EXPECT_THAT(elements_of<int32_t>(value), ElementsAre(-5, 2147483647));
    EXPECT_THAT(elements_of<int64_t>(to_host(graph, wide, value)), ElementsAre(-5, 2147483647));
    try {
        from_host(graph, wide, data_of<int64_t>({0, 2147483648}));
        FAIL() << "an integer that does not fit";
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(),
                    HasSubstr("element 1 is 2147483648, the device has integers of 32 bits. Fix:"));
    }
    const ValueId b = graph.add_value("b", ElemType::u8, dims({2}));
    const Port boolean = port(b, ElemType::u8, HostType::boolean);
    EXPECT_THAT(elements_of<uint8_t>(from_host(graph, boolean, data_of<uint8_t>({7, 0}))), ElementsAre(1, 0));
}

TEST(HostArrays, UnsignedIntegersAndDoubles) {
    Graph graph;
    const ValueId v = graph.add_value("v", ElemType::i32, dims({2})),
                  f = graph.add_value("f", ElemType::f32, dims({2}));
    const Port u64 = port(v, ElemType::i32, HostType::uint64),
               f64 = port(f, ElemType::f32, HostType::float64);
    const auto refusal = [&](auto convert) -> std::string {
        try {
            convert();
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    const Data value = from_host(graph, u64, data_of<uint64_t>({7, 2147483647}));
    EXPECT_THAT(elements_of<uint64_t>(to_host(graph, u64, value)), ElementsAre(7, 2147483647));
    EXPECT_THAT(refusal([&] {
                    from_host(graph, u64, data_of<uint64_t>({7, 2147483648}));
                }),
                HasSubstr("element 1 is 2147483648, the device has integers of 32 bits. Fix: use 0 to"));
    EXPECT_THAT(refusal([&] {
                    to_host(graph, u64, data_of<int32_t>({0, -1}));
                }),
                HasSubstr("element 1 is -1, which uint64 does not hold"));
    const Data narrow = from_host(graph, f64, data_of<double>({0.1, -INFINITY}));
    EXPECT_THAT(elements_of<float>(narrow), ElementsAre(0.1F, -INFINITY));
    EXPECT_THAT(elements_of<double>(to_host(graph, f64, narrow)), ElementsAre(double{0.1F}, -INFINITY));
    EXPECT_THAT(refusal([&] {
                    from_host(graph, f64, data_of<double>({0, 1e39}));
                }),
                HasSubstr("element 1 is 1e+39, the device has floats of 32 bits"));
}

TEST(HostArrays, FloatsAreQuantisedAndRounded) {
    Graph graph;
    const ValueId q = graph.add_value("q", ElemType::i8, dims({4}), steps(0.5, 3));
    const Port p = port(q, ElemType::f32);
    const Data value = from_host(graph, p, data_of<float>({0, 0.75, -1, 1000}));  // 1.5 steps: to even
    EXPECT_THAT(elements_of<int8_t>(value), ElementsAre(3, 5, 1, 127));
    EXPECT_THAT(elements_of<float>(to_host(graph, p, value)), ElementsAre(0, 1, -1, 62));
    const ValueId h = graph.add_value("h", ElemType::f16, dims({2}));
    const Data half = from_host(graph, port(h, ElemType::f32), data_of<float>({1.0F, 65520.0F}));
    EXPECT_THAT(elements_of<uint16_t>(half), ElementsAre(0x3c00, 0x7c00));
}

TEST(HostArrays, RefusesAnotherSize) {
    Graph graph;
    const ValueId v = graph.add_value("v", ElemType::f32, dims({2, 2}));
    EXPECT_THROW(from_host(graph, port(v, ElemType::f32), data_of<float>({1, 2, 3})), UserError);
}

}  // namespace
}  // namespace kpu::graph
