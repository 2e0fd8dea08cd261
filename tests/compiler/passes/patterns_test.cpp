#include <gmock/gmock.h>

#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;
using graph::attributes;
using graph::ints;

/// x f32[3,8] and what `make` computes of it, after simplify and patterns. Values must agree to a few units in
/// the last place of the range.
template <class Make>
std::string found(Make make) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({3, 8}));
    output(b.graph, make(b, x));
    Random random(7);
    const std::vector<Data> inputs{graph::testing::data_of(random_floats(random, 24, -4, 4))};
    const auto before = outputs_of(b.graph, inputs);
    for (const auto pass : {simplify, fold_constants, find_patterns}) pass(b.graph, options());
    EXPECT_LE(difference(before, outputs_of(b.graph, inputs)), 1e-6) << to_text(b.graph);
    return opcodes_of(b.graph);
}

ValueId number(Builder& b, double value) { return constant(b.graph, {}, {static_cast<float>(value)}); }

ValueId reduce(Builder& b, const std::string& opcode, ValueId x, int64_t axis = -1, bool keep = true) {
    return b.node(opcode, {x}, attributes({ints("axes", {axis}), graph::integer("keepdims", keep ? 1 : 0)}));
}

ValueId vector(Builder& b, int64_t size = 8) { return random_constant(b.graph, b.random, {size}, 0.5, 2); }

ValueId add_epsilon(Builder& b, ValueId x) { return b.node("add", {x, number(b, 1e-5)}); }

// ---- layernorm, rmsnorm

TEST(Patterns, LayerNorm) {
    const auto centred = [](Builder& b, ValueId x) {
        return b.node("sub", {x, reduce(b, "reduce_mean", x)});
    };
    const auto plain = [&](Builder& b, ValueId x) {
        const ValueId d = centred(b, x);
        const ValueId variance = reduce(b, "reduce_mean", b.node("pow", {d, number(b, 2)}));
        return b.node("div", {d, b.node("sqrt", {add_epsilon(b, variance)})});
    };
    EXPECT_EQ(found(plain), "layernorm");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  return b.node("mul", {plain(b, x), vector(b)});
              }),
              "layernorm");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  return b.node("add", {vector(b), b.node("mul", {vector(b), plain(b, x)})});
              }),
              "layernorm");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  return b.node("add", {plain(b, x), vector(b)});
              }),
              "layernorm");
    // two differences, the square as a product, the inverse root
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  const ValueId variance = reduce(b, "reduce_mean", b.node("square", {centred(b, x)}));
                  const ValueId root = b.node("sqrt", {add_epsilon(b, variance)});
                  return b.node("mul", {b.node("reciprocal", {root}), centred(b, x)});
              }),
              "layernorm");
    // a scale that varies along the rows is none of the norm's
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  return b.node("mul", {plain(b, x), random_constant(b.graph, b.random, {3, 1})});
              }),
              "layernorm mul");
}

TEST(Patterns, LayerNormAlongAnotherAxis) {
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId d = b.node("sub", {x, reduce(b, "reduce_mean", x, 0)});
                  const ValueId variance = reduce(b, "reduce_mean", b.node("mul", {d, d}), 0);
                  const ValueId y = b.node("div", {d, b.node("sqrt", {add_epsilon(b, variance)})});
                  return b.node("mul", {y, random_constant(b.graph, b.random, {3, 1})});
              }),
              "layernorm");
}

TEST(Patterns, RmsNorm) {
    EXPECT_EQ(
        found([](Builder& b, ValueId x) {
            const ValueId mean = reduce(b, "reduce_mean", b.node("pow", {x, number(b, 2)}));
            const ValueId inverse = b.node("div", {number(b, 1), b.node("sqrt", {add_epsilon(b, mean)})});
            return b.node("mul", {vector(b), b.node("mul", {x, inverse})});
        }),
        "rmsnorm");
    // the mean as a sum
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId sum = reduce(b, "reduce_sum", b.node("mul", {x, x}));
                  const ValueId mean = b.node("div", {sum, number(b, 8)});
                  return b.node("div", {x, b.node("sqrt", {add_epsilon(b, mean)})});
              }),
              "rmsnorm");
}

/// Adds mean(x * x) - mean(x) * mean(x), not below 0, as JAX and TensorFlow write it.
ValueId difference_of_means(Builder& b, ValueId x, ValueId mean, bool keep) {
    const ValueId sum = reduce(b, "reduce_sum", b.node("mul", {x, x}), -1, keep);
    const ValueId squares = b.node("mul", {sum, number(b, 1.0 / 8)});
    return b.node("relu", {b.node("sub", {squares, b.node("mul", {mean, mean})})});
}

