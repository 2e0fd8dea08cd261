#include "isa/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/opcodes.hpp"
#include "tests/isa/sample_programs.hpp"

namespace kpu {
namespace {

using namespace builder;
using ::testing::HasSubstr;

TypeVariant variant(std::string name, std::string opcode, std::vector<std::pair<std::string, ElemType>> types,
                    ElemType accum = ElemType::none) {
    TypeVariant v;
    v.family = name.substr(0, name.find('<'));
    v.name = std::move(name);
    v.opcode = std::move(opcode);
    v.accum = accum;
    for (auto& [operand, type] : types) {
        TypeVariant::Binding binding;
        binding.operand = operand;
        binding.type = type;
        binding.absent = type == ElemType::none;
        v.bindings.push_back(binding);
    }
    return v;
}

DeviceLimits device() {
    using E = ElemType;
    using Rule = TypeVariant::QuantRule;
    DeviceLimits limits;
    limits.name = "test2";
    limits.agnostic = false;
    limits.num_engines = 2;
    limits.count(UnitKind::nmu) = 1;
    limits.count(UnitKind::cstl) = 2;
    limits.count(UnitKind::dma) = 2;
    limits.count(UnitKind::seq) = 1;
    limits.count(UnitKind::sdma) = 1;
    limits.variants = {
        variant("gemm.float<f16>.no_bias", "gemm",
                {{"A", E::f16}, {"B", E::f16}, {"Y", E::f16}, {"C", E::none}}, E::f32),
        variant("gemm.float<f16>.with_bias", "gemm",
                {{"A", E::f16}, {"B", E::f16}, {"Y", E::f16}, {"C", E::f16}}, E::f32),
        variant("gemm.int8<i8>.no_bias", "gemm", {{"A", E::i8}, {"B", E::i8}, {"Y", E::i8}, {"C", E::none}},
                E::i32),
        variant("gemm.acc<f16,f16,f32>.no_addend", "gemm.acc",
                {{"A", E::f16}, {"B", E::f16}, {"Y", E::f32}, {"C", E::none}}, E::f32),
        variant("gemm.acc<f16,f16,f32>.with_addend", "gemm.acc",
                {{"A", E::f16}, {"B", E::f16}, {"Y", E::f32}, {"C", E::f32}}, E::f32),
        variant("conv2d.float<f16>.no_bias", "conv2d",
                {{"X", E::f16}, {"W", E::f16}, {"Y", E::f16}, {"B", E::none}}, E::f32),
        variant("conv2d.float<f16>.with_bias", "conv2d",
                {{"X", E::f16}, {"W", E::f16}, {"Y", E::f16}, {"B", E::f16}}, E::f32),
        variant("eltwise<f16>.default", "eltwise",
                {{"X", E::f16}, {"A", E::f16}, {"B", E::f16}, {"Y", E::f16}}),
        variant("eltwise<i8>.default", "eltwise", {{"X", E::i8}, {"A", E::i8}, {"B", E::i8}, {"Y", E::i8}}),
        variant("norm<f16>.default", "norm",
                {{"X", E::f16}, {"scale", E::f16}, {"bias", E::f16}, {"Y", E::f16}}),
        variant("quantize<f16,i8>.default", "quantize", {{"src", E::f16}, {"dst", E::i8}}),
    };
    limits.variants[2].quant = Rule::required;
    limits.variants.back().quant = Rule::required;
    limits.variants.back().quant_on = "dst";
    return limits;
}

std::string findings(const Module& module, bool strict = false, const DeviceLimits& limits = device()) {
    Diagnostics diagnostics;
    VerifyOptions options;
    options.strict = strict;
    verify(std::make_shared<Module>(module), limits, options, diagnostics);
    return diagnostics.to_string();
}

/// Builds programs out of a few L2 regions that do not overlap.
class Bench {
  public:
    Region region(ElemType elem, std::vector<Expr> shape) { return region(tensor(elem, std::move(shape))); }
    Region region(const TensorType& type) {
        const std::string name = "r" + std::to_string(count_);
        return p.region(name, p.buffer("b" + std::to_string(count_++), Level::l2, 1 << 16), 0, type);
    }
    Task compute(const std::string& opcode, const std::vector<Region>& inputs,
                 const std::vector<Region>& outputs) {
        return p.compute(opcode, inputs, outputs, "task");
    }
    std::string findings(bool strict = false) const { return kpu::findings(p.build(), strict); }
    Program p{"bench"};

