#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/bound_program.hpp"
#include "tests/isa/sample_programs.hpp"

namespace kpu {
namespace {

using namespace builder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DeviceLimits two_engines() {
    DeviceLimits limits;
    limits.name = "test2";
    limits.agnostic = false;
    limits.num_engines = 2;
    limits.l1_bytes = 4096;
    limits.l2_bytes = 8192;
    limits.ddr_bytes = 65536;
    limits.count(UnitKind::nmu) = 1;
    limits.count(UnitKind::cstl) = 2;
    limits.count(UnitKind::dma) = 2;
    limits.count(UnitKind::vpu) = 1;
    limits.count(UnitKind::seq) = 1;
    limits.count(UnitKind::sdma) = 1;
    return limits;
}

BoundProgram bound(const Module& module, const ParamBindings& params = {}, const DeviceLimits& limits = {}) {
    return bind(std::make_shared<const Module>(module), params, limits);
}

std::string refusal(const Module& module, const ParamBindings& params = {}, const DeviceLimits& limits = {}) {
    try {
        bound(module, params, limits);
    } catch (const UserError& e) {
        return e.what();
    }
    return "accepted";
}

std::vector<int64_t> list(const Dims& dims) { return {dims.begin(), dims.end()}; }

LoopValues at(std::initializer_list<int64_t> values) {
    LoopValues loops;
    for (const int64_t value : values) loops.push(value);
    return loops;
}

TEST(Bind, ResolvesTheSample) {
    // Addresses, units, operations and host tensors of a small program equal those computed by hand.
    const BoundProgram p = bound(test::relu_rows());
    ASSERT_EQ(p.buffers.size(), 4u);
    EXPECT_EQ(p.buffers[1].base, 512u);   // Y after X
    EXPECT_EQ(p.buffers[2].base, 1024u);  // BIAS
    EXPECT_EQ(p.ddr_bytes, 1028u);
    EXPECT_THAT(p.l1_bytes, ElementsAre(128u));
    EXPECT_EQ(p.regions[0].address.eval(at({3})), 64);  // slot of an odd iteration
    EXPECT_EQ(p.regions[2].address.eval(at({3})), 512 + 192);
    ASSERT_EQ(p.tasks.size(), 3u);
    EXPECT_EQ(p.tasks[0].unit, UnitKind::sdma);
    EXPECT_EQ(p.tasks[0].partner, UnitKind::dma);
    EXPECT_EQ(p.tasks[0].engine, 0);
    EXPECT_EQ(p.tasks[1].unit, UnitKind::cstl);
    EXPECT_EQ(p.tasks[2].unit, UnitKind::cstl);
    EXPECT_EQ(p.tasks[1].elements, 64u);
    ASSERT_EQ(p.loops.size(), 1u);
    EXPECT_EQ(p.loops[0].max_in_flight, 2u);
    EXPECT_EQ(p.loops[0].last.constant, 7);
    ASSERT_EQ(p.ops.size(), 3u);
    EXPECT_EQ(p.ops[0].id, "load");
    EXPECT_EQ(p.ops[2].id, "store#6");
    ASSERT_EQ(p.inputs.size(), 1u);  // BIAS is filled by data
    EXPECT_EQ(p.inputs[0].name, "X");
    EXPECT_EQ(p.inputs[0].elem, ElemType::i8);
    EXPECT_THAT(p.inputs[0].shape, ElementsAre(512));
    ASSERT_EQ(p.outputs.size(), 1u);
    EXPECT_EQ(p.outputs[0].name, "Y");
    ASSERT_EQ(p.data.size(), 1u);
    EXPECT_EQ(p.data[0].buffer, 2u);
}

TEST(Bind, ParametersReachLoopBounds) {
    // --param changes the trip count; unknown names and values out of range are refused with the nearest
    // name.
    EXPECT_EQ(bound(test::relu_rows(), {{"ROWS", 3}}).loops[0].last.constant, 2);
    EXPECT_THAT(refusal(test::relu_rows(), {{"ROW", 3}}), HasSubstr("did you mean `ROWS`"));
    EXPECT_THAT(refusal(test::relu_rows(), {{"ROWS", 9}}), HasSubstr("outside [1..8]"));
}

TEST(Bind, ExpressionArithmetic) {
    // Truncating division, mod, and 64-bit overflow as the language defines them, with loop variables at run
    // time.
    Program p("e");
    const Buffer b = p.buffer("B", Level::ddr, 4096);
    p.loop("i", 0, 1, 1, [&](const Expr& i) {
        p.loop("j", 0, 1, 1, [&](const Expr& j) {
            p.bytes("a", b, (i * 10 + j) / 4 + j % 3, 1);
            p.bytes("b", b, (0 - i) / 2, 1);
            p.bytes("c", b, 100 / i, 1);
            p.bytes("d", b, (i + INT64_MAX) * 2, 1);
            p.bytes("e", b, (0 - i) % 3, 1);
        });
    });
    const BoundProgram q = bound(p.build());
    EXPECT_EQ(q.regions[0].address.eval(at({7, 5})), 75 / 4 + 2);
    EXPECT_EQ(q.regions[1].address.eval(at({7, 0})), -3);
    EXPECT_EQ(q.regions[2].address.eval(at({3, 0})), 33);
    EXPECT_THROW(q.regions[2].address.eval(at({0, 0})), UserError);
    EXPECT_THROW(q.regions[3].address.eval(at({1, 0})), UserError);
    EXPECT_THROW(q.regions[4].address.eval(at({1, 0})), UserError);
}

TEST(Bind, BuffersAreLinearWithAlignment) {
    // Bases are rounded up to the alignment in declaration order, per level and per engine.
    Program p("b");
    p.buffer("A", Level::l2, 3);
    p.buffer("B", Level::l2, 5, 64);
    p.l1_buffer("C", 1, 7);
    p.l1_buffer("D", 0, 7);
    p.l1_buffer("E", 1, 8, 16);
    const BoundProgram q = bound(p.build(), {}, two_engines());
    EXPECT_EQ(q.buffers[1].base, 64u);
    EXPECT_EQ(q.l2_bytes, 69u);
    EXPECT_EQ(q.buffers[3].base, 0u);
    EXPECT_EQ(q.buffers[4].base, 16u);
    EXPECT_THAT(q.l1_bytes, ElementsAre(7u, 24u));
}

TEST(Bind, CapacityAndAbsurdSizes) {
    // Over capacity, zero, negative, 2^60 bytes, a bad alignment and a missing engine are clear errors.
    const auto one = [](const Expr& size, int64_t align, const Expr& engine) {
        Program p("b");
        p.l1_buffer("B", engine, size, align);
        return p.build();
    };
    EXPECT_EQ(refusal(one(4096, 1, 1), {}, two_engines()), "accepted");
    EXPECT_THAT(refusal(one(4097, 1, 1), {}, two_engines()), HasSubstr("over its capacity of 4096 bytes"));
    EXPECT_THAT(refusal(one(Expr(1) * (int64_t{1} << 60), 1, 0)), HasSubstr("over its capacity"));
    EXPECT_THAT(refusal(one(0, 1, 0)), HasSubstr("has size 0"));
    EXPECT_THAT(refusal(one(-5, 1, 0)), HasSubstr("has size -5"));
    EXPECT_THAT(refusal(one(8, 3, 0)), HasSubstr("power of two"));
    EXPECT_THAT(refusal(one(8, 1, 2), {}, two_engines()), HasSubstr("L1[2]"));
    EXPECT_THAT(refusal(one(8, 1, -1)), HasSubstr("L1[-1]"));
}

TEST(Bind, LayoutsAndStrides) {
    // NCHW is NHWC with other strides; explicit strides count elements; a packed region is dense.
    Program p("r");
    const Buffer b = p.buffer("B", Level::ddr, 4096);
    p.region("nchw", b, 0, tensor(ElemType::i8, {2, 3, 4, 5}).layout("NCHW"));
    p.region("nhwc", b, 0, tensor(ElemType::f16, {2, 4, 5, 3}).layout("NHWC"));
    p.region("tile", b, 0, tensor(ElemType::f16, {4, 8}).strides({32, 1}));
    p.region("i4", b, 0, tensor(ElemType::i4, {3, 3}));
    const BoundProgram q = bound(p.build());
    EXPECT_THAT(list(q.regions[0].shape), ElementsAre(2, 4, 5, 3));
    EXPECT_THAT(list(q.regions[0].strides), ElementsAre(60, 5, 1, 20));
    EXPECT_FALSE(q.regions[0].dense);
    EXPECT_THAT(list(q.regions[1].strides), ElementsAre(60, 15, 3, 1));
    EXPECT_TRUE(q.regions[1].dense);
    EXPECT_EQ(q.regions[2].extent, 2u * (3 * 32 + 8));
    EXPECT_FALSE(q.regions[2].dense);
    EXPECT_EQ(q.regions[3].extent, 5u);  // 9 nibbles
}

TEST(Bind, RegionsStayInsideTheirBuffers) {
    // A constant offset is checked at once, with the numbers in the message; so is an extent too small for
    // its shape.
    const auto one = [](const Expr& offset, const Expr& extent) {
        Program p("r");
        p.region("Y", p.buffer("Y_L2", Level::l2, 4096), offset, extent, tensor(ElemType::i8, {64}));
        return p.build();
    };
    EXPECT_EQ(refusal(one(4032, 64)), "accepted");
    EXPECT_THAT(refusal(one(4160, 64)),
                HasSubstr("region `Y` ends at byte 4224 but buffer `Y_L2` has 4096. Fix: grow the buffer"));
    EXPECT_THAT(refusal(one(-64, 64)), HasSubstr("starts 64 bytes before buffer `Y_L2`"));
    EXPECT_THAT(refusal(one(0, 63)), HasSubstr("extent 63 but its elements reach byte 64"));
    EXPECT_THAT(refusal(one(0, 0)), HasSubstr("has extent 0"));
}

TEST(Bind, RunTimeBoundsCheck) {
    // The check that the control engine makes per iteration accepts the last fitting address and refuses the
    // next.
    const BoundProgram p = bound(test::relu_rows());
    EXPECT_NO_THROW(check_region_bounds(p, 2, 512 + 448));
    EXPECT_THROW(check_region_bounds(p, 2, 512 + 449), UserError);
    EXPECT_THROW(check_region_bounds(p, 2, 511), UserError);
    EXPECT_THROW(check_region_bounds(p, 2, INT64_MIN), UserError);
    EXPECT_THROW(check_region_bounds(p, 2, INT64_MAX), UserError);
}

TEST(Bind, Quantisation) {
    // Array lengths follow the axis (negative counts from the end, NCHW maps to logical order); values are
    // checked.
    const auto one = [](const proto::Quant& quant, const char* layout = "NHWC") {
        Program p("q");
        p.region("R", p.buffer("B", Level::ddr, 4096), 0,
                 tensor(ElemType::i8, {1, 2, 3, 4}).layout(layout).quant(quant));
        return p.build();
    };
    EXPECT_EQ(bound(one(per_channel(-1, {1, 2, 3, 4}))).regions[0].quant.axis, 3);
    EXPECT_EQ(bound(one(per_channel(1, {1, 2}), "NCHW")).regions[0].quant.axis, 3);
    EXPECT_EQ(refusal(one(per_group(3, 3, {1, 2}))), "accepted");
    EXPECT_THAT(refusal(one(per_channel(3, {1, 2}))), HasSubstr("2 quantization scales, but 4"));
    EXPECT_THAT(refusal(one(per_group(3, 0, {1}))), HasSubstr("group_size must be positive"));
    EXPECT_THAT(refusal(one(per_tensor(0))), HasSubstr("scale 0"));
    EXPECT_THAT(refusal(one(per_tensor(1, 128))), HasSubstr("zero_point 128"));
    EXPECT_THAT(refusal(one(per_channel(4, {1}))), HasSubstr("axis 4"));
}

TEST(Bind, UnitsOfTransfers) {
    // The pair of levels decides which unit moves the data.
    const auto unit = [](Level to, Level from, bool store = false, bool store_on_dma = false) {
        Program p("t");
        const Region dst = p.bytes("d", p.buffer("D", to, 64), 0, 64);
        const Region src = p.bytes("s", p.buffer("S", from, 64), 0, 64);
        if (store) {
            p.store("t", dst, src);
        } else {
            p.transfer("t", dst, src);
        }
        DeviceLimits limits = two_engines();
        limits.store_on_dma = store_on_dma;
        return bound(p.build(), {}, limits).tasks[0];
    };
    EXPECT_EQ(unit(Level::l1, Level::l2).unit, UnitKind::dma);
    EXPECT_EQ(unit(Level::l1, Level::l2).engine, 0);
    EXPECT_EQ(unit(Level::ddr, Level::l2).unit, UnitKind::sdma);
    EXPECT_EQ(unit(Level::ddr, Level::l2).partner, std::nullopt);
    EXPECT_EQ(unit(Level::ddr, Level::l2).engine, -1);
    EXPECT_EQ(unit(Level::ddr, Level::l1).partner, UnitKind::dma);
    EXPECT_EQ(unit(Level::l2, Level::l2).unit, UnitKind::dma);
    EXPECT_EQ(unit(Level::ddr, Level::ddr).unit, UnitKind::dma);
    EXPECT_EQ(unit(Level::l2, Level::l1, true).unit, UnitKind::cstl);
    EXPECT_EQ(unit(Level::l2, Level::l1, true, true).unit, UnitKind::dma);
}

TEST(Bind, PlacementDecorators) {
    // @resource pins an instance that exists, any of the type beyond, another capable type, and is ignored
    // for a type that cannot execute the task; @seq_engine places a floating task.
    const auto task = [](void (*decorate)(Task&), Level level = Level::l2) {
        Program p("t");
        const Region x = p.region("x", p.buffer("X", level, 64), 0, tensor(ElemType::i8, {64}));
        Task t = p.compute("relu", {x}, {x}, "t");
        decorate(t);
        return bound(p.build(), {}, two_engines()).tasks[0];
    };
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::cstl, 1); }).instance, 1);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::cstl, 2); }).instance, -1);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::vpu, 0); }).instance, 0);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::vpu, 0); }).unit, UnitKind::vpu);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::vpu, 9); }).instance, -1);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::vpu, 9); }).unit, UnitKind::vpu);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::nmu, 0); }).instance, -1);
    EXPECT_EQ(task([](Task& t) { t.resource(UnitKind::nmu, 0); }).unit, UnitKind::cstl);
    EXPECT_THROW(task([](Task& t) { t.resource(UnitKind::seq, 0); }), UserError);
    EXPECT_THROW(task([](Task& t) { t.resource(UnitKind::cstl, -1); }), UserError);
    EXPECT_EQ(task([](Task& t) { t.decorate("seq_engine", 1); }).token_engine, 1);
    EXPECT_EQ(task([](Task& t) { t.decorate("seq_engine", 1); }).engine, 1);
    EXPECT_EQ(task([](Task&) {}).engine, -1);
    EXPECT_THROW(task([](Task& t) { t.decorate("seq_engine", 1); }, Level::l1), UserError);
    EXPECT_THROW(task([](Task& t) { t.decorate("seq_engine", 2); }), UserError);
}