TEST(Patterns, LayerNormOfADifferenceOfMeans) {
    // the scale joins the inverse root; dimensions go and come back
    EXPECT_EQ(
        found([](Builder& b, ValueId x) {
            const auto column = [&](ValueId v) {
                return b.node("reshape", {v}, attributes({ints("target_shape", {3, 1})}));
            };
            const ValueId mean = b.node("mul", {reduce(b, "reduce_sum", x, -1, false), number(b, 1.0 / 8)});
            const ValueId root =
                b.node("sqrt", {add_epsilon(b, column(difference_of_means(b, x, mean, false)))});
            const ValueId inverse = b.node("mul", {b.node("reciprocal", {root}), vector(b)});
            const ValueId y = b.node("mul", {b.node("sub", {x, column(mean)}), inverse});
            return b.node("add", {y, vector(b)});
        }),
        "layernorm");
    // x * inverse + (bias - mean * inverse)
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId mean = reduce(b, "reduce_mean", x);
                  const ValueId root =
                      b.node("rsqrt", {add_epsilon(b, difference_of_means(b, x, mean, true))});
                  const ValueId inverse = b.node("mul", {root, vector(b)});
                  const ValueId shift = b.node("sub", {vector(b), b.node("mul", {mean, inverse})});
                  return b.node("add", {b.node("mul", {x, inverse}), shift});
              }),
              "layernorm");
}

TEST(Patterns, NormsOfOtherFactors) {
    const auto squares = [](Builder& b, ValueId x) { return reduce(b, "reduce_sum", b.node("mul", {x, x})); };
    // any factor of the mean: the length, a tenth of the sum
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  return b.node("div", {x, b.node("sqrt", {squares(b, x)})});
              }),
              "rmsnorm");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  const ValueId tenth = b.node("mul", {squares(b, x), number(b, 0.1)});
                  return b.node("mul", {x, b.node("pow", {add_epsilon(b, tenth), number(b, -0.5)})});
              }),
              "rmsnorm");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("div", {x, reduce(b, "reduce_l2", x)});
              }),
              "rmsnorm");
    // not below an epsilon: no opcode does that
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  const ValueId mean = b.node("mul", {squares(b, x), number(b, 0.125)});
                  return b.node("div", {x, b.node("sqrt", {b.node("max", {mean, number(b, 1e-5)})})});
              }),
              "mul reduce_sum mul max sqrt div");
}

TEST(Patterns, LayerNormOfSeveralAxes) {
    EXPECT_EQ(found([](Builder& b, ValueId flat) {
                  const ValueId x = b.node("reshape", {flat}, attributes({ints("target_shape", {3, 2, 4})}));
                  const auto mean = [&](ValueId v) {
                      return b.node("reduce_mean", {v},
                                    attributes({ints("axes", {2, 1}), graph::integer("keepdims", 1)}));
                  };
                  const ValueId d = b.node("sub", {x, mean(x)});
                  return b.node("div", {d, b.node("sqrt", {add_epsilon(b, mean(b.node("mul", {d, d})))})});
              }),
              "reshape reshape layernorm reshape");
}

TEST(Patterns, NormsThatAreNone) {
    // the root of another tensor
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId y = b.node("exp", {x});
                  const ValueId mean = reduce(b, "reduce_mean", b.node("mul", {y, y}));
                  return b.node("div", {x, b.node("sqrt", {add_epsilon(b, mean)})});
              }),
              "exp mul reduce_mean add sqrt div");
    // the mean of another tensor's squares less that of x
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId y = b.node("exp", {x}), mean = reduce(b, "reduce_mean", x);
                  const ValueId squares = reduce(b, "reduce_mean", b.node("mul", {y, y}));
                  const ValueId variance = b.node("sub", {squares, b.node("mul", {mean, mean})});
                  const ValueId root = b.node("sqrt", {b.node("abs", {add_epsilon(b, variance)})});
                  return b.node("div", {b.node("sub", {x, mean}), root});
              }),
              "exp reduce_mean mul reduce_mean mul sub add abs sqrt sub div");
    // centred by a multiple of the mean
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId twice = b.node("mul", {reduce(b, "reduce_mean", x), number(b, 2)});
                  const ValueId d = b.node("sub", {x, twice});
                  const ValueId mean = reduce(b, "reduce_mean", b.node("mul", {d, d}));
                  return b.node("div", {d, b.node("sqrt", {add_epsilon(b, mean)})});
              }),
              "reduce_mean mul sub rmsnorm");
    // dimensions that are not kept: divides columns by the norms of rows
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({8, 8}));
    const ValueId mean = reduce(b, "reduce_mean", b.node("mul", {x, x}), -1, false);
    output(b.graph, b.node("div", {x, b.node("sqrt", {add_epsilon(b, mean)})}));
    find_patterns(b.graph, options());
    EXPECT_EQ(count(b.graph, "rmsnorm"), 0u);
}