  private:
    int count_ = 0;
};

constexpr ElemType f16 = ElemType::f16, f32 = ElemType::f32, i8 = ElemType::i8;

TEST(Verify, AcceptsTheSample) {
    // A correct program has no finding, on a device and without one, strict or not.
    EXPECT_EQ(findings(test::relu_rows()), "");
    EXPECT_EQ(findings(test::relu_rows(), true), "");
    EXPECT_EQ(findings(test::relu_rows(), true, DeviceLimits{}), "");
}

TEST(Verify, NamesAreUniqueWhereTheyAreVisible) {
    // Clashes are errors with the wording of the language; loop bodies that have ended free their names.
    const auto two = [](const std::string& a, const std::string& b) {
        Program p("n");
        p.constant(a, 1);
        p.constant(b, 2);
        return findings(p.build());
    };
    EXPECT_EQ(two("A", "B"), "");
    EXPECT_THAT(two("A", "A"), HasSubstr("duplicate constant declaration A"));
    Program p("n");
    p.constant("A", 1);
    p.buffer("A", Level::l2, 8);
    EXPECT_THAT(findings(p.build()), HasSubstr("name conflict - A already declared as const"));
    Program q("n");
    for (int k = 0; k < 2; ++k) q.loop("i", 0, 1, 1, [](const Expr&) {});
    EXPECT_EQ(findings(q.build()), "");
    Program nested("n");
    nested.loop("i", 0, 1, 1, [&](const Expr&) { nested.loop("i", 0, 1, 1, [](const Expr&) {}); });
    EXPECT_THAT(findings(nested.build()), HasSubstr("i already declared as loop variable"));
}

TEST(Verify, ConstantsDivideByNonZero) {
    // The pinned message, with the constant's name.
    Program p("c");
    const Expr zero = p.constant("Z", 0);
    p.constant("BAD", 4 / zero);
    EXPECT_THAT(findings(p.build()), HasSubstr("division by zero in constant expression"));
}

TEST(Verify, Decorators) {
    // Unknown decorators name the nearest; known ones must stand where they mean something.
    Bench good;
    const Region x = good.region(f16, {64});
    good.compute("relu", {x}, {x.materialized()}).decorate("deterministic").resource(UnitKind::cstl, 0);
    EXPECT_EQ(good.findings(), "");
    Bench bad;
    const Region y = bad.region(f16, {64});
    bad.compute("relu", {y}, {y}).decorate("memove");
    EXPECT_THAT(bad.findings(), HasSubstr("unknown decorator @memove. Fix: did you mean @memmove"));
    Bench misplaced;
    const Region z = misplaced.region(f16, {64});
    misplaced.compute("relu", {z}, {z}).memmove();
    EXPECT_THAT(misplaced.findings(), HasSubstr("@memmove does not apply to a compute task"));
    Bench unit;
    const Region w = unit.region(f16, {64});
    unit.compute("relu", {w}, {w}).resource(UnitKind::wdm, 0);
    EXPECT_THAT(unit.findings(), HasSubstr("WDM is not a valid @resource target"));
}

TEST(Verify, UnknownOpcodesAndAttributes) {
    // Unknown names come with the nearest known one; missing attributes and wrong kinds are named.
    Bench a;
    const Region x = a.region(f16, {8, 8});
    a.compute("gem", {x, x}, {a.region(f16, {8, 8})});
    EXPECT_THAT(a.findings(),
                HasSubstr("unknown opcode `gem` of task `task` (statement 2). Fix: did you mean `gemm`"));
    for (const auto& [name, nearest] :
         {std::pair("requantize", "requant"), std::pair("conv2d.accu", "conv2d.acc"),
          std::pair("maxpool2d", "maxpool"), std::pair("notequal", "not_equal")})
        EXPECT_EQ(nearest_opcode(name), nearest);
    Bench b;
    const Region y = b.region(f16, {8, 8});
    b.compute("gemm", {y, y}, {b.region(f16, {8, 8})});
    EXPECT_THAT(b.findings(), HasSubstr("accum_type is required"));
    Bench c;
    const Region z = c.region(f16, {8, 8});
    c.compute("gemm", {z, z}, {c.region(f16, {8, 8})}).attr("accum_typ", f32);
    EXPECT_THAT(c.findings(), HasSubstr("did you mean `accum_type`"));
    Bench d;
    const Region w = d.region(f16, {8, 8});
    d.compute("gemm", {w, w}, {d.region(f16, {8, 8})}).attr("accum_type", 3);
    EXPECT_THAT(d.findings(), HasSubstr("must be an element type"));
    Bench e;
    const Region v = e.region(f16, {8, 8});
    e.compute("store", {v}, {e.region(f16, {8, 8})});
    EXPECT_THAT(e.findings(), HasSubstr("unknown opcode `store`"));
}

TEST(Verify, OperandCountsAndTyping) {
    // Arity and missing types are errors in both modes.
    Bench a;
    const Region x = a.region(f16, {64});
    a.compute("add", {x}, {a.region(f16, {64})});
    EXPECT_THAT(a.findings(), HasSubstr("add takes 2 inputs and 1 output, got 1 and 1"));
    Bench b;
    const Region bytes = b.p.bytes("u", b.p.buffer("U", Level::l2, 64), 0, 64);
    b.compute("relu", {bytes}, {bytes});
    EXPECT_THAT(b.findings(), HasSubstr("needs typed operands; region `u` has no element type"));
}

TEST(Verify, TypesMatchAVariantOfTheDevice) {
    // The nearest variant is named with what differs; accum_type and quant follow the variant.
    const auto gemm = [](ElemType a, ElemType b, ElemType y, ElemType accum, bool strict = false,
                         bool bias = false) {
        Bench bench;
        std::vector<Region> inputs = {bench.region(a, {8, 4}), bench.region(b, {4, 16})};
        if (bias) inputs.push_back(bench.region(y, {16}));
        bench.compute("gemm", inputs, {bench.region(y, {8, 16})}).attr("accum_type", accum);
        return bench.findings(strict);
    };
    EXPECT_EQ(gemm(f16, f16, f16, f32, true), "");
    EXPECT_EQ(gemm(f16, f16, f16, f32, true, true), "");
    EXPECT_THAT(gemm(f16, f16, f32, f32),
                HasSubstr("nearest variant is gemm.float<f16>.no_bias: Y must be f16"));
    EXPECT_THAT(gemm(i8, i8, i8, f32), HasSubstr("accum_type must equal i32"));
    EXPECT_THAT(gemm(i8, i8, i8, ElemType::i32),
                HasSubstr("warning: gemm.int8<i8>.no_bias expects quant on A"));
    EXPECT_THAT(gemm(i8, i8, i8, ElemType::i32, true),
                HasSubstr("error: gemm.int8<i8>.no_bias expects quant on A"));
    EXPECT_THAT(gemm(i8, i8, i8, ElemType::i32, false, true), HasSubstr("C must be absent"));
    Bench none;
    none.compute("cast", {none.region(f16, {4})}, {none.region(i8, {4})});
    EXPECT_THAT(none.findings(), HasSubstr("`test2` has no variant of cast"));
}

TEST(Verify, QuantizeNeedsQuantAndAUnit) {
    // quantize without quant on dst is an error; a device without the unit is one too.
    Bench a;
    a.compute("quantize", {a.region(f16, {4})}, {a.region(i8, {4})});
    EXPECT_THAT(a.findings(), HasSubstr("quantize needs quant on dst"));
    EXPECT_THAT(a.findings(), HasSubstr("has no VPU"));
    Bench b;
    b.compute("quantize", {b.region(f16, {4})}, {b.region(tensor(i8, {4}).quant(per_tensor(0.5)))});
    EXPECT_THAT(b.findings(), ::testing::Not(HasSubstr("needs quant")));
}

TEST(Verify, ElementwiseShapesAndTypes) {
    // The two pinned messages, and all-or-none quantisation.
    const auto add = [](const TensorType& a, const TensorType& b, const TensorType& y) {
        Bench bench;
        bench.compute("add", {bench.region(a), bench.region(b)}, {bench.region(y)});
        return bench.findings();
    };
    const TensorType half = tensor(f16, {4, 8}), byte = tensor(i8, {4, 8});
    EXPECT_EQ(add(half, half, half), "");
    EXPECT_THAT(add(half, tensor(f16, {8, 4}), half), HasSubstr("shapes must be identical"));
    EXPECT_THAT(add(half, byte, half), HasSubstr("element types must match"));
    EXPECT_THAT(add(byte, byte.quant(per_tensor(1)), byte),
                HasSubstr("either all operands carry quant or none"));
}

TEST(Verify, GemmShapes) {
    // Inner dimensions, output dimensions, ranks, leading dimensions and broadcast of the addend.
    const auto gemm = [](std::vector<Expr> a, std::vector<Expr> b, std::vector<Expr> y,
                         std::vector<Expr> c = {}) {
        Bench bench;
        std::vector<Region> inputs = {bench.region(f16, std::move(a)), bench.region(f16, std::move(b))};
        if (!c.empty()) inputs.push_back(bench.region(f16, std::move(c)));
        bench.compute("gemm", inputs, {bench.region(f16, std::move(y))}).attr("accum_type", f32);
        return bench.findings();
    };
    EXPECT_EQ(gemm({8, 4}, {4, 16}, {8, 16}), "");
    EXPECT_EQ(gemm({2, 8, 4}, {2, 4, 16}, {2, 8, 16}), "");
    for (const auto& c : std::vector<std::vector<Expr>>{{16}, {1, 16}, {8, 1}, {8, 16}}) {
        EXPECT_EQ(gemm({8, 4}, {4, 16}, {8, 16}, c), "");
    }
    EXPECT_THAT(gemm({8, 4}, {5, 16}, {8, 16}), HasSubstr("inner dimensions must be equal"));
    EXPECT_THAT(gemm({8, 4}, {4, 16}, {8, 17}), HasSubstr("Y must be [M,N]"));
    EXPECT_THAT(gemm({8}, {8}, {8}), HasSubstr("rank of at least 2"));
    EXPECT_THAT(gemm({2, 8, 4}, {3, 4, 16}, {2, 8, 16}), HasSubstr("leading dimensions"));
    EXPECT_THAT(gemm({8, 4}, {4, 16}, {8, 16}, {8}), HasSubstr("cannot be broadcast"));
}

TEST(Verify, ConvShapes) {
    // Derived output size with asymmetric pads and dilation; smaller declared outputs warn, larger ones fail.
    const auto conv = [](std::vector<Expr> x, std::vector<Expr> w, std::vector<Expr> y,
                         std::vector<int64_t> pads, int64_t dilation = 1, int64_t groups = 1,
                         bool strict = false) {
        Bench bench;
        bench
            .compute("conv2d", {bench.region(f16, std::move(x)), bench.region(f16, std::move(w))},
                     {bench.region(f16, std::move(y))})
            .attr("accum_type", f32)
            .attr("pads", pads)
            .attr("strides", {2, 1})
            .attr("dilations", {dilation, dilation})
            .attr("groups", groups);
        return bench.findings(strict);
    };
    // H: (9 + 1 + 0 - 2 - 1) / 2 + 1 = 4; W: (9 + 0 + 2 - 2 - 1) / 1 + 1 = 9
    EXPECT_EQ(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 4, 9, 6}, {1, 0, 0, 2}, 1, 1, true), "");
    // with dilation 2 the window is 5: H (9 + 1 - 5) / 2 + 1 = 3, W 9 + 2 - 5 + 1 = 7
    EXPECT_EQ(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 3, 7, 6}, {1, 0, 0, 2}, 2), "");
    EXPECT_EQ(conv({1, 9, 9, 4}, {3, 3, 2, 6}, {1, 4, 9, 6}, {1, 0, 0, 2}, 1, 2), "");
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 3, 9, 6}, {1, 0, 0, 2}),
                HasSubstr("warning: conv2d: output"));
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 3, 9, 6}, {1, 0, 0, 2}, 1, 1, true),
                HasSubstr("error: conv2d"));
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 5, 9, 6}, {1, 0, 0, 2}), HasSubstr("must be 4x9"));
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 3, 6}, {1, 4, 9, 6}, {1, 0, 0, 2}),
                HasSubstr("do not fit with groups=1"));
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 4, 9, 5}, {1, 0, 0, 2}),
                HasSubstr("output channels of W (6)"));
    EXPECT_THAT(conv({1, 9, 9, 4}, {3, 3, 4, 6}, {1, 4, 9, 6}, {1, 0}), HasSubstr("pads needs 4 integers"));
    EXPECT_THAT(conv({1, 1, 1, 4}, {3, 3, 4, 6}, {1, 1, 1, 6}, {0, 0, 0, 0}),
                HasSubstr("window does not fit"));
}