TEST(Bind, WorkOfGemmAndConv) {
    // Multiply-accumulates: M*N*K, and outputs times kernel volume per group.
    Program p("w");
    const Buffer b = p.buffer("B", Level::l2, 1 << 16);
    const auto region = [&](const char* name, std::vector<Expr> shape) {
        return p.region(name, b, 0, tensor(ElemType::f16, std::move(shape)));
    };
    p.compute("matmul", {region("a", {4, 8}), region("b", {8, 16})}, {region("y", {4, 16})})
        .attr("accum_type", ElemType::f32);
    p.compute("conv2d", {region("x", {1, 8, 8, 4}), region("w", {3, 3, 2, 6})}, {region("z", {1, 6, 6, 6})})
        .attr("accum_type", ElemType::f32)
        .attr("pads", {0, 0, 0, 0})
        .attr("strides", {1, 1})
        .attr("dilations", {1, 1})
        .attr("groups", 2);
    const BoundProgram q = bound(p.build());
    EXPECT_EQ(q.tasks[0].macs, 4u * 16 * 8);
    EXPECT_EQ(q.tasks[1].macs, 6u * 6 * 6 * 3 * 3 * 2);
    EXPECT_EQ(q.tasks[1].attrs.integer("groups", 0), 2);
    EXPECT_EQ(q.tasks[0].attrs.find("accum_type")->type, ElemType::f32);
}