// ---- softmax

TEST(Patterns, Softmax) {
    const auto shifted = [](Builder& b, ValueId x) { return b.node("sub", {x, reduce(b, "reduce_max", x)}); };
    const auto softmax = [](Builder& b, ValueId z) {
        const ValueId e = b.node("exp", {z});
        return b.node("div", {e, reduce(b, "reduce_sum", e)});
    };
    EXPECT_EQ(found([&](Builder& b, ValueId x) { return softmax(b, x); }), "softmax");
    EXPECT_EQ(found([&](Builder& b, ValueId x) { return softmax(b, shifted(b, x)); }), "softmax");
    EXPECT_EQ(found([&](Builder& b, ValueId x) { return b.node("log", {softmax(b, shifted(b, x))}); }),
              "log_softmax");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  const ValueId z = shifted(b, x);
                  return b.node("sub", {z, b.node("log", {reduce(b, "reduce_sum", b.node("exp", {z}))})});
              }),
              "log_softmax");
    EXPECT_EQ(found([&](Builder& b, ValueId x) {
                  const ValueId e = b.node("exp", {x});
                  return b.node("div", {e, reduce(b, "reduce_sum", b.node("exp", {b.node("neg", {x})}))});
              }),
              "exp neg exp reduce_sum div");
}

// ---- activations

ValueId half_one_plus(Builder& b, ValueId x, ValueId f) {
    return b.node("mul", {b.node("mul", {x, b.node("add", {f, number(b, 1)})}), number(b, 0.5)});
}

TEST(Patterns, Gelu) {
    EXPECT_EQ(
        found([](Builder& b, ValueId x) {
            return half_one_plus(b, x, b.node("erf", {b.node("div", {x, number(b, 1.4142135623730951)})}));
        }),
        "gelu");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId f = b.node("erf", {b.node("mul", {number(b, 0.7071067811865476), x})});
                  const ValueId half = b.node("div", {x, number(b, 2)});
                  return b.node("mul", {b.node("add", {number(b, 1), f}), half});
              }),
              "gelu");
    // another argument
    EXPECT_EQ(found([](Builder& b, ValueId x) { return half_one_plus(b, x, b.node("erf", {x})); }),
              "erf add mul mul");
}

TEST(Patterns, GeluWithTanh) {
    const auto by_cube = [](Builder& b, ValueId x, double factor) {
        const ValueId cube = b.node("mul", {b.node("pow", {x, number(b, 3)}), number(b, factor)});
        const ValueId u = b.node("mul", {b.node("add", {x, cube}), number(b, 0.7978845608028654)});
        return half_one_plus(b, x, b.node("tanh", {u}));
    };
    EXPECT_EQ(found([&](Builder& b, ValueId x) { return by_cube(b, x, 0.044715); }), "gelu_tanh");
    EXPECT_EQ(found([&](Builder& b, ValueId x) { return by_cube(b, x, 0.05); }),
              "pow mul add mul tanh add mul mul");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId square = b.node("mul", {b.node("mul", {x, x}), number(b, 0.044715)});
                  const ValueId inner = b.node("add", {number(b, 1), square});
                  const ValueId u = b.node("mul", {b.node("mul", {x, number(b, 0.7978845608028654)}), inner});
                  return half_one_plus(b, x, b.node("tanh", {u}));
              }),
              "gelu_tanh");
    EXPECT_EQ(
        found([](Builder& b, ValueId x) {
            const ValueId cube = b.node("mul", {b.node("mul", {x, x}), x});
            const ValueId sum = b.node("add", {b.node("mul", {cube, number(b, 0.044715)}), x});
            return half_one_plus(b, x, b.node("tanh", {b.node("mul", {number(b, 0.7978845608028654), sum})}));
        }),
        "gelu_tanh");
}