TEST(Verify, PoolAndNormShapes) {
    // Output size and padding of a pool; axis, scale and epsilon of a norm.
    const auto pool = [](std::vector<Expr> y, std::vector<int64_t> pads) {
        Bench bench;
        bench.compute("maxpool", {bench.region(f16, {1, 8, 8, 4})}, {bench.region(f16, std::move(y))})
            .attr("kernel_shape", {2, 3})
            .attr("pads", pads)
            .attr("strides", {2, 2});
        return bench.findings();
    };
    EXPECT_EQ(pool({1, 4, 4, 4}, {0, 1, 0, 1}), "");
    EXPECT_THAT(pool({1, 4, 3, 4}, {0, 1, 0, 1}), HasSubstr("must be 4x4"));
    EXPECT_THAT(pool({1, 4, 4, 5}, {0, 1, 0, 1}), HasSubstr("equal batch and channels"));
    EXPECT_THAT(pool({1, 5, 4, 4}, {2, 1, 0, 1}), HasSubstr("smaller than kernel_shape"));
    const auto norm = [](int64_t axis, int64_t scale, double epsilon) {
        Bench bench;
        const Region x = bench.region(f16, {8, 16});
        bench.compute("rmsnorm", {x, bench.region(f16, {scale})}, {x})
            .attr("axis", axis)
            .attr("epsilon", epsilon);
        return bench.findings();
    };
    EXPECT_EQ(norm(-1, 16, 1e-5), "");
    EXPECT_EQ(norm(0, 8, 1e-5), "");
    EXPECT_THAT(norm(2, 16, 1e-5), HasSubstr("axis is outside the 2 dimensions"));
    EXPECT_THAT(norm(-3, 16, 1e-5), HasSubstr("axis is outside"));
    EXPECT_THAT(norm(-1, 8, 1e-5), HasSubstr("must be [16]"));
    EXPECT_THAT(norm(-1, 16, -1.0), HasSubstr("epsilon is negative"));
}