TEST(Bind, HostTensors) {
    // Declared tensors describe their buffer; other DDR and L2 buffers are inputs and outputs by use.
    Program p("h");
    const Buffer a = p.buffer("A", Level::ddr, 64), t = p.buffer("T", Level::l2, 64);
    const Buffer y = p.buffer("Y", Level::ddr, 128), z = p.buffer("Z", Level::l2, 64);
    p.tensor("image", proto::Tensor::INPUT, ElemType::f16, {4, 8}, "A");
    p.tensor("logits", proto::Tensor::OUTPUT, ElemType::f16, {32}, "Y", 64);
    p.transfer("", p.bytes("t", t, 0, 64), p.bytes("a", a, 0, 64));
    p.transfer("", p.bytes("y", y, 64, 64), p.bytes("t2", t, 0, 64));
    p.transfer("", p.region("z", z, 0, tensor(ElemType::f16, {32})),
               p.region("t3", t, 0, tensor(ElemType::f16, {32})));
    const BoundProgram q = bound(p.build());
    ASSERT_EQ(q.inputs.size(), 1u);
    EXPECT_EQ(q.inputs[0].name, "image");
    EXPECT_THAT(q.inputs[0].shape, ElementsAre(4, 8));
    ASSERT_EQ(q.outputs.size(), 2u);
    EXPECT_EQ(q.outputs[0].name, "logits");
    EXPECT_EQ(q.outputs[0].offset, 64u);
    EXPECT_EQ(q.outputs[1].name, "Z");  // L2, written and never read
    EXPECT_EQ(q.outputs[1].elem, ElemType::f16);
}