TEST(Patterns, ProductsWithAFunctionOfTheSame) {
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("mul", {b.node("sigmoid", {x}), x});
              }),
              "silu");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("mul", {x, b.node("sigmoid", {b.node("neg", {x})})});
              }),
              "neg sigmoid mul");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("mul", {x, b.node("tanh", {b.node("softplus", {x})})});
              }),
              "mish");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const BoundAttrs six = attributes({graph::real("min_val", 0), graph::real("max_val", 6)});
                  const ValueId w = b.node("clamp", {b.node("add", {x, number(b, 3)})}, six);
                  return b.node("div", {b.node("mul", {x, w}), number(b, 6)});
              }),
              "hard_swish");
    EXPECT_EQ(
        found([](Builder& b, ValueId x) {
            const BoundAttrs how = attributes({graph::real("alpha", 1.0F / 6), graph::real("beta", 0.5)});
            return b.node("mul", {x, b.node("hard_sigmoid", {x}, how)});
        }),
        "hard_swish");
}

TEST(Patterns, OthersMayReadWhatIsInside) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({3, 8}));
    const ValueId gate = b.node("sigmoid", {x});
    output(b.graph, b.node("mul", {x, gate}));
    output(b.graph, gate);
    find_patterns(b.graph, options());
    EXPECT_EQ(opcodes_of(b.graph), "sigmoid silu");
    EXPECT_THAT(absorbed(b.graph.nodes[1]), ::testing::IsEmpty());
}

TEST(Patterns, Relu6AndInverses) {
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("min", {b.node("relu", {x}), number(b, 6)});
              }),
              "clamp");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("reciprocal", {b.node("sqrt", {b.node("exp", {x})})});
              }),
              "exp rsqrt");
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  return b.node("div", {number(b, 1), b.node("exp", {x})});
              }),
              "exp reciprocal");
}

TEST(Patterns, SourcesOfAllThatWentIn) {
    Builder b(1);
    const ValueId x = b.graph.add_input("x", ElemType::f32, graph::dims({3, 8}));
    output(b.graph, half_one_plus(b, x, b.node("erf", {b.node("mul", {x, number(b, 0.7071067811865476)})})));
    find_patterns(b.graph, options());
    ASSERT_EQ(opcodes_of(b.graph), "gelu");
    EXPECT_THAT(absorbed(b.graph.nodes[0]),
                ::testing::UnorderedElementsAre("mul_0", "erf_1", "add_2", "mul_3"));
}

// ---- guards

/// Adds p, and 0 where that is NaN.
ValueId without_nan(Builder& b, ValueId p) {
    graph::NodeOptions told = b.next("is_nan");
    told.elem = ElemType::u8;
    const ValueId nan = b.graph.add_node("is_nan", {p}, {}, told);
    graph::NodeOptions chosen = b.next("where");
    chosen.elem = ElemType::f32;
    return b.graph.add_node("where", {nan, number(b, 0), p}, {}, chosen);
}

/// softmax(x w + mask) [3,4], and 0 where that is NaN.
std::string guarded(const std::vector<float>& mask, const std::vector<int64_t>& shape) {
    return found([&](Builder& b, ValueId x) {
        const ValueId scores = b.node("matmul", {x, random_constant(b.graph, b.random, {8, 4})});
        const ValueId masked = b.node("add", {scores, constant(b.graph, shape, mask)});
        const ValueId p = b.node("softmax", {masked}, attributes({graph::integer("axis", 1)}));
        return without_nan(b, p);
    });
}

TEST(Patterns, GuardsGoWhereEachRowHasAKey) {
    constexpr float no = -std::numeric_limits<float>::infinity(), far = -1e4F, low = -3e38F;
    const std::string without = "matmul add softmax", with = without + " is_nan where";
    EXPECT_EQ(guarded({0, no, no, 0}, {1, 4}), without);
    EXPECT_EQ(guarded({0, no, no, no, 0, 0, no, no, no, no, no, 0}, {3, 4}), without);
    EXPECT_EQ(guarded({far, far, far, far}, {1, 4}), without);
    EXPECT_EQ(guarded({low, 0, low, low}, {4}), without);
    // a row that is hidden; one that would be in narrower floats; what is not finite for all keys of a row
    EXPECT_EQ(guarded({0, no, no, no, no, no, no, no, no, no, no, 0}, {3, 4}), with);
    EXPECT_EQ(guarded({low, low, low, low}, {4}), with);
    EXPECT_EQ(guarded({0, no, 0}, {3, 1}), with);
    EXPECT_EQ(guarded({0, std::numeric_limits<float>::infinity(), 0, 0}, {1, 4}), with);
}

TEST(Patterns, GuardsOfInputsStay) {
    EXPECT_EQ(found([](Builder& b, ValueId x) {
                  const ValueId p = b.node("softmax", {x}, attributes({graph::integer("axis", 1)}));
                  return without_nan(b, p);
              }),
              "softmax is_nan where");
}

}  // namespace
}  // namespace kpu::passes