TEST(Verify, TransfersCopyEqualThings) {
    // Typed sides agree in type and shape; an untyped side needs equal extents; strided copies are fine.
    const auto move = [](const TensorType& dst, const TensorType& src) {
        Bench bench;
        bench.p.transfer("t", bench.region(dst), bench.region(src));
        return bench.findings();
    };
    EXPECT_EQ(move(tensor(i8, {4, 8}), tensor(i8, {4, 8}).strides({32, 1})), "");
    EXPECT_EQ(move(tensor(i8, {1, 4, 4, 2}), tensor(i8, {1, 2, 4, 4}).layout("NCHW")), "");
    EXPECT_THAT(move(tensor(i8, {4, 8}), tensor(ElemType::u8, {4, 8})),
                HasSubstr("same element type and shape"));
    EXPECT_THAT(move(tensor(i8, {4, 8}), tensor(i8, {8, 4})), HasSubstr("same element type and shape"));
    Bench bench;
    bench.p.transfer("t", bench.region(i8, {4, 8}),
                     bench.p.bytes("u", bench.p.buffer("U", Level::l2, 64), 0, 33));
    EXPECT_THAT(bench.findings(), HasSubstr("untyped copy needs equal extents, src has 33 bytes and dst 32"));
}

TEST(Verify, OverlapOfSourceAndDestination) {
    // Shared bytes need @memmove; interleaved windows share extents but no elements.
    const auto move = [](int64_t to, const TensorType& type, bool memmove) {
        Program p("o");
        const Buffer b = p.buffer("B", Level::l2, 256);
        const Region src = p.region("s", b, 0, type);
        Task t = p.transfer("t", p.region("d", b, to, type), src);
        if (memmove) t.memmove();
        return findings(p.build());
    };
    EXPECT_EQ(move(64, tensor(i8, {64}), false), "");
    EXPECT_THAT(move(63, tensor(i8, {64}), false),
                HasSubstr("region `d` overlaps region `s`. Fix: use separate regions, or "
                          "@memmove"));
    EXPECT_EQ(move(63, tensor(i8, {64}), true), "");
    EXPECT_EQ(move(8, tensor(i8, {4, 8}).strides({16, 1}), false), "");
    EXPECT_THAT(move(7, tensor(i8, {4, 8}).strides({16, 1}), false), HasSubstr("overlaps"));
    Program loop("o");
    const Buffer b = loop.buffer("B", Level::l2, 256);
    loop.loop("i", 0, 3, 1, [&](const Expr& i) {
        loop.transfer("t", loop.region("d", b, i * 16, tensor(i8, {16})),
                      loop.region("s", b, 32, tensor(i8, {16})));
    });
    EXPECT_THAT(findings(loop.build()), HasSubstr("region `d` overlaps region `s` (i=2)"));
}