TEST(Bind, AccumulatingOutputNeedsItsInitialValue) {
    // A buffer that is read before anything wrote it is an input by name, even when an output tensor
    // describes it.
    Program p("acc");
    const Buffer y = p.buffer("Y", Level::ddr, 64), t = p.buffer("T", Level::l2, 64);
    p.tensor("sum", proto::Tensor::OUTPUT, ElemType::i8, {64}, "Y");
    const Region sum = p.region("sum", y, 0, tensor(ElemType::i8, {64}));
    const Region tile = p.region("tile", t, 0, tensor(ElemType::i8, {64}));
    p.transfer("", tile, sum);
    p.transfer("", sum, tile);
    const BoundProgram q = bound(p.build());
    ASSERT_EQ(q.inputs.size(), 1u);
    EXPECT_EQ(q.inputs[0].name, "Y");
    ASSERT_EQ(q.outputs.size(), 1u);
    EXPECT_EQ(q.outputs[0].name, "sum");
}

TEST(Bind, DataMustFit) {
    // Data that does not fit its buffer is refused, as is a tensor beyond its home.
    Program p("d");
    p.buffer("B", Level::ddr, 4);
    p.data("w", "B", "12345");
    EXPECT_THAT(refusal(p.build()), HasSubstr("ends at byte 5 but buffer `B` has 4"));
    Program t("t");
    t.buffer("B", Level::ddr, 4);
    t.tensor("x", proto::Tensor::INPUT, ElemType::i32, {2}, "B");
    EXPECT_THAT(refusal(t.build()), HasSubstr("needs 8 bytes"));
}

}  // namespace
}  // namespace kpu