TEST(Verify, InPlaceOperands) {
    // Identical regions where the opcode allows it; the addend of gemm.acc but not its factors; nothing
    // half-way.
    Bench relu;
    const Region x = relu.region(f16, {64});
    relu.compute("relu", {x}, {x});
    EXPECT_EQ(relu.findings(), "");
    Bench acc;
    const Region y = acc.region(f32, {8, 8});
    acc.compute("gemm.acc", {acc.region(f16, {8, 8}), acc.region(f16, {8, 8}), y}, {y});
    EXPECT_EQ(acc.findings(true), "");
    Bench gemm;
    const Region a = gemm.region(f16, {8, 8});
    gemm.compute("gemm", {a, gemm.region(f16, {8, 8})}, {a}).attr("accum_type", f32);
    EXPECT_THAT(gemm.findings(), HasSubstr("region `r0` overlaps region `r0`"));
    Program shifted("s");
    const Buffer b = shifted.buffer("B", Level::l2, 256);
    shifted.compute("relu", {shifted.region("s", b, 0, tensor(f16, {64}))},
                    {shifted.region("d", b, 2, tensor(f16, {64}))});
    EXPECT_THAT(findings(shifted.build()), HasSubstr("region `d` overlaps region `s`"));
}

TEST(Verify, AccessIntents) {
    // Writing @readonly, reading @writeonly, and writing through strides that fold onto themselves.
    Bench a;
    Region x = a.region(f16, {64}), y = a.region(f16, {64});
    x.decorate("readonly");
    y.decorate("writeonly");
    a.compute("relu", {x}, {y});
    EXPECT_EQ(a.findings(), "");
    Bench b;
    Region z = b.region(f16, {64}), w = b.region(f16, {64});
    z.decorate("writeonly");
    w.decorate("readonly");
    b.compute("relu", {z}, {w});
    EXPECT_THAT(b.findings(), HasSubstr("reads region `r0`, which is @writeonly"));
    EXPECT_THAT(b.findings(), HasSubstr("writes region `r1`, which is @readonly"));
    Bench c;
    c.p.transfer("t", c.region(tensor(f16, {4, 4}).strides({2, 1})), c.region(f16, {4, 4}));
    EXPECT_THAT(c.findings(), HasSubstr("strides make elements overlap"));
}

TEST(Verify, BoundsOverLoops) {
    // Ranges decide most offsets; where they do not, iterations are tried, and the first bad one is named.
    const auto rows = [](int64_t last, const std::function<Expr(const Expr&)>& offset) {
        Program p("b");
        const Buffer b = p.buffer("B", Level::ddr, 512);
        p.loop("i", 0, last, 1, [&](const Expr& i) { p.bytes("r", b, offset(i), 64); });
        return findings(p.build());
    };
    EXPECT_EQ(rows(7, [](const Expr& i) { return i * 64; }), "");
    EXPECT_THAT(rows(8, [](const Expr& i) { return i * 64; }),
                HasSubstr("region `r` ends at byte 576 but buffer `B` has 512. Fix: grow the buffer or "
                          "shrink the region."));
    EXPECT_THAT(rows(8, [](const Expr& i) { return i * 64; }), HasSubstr("first in iteration (i=8)"));
    // i * i - i * i is 0, which intervals cannot see
    EXPECT_EQ(rows(100, [](const Expr& i) { return i * i - i * i; }), "");
    EXPECT_EQ(rows(int64_t{1} << 40, [](const Expr& i) { return i % 8 * 64; }), "");
    EXPECT_THAT(rows(int64_t{1} << 40, [](const Expr& i) { return i * 64; }),
                HasSubstr("first in iteration (i=8)"));
    Program huge("b");
    const Buffer b = huge.buffer("B", Level::ddr, 512);
    huge.loop("i", 0, 3, 1, [&](const Expr& i) { huge.bytes("r", b, i, INT64_MAX); });
    EXPECT_THAT(findings(huge.build()), HasSubstr("has 9223372036854775807 bytes but buffer `B` has 512"));
    EXPECT_THAT(rows(3, [](const Expr& i) { return 64 / i; }), HasSubstr("division by zero"));
    EXPECT_THAT(rows(-1, [](const Expr& i) { return i * 64; }),
                HasSubstr("warning: loop `i` has the empty range [0..-1]"));
}

TEST(Verify, ShapesDoNotDependOnLoops) {
    // Extents and shapes are the same in every iteration.
    Program p("s");
    const Buffer b = p.buffer("B", Level::ddr, 512);
    p.loop("i", 1, 2, 1, [&](const Expr& i) { p.bytes("r", b, 0, i * 64); });
    EXPECT_THAT(findings(p.build()), HasSubstr("extent of region `r` must not depend on a loop variable"));
}

TEST(Verify, Placement) {
    // A task on two engines is an error; bare L1 on two engines warns.
    Program p("p");
    const Region a = p.region("a", p.l1_buffer("A", 0, 64), 0, tensor(i8, {64}));
    const Region b = p.region("b", p.l1_buffer("B", 1, 64), 0, tensor(i8, {64}));
    p.transfer("t", a, b);
    EXPECT_THAT(findings(p.build()), HasSubstr("touches L1[1] and L1[0]"));
    Program bare("p");
    bare.buffer("A", Level::l1, 64);
    EXPECT_THAT(findings(bare.build()), HasSubstr("warning: buffer `A` is at L1 without an index"));
    EXPECT_THAT(findings(bare.build(), true), HasSubstr("error: buffer `A` is at L1 without an index"));
}

TEST(Verify, BrokenStructureIsAFinding) {
    // verify never throws on a bad program: a malformed one is a diagnostic.
    Module module = test::relu_rows();
    module.program.mutable_region(0)->set_buffer(77);
    EXPECT_THAT(findings(module), HasSubstr("malformed program: region[0].buffer"));
}

TEST(Verify, PlacesComeFromTheSource) {
    // Findings carry file, line and column of what they are about.
    Module module = test::relu_rows();
    module.source.files = {"gemm.nem"};
    module.source.regions.assign(3, {0, 21, 7});
    module.program.mutable_param(0)->set_max(9);
    module.program.mutable_param(0)->set_default_value(9);
    EXPECT_THAT(findings(module),
                HasSubstr("gemm.nem:21:7: error: region `dst` ends at byte 576 but buffer `Y` has 512"));
}

// The result is the program bound for the device, with its module; nothing where there is an error.
TEST(Verify, GivesTheBoundProgram) {
    const auto module = std::make_shared<const Module>(test::relu_rows());
    Diagnostics none;
    const std::optional<BoundProgram> program = verify(module, {}, {}, none);
    ASSERT_TRUE(program) << none.to_string();
    const BoundProgram bound = bind(module, {}, {});
    EXPECT_EQ(program->module, module);
    EXPECT_EQ(program->tasks.size(), bound.tasks.size());
    EXPECT_EQ(program->inputs.size(), bound.inputs.size());
    EXPECT_EQ(program->ddr_bytes, bound.ddr_bytes);
    DeviceLimits small;
    small.agnostic = false;
    Diagnostics errors;
    EXPECT_FALSE(verify(module, small, {}, errors));
    EXPECT_TRUE(errors.has_errors());
}

}  // namespace
}  // namespace kpu
