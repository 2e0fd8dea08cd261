// Shape, type and attribute rules of single opcodes: what passes, and the message of what does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/builder.hpp"
#include "isa/opcodes.hpp"
#include "isa/verify.hpp"

namespace kpu::opcode_rules_test {
namespace {

using namespace builder;
using ::testing::HasSubstr;
using Attrs = std::function<void(Task&)>;

constexpr ElemType f16 = ElemType::f16, i8 = ElemType::i8, i32 = ElemType::i32;

TensorType typed(ElemType elem, const std::vector<int64_t>& shape) {
    std::vector<Expr> sizes(shape.begin(), shape.end());
    return tensor(elem, sizes);
}

/// Findings about one task on a device that takes every type.
std::string check(const std::string& opcode, const std::vector<TensorType>& inputs,
                  const std::vector<TensorType>& outputs, const Attrs& attrs = {}) {
    Program p("one");
    int count = 0;
    const auto regions = [&](const std::vector<TensorType>& types) {
        std::vector<Region> list;
        for (const TensorType& type : types) {
            const std::string name = "r" + std::to_string(count++);
            list.push_back(p.region(name, p.buffer("b_" + name, Level::l2, 1 << 16), 0, type));
        }
        return list;
    };
    Task task = p.compute(opcode, regions(inputs), regions(outputs), "task");
    if (attrs) attrs(task);
    Diagnostics diagnostics;
    verify(std::make_shared<Module>(p.build()), DeviceLimits{}, {}, diagnostics);
    return diagnostics.to_string();
}

struct Rule {
    const char* opcode;
    std::vector<TensorType> inputs, outputs;
    Attrs attrs;
    const char* message;  ///< empty: passes
};

void expect(const std::vector<Rule>& rules) {
    for (const Rule& rule : rules) {
        const std::string found = check(rule.opcode, rule.inputs, rule.outputs, rule.attrs);
        if (*rule.message == 0) {
            EXPECT_EQ(found, "") << rule.opcode;
        } else {
            EXPECT_THAT(found, HasSubstr(rule.message)) << rule.opcode;
            EXPECT_THAT(found, HasSubstr("Fix: ")) << rule.opcode;
        }
    }
}

const TensorType x = typed(f16, {2, 3, 4});

// Elementwise: equal shapes and types; functions of plain integers are refused; bounds of clamp in order.
TEST(OpcodeRules, Elementwise) {
    const TensorType ints = typed(i8, {4}), quantized = typed(i8, {4}).quant(per_tensor(0.5, 1));
    const auto bounds = [](double low, double high) {
        return [=](Task& t) { t.attr("min_val", low).attr("max_val", high); };
    };
    expect({{"exp", {x}, {x}, {}, ""},
            {"sub", {x, x}, {x}, {}, ""},
            {"mul", {x, typed(f16, {2, 3, 1})}, {x}, {}, "shapes must be identical"},
            {"max", {x, typed(ElemType::f32, {2, 3, 4})}, {x}, {}, "element types must match"},
            {"exp", {ints}, {ints}, {}, "the formula has no integer meaning"},
            {"exp", {quantized}, {quantized}, {}, ""},
            {"neg", {quantized}, {ints}, {}, "either all operands carry quant or none does"},
            {"clamp", {x}, {x}, bounds(-1, 2), ""},
            {"clamp", {x}, {x}, bounds(2, -1), "min_val 2 is above max_val -1"},
            {"clamp", {x}, {x}, {}, "min_val is required"},
            {"leaky_relu", {x}, {x}, {}, "alpha is required"}});
}

// Norms and softmax: the axis exists, vectors have its size.
TEST(OpcodeRules, Norms) {
    const auto axis = [](int64_t value, bool epsilon) {
        return [=](Task& t) {
            t.attr("axis", value);
            if (epsilon) t.attr("epsilon", 1e-3);
        };
    };
    const TensorType four = typed(f16, {4}), three = typed(f16, {3});
    expect({{"layernorm", {x, four, four}, {x}, axis(-1, true), ""},
            {"layernorm", {x, four, three}, {x}, axis(2, true), "bias f16[3] must be [4]"},
            {"layernorm", {x}, {x}, axis(-4, true), "axis is outside the 3 dimensions"},
            {"softmax", {x}, {x}, axis(1, false), ""},
            {"softmax", {x}, {x}, axis(3, false), "axis is outside the 3 dimensions"},
            {"log_softmax", {x}, {typed(f16, {2, 4, 3})}, axis(1, false), "shapes must be identical"}});
}

// Every attribute of every view.
TEST(OpcodeRules, Views) {
    const auto ints = [](const char* name, std::vector<int64_t> values) {
        return [=](Task& t) { t.attr(name, values); };
    };
    const auto slice = [](std::vector<int64_t> starts, std::vector<int64_t> ends, std::vector<int64_t> axes,
                          std::vector<int64_t> steps) {
        return [=](Task& t) {
            t.attr("starts", starts).attr("ends", ends).attr("axes", axes).attr("steps", steps);
        };
    };
    const auto axis = [](int64_t value) { return [=](Task& t) { t.attr("axis", value); }; };
    const auto index = [](int64_t value) { return [=](Task& t) { t.attr("index", value); }; };
    const auto insert = [](int64_t along, int64_t start) {
        return [=](Task& t) { t.attr("axis", along).attr("start", start); };
    };
    const auto split = [](std::vector<int64_t> sizes) {
        return [=](Task& t) { t.attr("axis", -1).attr("split_sizes", sizes); };
    };
    const auto pad = [](std::vector<int64_t> pads, const char* mode) {
        return [=](Task& t) { t.attr("pads", pads).attr("mode", mode); };
    };
    const TensorType y = typed(f16, {4, 2, 3}), half = typed(f16, {2, 3, 2}), indices = typed(i32, {5});
    expect({
        {"transpose", {x}, {y}, ints("perm", {2, 0, 1}), ""},
        {"transpose", {x}, {y}, ints("perm", {2, 0, 0}), "perm=[2,0,0] is not a permutation"},
        {"transpose", {x}, {x}, ints("perm", {2, 0, 1}), "output 0 of shape [2,3,4] must be [4,2,3]"},
        {"reshape", {x}, {typed(f16, {6, 4})}, ints("target_shape", {6, -1}), ""},
        {"reshape", {x}, {typed(f16, {6, 4})}, ints("target_shape", {5, -1}), "preserve the number"},
        {"reshape", {x}, {typed(f16, {6, 4})}, ints("target_shape", {-1, -1}), "at most one -1"},
        {"slice", {x}, {half}, slice({0}, {2}, {-1}, {1}), ""},
        {"slice", {x}, {half}, slice({3}, {-9}, {-1}, {-2}), ""},
        {"slice", {x}, {half}, slice({0}, {2}, {3}, {1}), "axis 3 is outside the 3 dimensions"},
        {"slice", {x}, {half}, slice({0}, {2}, {2}, {0}), "step other than 0"},
        {"slice", {x}, {half}, slice({2}, {2}, {2}, {1}), "is empty"},
        {"slice", {x}, {half}, slice({0, 0}, {2}, {2}, {1}), "equal lengths"},
        {"slice", {x}, {half}, slice({0, 0}, {2, 2}, {2, -1}, {1, 1}), "names dimension 2 twice"},
        {"concat", {half, half}, {x}, axis(2), ""},
        {"concat", {half, x}, {x}, axis(0), "shapes must be equal but for axis 0"},
        {"concat", {half, typed(i8, {2, 3, 2})}, {x}, axis(2), "element types must match"},
        {"choose", {x, x, x}, {x}, index(2), ""},
        {"choose", {x, x}, {x}, index(2), "index is 2, there are 2 inputs"},
        {"choose", {x, half}, {x}, index(0), "shapes must be equal"},
        {"insert_rows", {x, half}, {x}, insert(2, 2), ""},
        {"insert_rows", {x, half}, {x}, insert(2, 3), "use 0 to 2"},
        {"insert_rows", {half, x}, {half}, insert(2, 0), "do not fit into X"},
        {"split", {x}, {half, half}, split({2, 2}), ""},
        {"split", {x}, {half, half}, split({2, 1}), "split_sizes=[2,1] sum to 3, X has 4"},
        {"split", {x}, {half}, split({2, 2}), "ask for 2 outputs, 1 are given"},
        {"pad", {x}, {typed(f16, {3, 3, 4})}, pad({1, 0, 0, 0, 0, 0}, "edge"), ""},
        {"pad", {x}, {x}, pad({-1, 0, 0, 0, 0, 0}, "edge"), "pads has -1"},
        {"pad", {x}, {x}, pad({1, 0, 0}, "edge"), "pads needs 6 integers"},
        {"pad", {x}, {x}, pad({0, 0, 0, 0, 0, 0}, "wrap"), "mode=wrap is unknown"},
        {"pad", {x}, {x}, pad({2, 0, 0, 0, 0, 0}, "reflect"), "reflect takes at most 1"},
        {"gather", {x, indices}, {typed(f16, {2, 5, 4})}, axis(-2), ""},
        {"gather", {x, typed(f16, {5})}, {typed(f16, {2, 5, 4})}, axis(1), "indices are f16"},
        {"gather", {x, indices}, {x}, axis(1), "must be [2,5,4]"},
    });
    const TensorType a = typed(i8, {4}).quant(per_tensor(0.5, 0)),
                     b = typed(i8, {4}).quant(per_tensor(0.25, 0));
    expect({{"reshape", {a}, {b}, ints("target_shape", {4}), "need the same quant"}});
}

// Reductions and searches: axes, kept dimensions, an index type that is wide enough.
TEST(OpcodeRules, Reductions) {
    const auto axes = [](std::vector<int64_t> values, const char* keep) {
        return [=](Task& t) { t.attr("axes", values).attr("keepdims", keep); };
    };
    const auto axis = [](Task& t) { t.attr("axis", 0).attr("keepdims", "false"); };
    expect({{"reduce_sum", {x}, {typed(f16, {2, 1, 1})}, axes({-1, 1}, "true"), ""},
            {"reduce_max", {x}, {typed(f16, {2})}, axes({-1, 1}, "false"), ""},
            {"reduce_min", {x}, {typed(f16, {1})}, axes({0, 1, 2}, "false"), ""},
            {"reduce_min", {x}, {typed(f16, {1})}, axes({}, "false"), "axes is empty"},
            {"reduce_min", {x}, {typed(f16, {1})}, axes({1, -2}, "false"), "names dimension 1 twice"},
            {"reduce_sum", {x}, {typed(i32, {2})}, axes({-1, 1}, "false"), "element types must match"},
            {"argmax", {typed(f16, {200, 2})}, {typed(i32, {2})}, axis, ""},
            {"argmax", {typed(f16, {200, 2})}, {typed(i8, {2})}, axis, "cannot hold indices up to 199"},
            {"argmin", {typed(f16, {2, 2})}, {typed(f16, {2})}, axis, "cannot hold indices"}});
}

// The other convolutions: lists of the window's rank, layouts, groups that follow the channels.
TEST(OpcodeRules, Convolutions) {
    const auto window = [](std::vector<int64_t> pads, std::vector<int64_t> steps, ElemType accum) {
        return [=](Task& t) {
            t.attr("pads", pads)
                .attr("strides", steps)
                .attr("dilations", std::vector<int64_t>(steps.size(), 1));
            t.attr("accum_type", accum);
        };
    };
    constexpr ElemType f32 = ElemType::f32;
    const TensorType x1 = typed(f16, {1, 8, 4}), w1 = typed(f16, {3, 4, 5}), y1 = typed(f16, {1, 6, 5});
    const TensorType x2 = typed(f16, {1, 4, 4, 3}), w2 = typed(f16, {2, 2, 1, 6}),
                     y2 = typed(f16, {1, 3, 3, 6});
    const TensorType x3 = typed(f16, {1, 4, 4, 4, 2}), w3 = typed(f16, {2, 2, 2, 2, 3}),
                     y3 = typed(f16, {1, 3, 3, 3, 3});
    expect({{"conv1d", {x1, w1}, {y1}, window({0, 0}, {1}, f32), ""},
            {"conv1d", {x1, w1}, {y1}, window({0, 0, 0, 0}, {1}, f32), "pads needs 2 integers, has 4"},
            {"conv1d", {x2, w2}, {y2}, window({0, 0}, {1}, f32), "X (NWC), W (WIO) and Y need 3 dimensions"},
            {"conv1d", {x1, w1}, {y1}, window({0, 0}, {1}, i32), "accum_type must equal f32"},
            {"conv1d", {x1, typed(i8, {3, 4, 5})}, {y1}, window({0, 0}, {1}, f32), "mix integers and floats"},
            {"conv3d", {x3, w3}, {y3}, window({0, 0, 0, 0, 0, 0}, {1, 1, 1}, f32), ""},
            {"conv3d", {x3, w3}, {y3}, window({0, 0, 0, 0, 0, 0}, {1, 2, 1}, f32), "must be 3x2x3"},
            {"depthwise_conv2d", {x2, w2}, {y2}, window({0, 0, 0, 0}, {1, 1}, f32), ""},
            {"depthwise_conv2d",
             {x2, typed(f16, {2, 2, 3, 6})},
             {y2},
             window({0, 0, 0, 0}, {1, 1}, f32),
             "do not fit with groups=3"}});
}

// Blocks on the diagonal of W divide the channels of a group.
TEST(OpcodeRules, BlocksOfGroups) {
    const auto with = [](int64_t groups, int64_t blocks) {
        return [=](Task& t) {
            t.attr("pads", {0, 0, 0, 0}).attr("strides", {1, 1}).attr("dilations", {1, 1});
            t.attr("groups", groups).attr("blocks", blocks).attr("accum_type", ElemType::f32);
        };
    };
    const TensorType pixels = typed(f16, {1, 4, 4, 12}), w = typed(f16, {2, 2, 6, 24}),
                     y = typed(f16, {1, 3, 3, 24});
    expect({{"conv2d", {pixels, w}, {y}, with(2, 1), ""},
            {"conv2d", {pixels, w}, {y}, with(2, 6), ""},
            {"conv2d",
             {pixels, w},
             {y},
             with(2, 4),
             "blocks=4 does not divide the 6 input and 12 output channels"},
            {"conv2d", {pixels, w}, {y}, with(2, 0), "blocks=0"}});
}

// Transposed convolutions: what strides, pads and output_padding make of the shape.
TEST(OpcodeRules, TransposedConvolutions) {
    const auto spread = [](std::vector<int64_t> pads, std::vector<int64_t> more) {
        return [=](Task& t) {
            t.attr("pads", pads).attr("strides", {2, 2}).attr("dilations", {1, 1});
            t.attr("output_padding", more).attr("accum_type", ElemType::f32);
        };
    };
    const TensorType in = typed(f16, {1, 4, 4, 2}), w = typed(f16, {3, 3, 2, 5});
    const auto out = [](int64_t size) { return typed(f16, {1, size, size, 5}); };
    expect({{"conv_transpose2d", {in, w}, {out(9)}, spread({0, 0, 0, 0}, {0, 0}), ""},
            {"conv_transpose2d", {in, w, typed(f16, {5})}, {out(8)}, spread({1, 1, 1, 1}, {1, 1}), ""},
            {"conv_transpose2d", {in, w}, {out(8)}, spread({0, 0, 0, 0}, {0, 0}), "must be [1,9,9,5]"},
            {"conv_transpose2d", {in, w}, {out(8)}, spread({0, 0, 0, 0}, {2, 0}), "output_padding has 2"},
            {"conv_transpose2d", {in, w}, {out(8)}, spread({9, 0, 0, 0}, {0, 0}), "nothing of Y is left"},
            {"conv_transpose2d",
             {in, w, typed(f16, {4})},
             {out(9)},
             spread({0, 0, 0, 0}, {0, 0}),
             "B f16[4] must be [5]"},
            {"conv_transpose2d",
             {in, typed(f16, {3, 3, 1, 5})},
             {out(9)},
             spread({0, 0, 0, 0}, {0, 0}),
             "do not fit with groups=1"}});
}

// Conditions are u8 and stand for themselves; data operands are alike whatever the condition.
TEST(OpcodeRules, Conditions) {
    const TensorType flags = typed(ElemType::u8, {2, 3, 4});
    const TensorType quantized = typed(i8, {4}).quant(per_tensor(0.5, 1)), plain = typed(i8, {4});
    const TensorType four = typed(ElemType::u8, {4});
    expect({{"less", {x, x}, {flags}, {}, ""},
            {"less", {x, x}, {x}, {}, "Y f16[2,3,4] is a condition, 0 or 1. Fix: make it u8"},
            {"less", {x, typed(i8, {2, 3, 4})}, {flags}, {}, "element types must match"},
            {"less", {quantized, quantized}, {four}, {}, ""},
            {"less", {quantized, plain}, {four}, {}, "either all operands carry quant or none does"},
            {"less",
             {plain, plain},
             {typed(ElemType::u8, {4}).quant(per_tensor(0.5, 1))},
             {},
             "is a condition and cannot be quantized"},
            {"where", {flags, x, x}, {x}, {}, ""},
            {"where", {x, x, x}, {x}, {}, "condition f16[2,3,4] is a condition"},
            {"where", {flags, x, typed(f16, {4})}, {x}, {}, "shapes must be identical"},
            {"where", {four, quantized, plain}, {quantized}, {}, "either all operands carry quant"},
            {"not", {flags}, {flags}, {}, ""},
            {"and", {flags, x}, {flags}, {}, "B f16[2,3,4] is a condition"},
            {"prelu", {x, typed(i8, {2, 3, 4})}, {x}, {}, "element types must match"},
            {"erf", {plain}, {plain}, {}, "the formula has no integer meaning"}});
}

// Options of pools, group_norm, resize, and views of pixels.
TEST(OpcodeRules, Pixels) {
    const auto pool = [](std::vector<int64_t> dilations, const char* up) {
        return [=](Task& t) {
            t.attr("kernel_shape", {2, 2}).attr("pads", {0, 0, 0, 0}).attr("strides", {2, 2});
            t.attr("dilations", dilations).attr("ceil_mode", up);
        };
    };
    const auto groups = [](int64_t count) {
        return [=](Task& t) { t.attr("groups", count).attr("epsilon", 1e-3); };
    };
    const auto resize = [](std::vector<double> scales, const char* mode) {
        return [=](Task& t) { t.attr("sizes", {1, 7, 7, 4}).attr("scales", scales).attr("mode", mode); };
    };
    const auto block = [](int64_t size) { return [=](Task& t) { t.attr("block", size); }; };
    const TensorType in = typed(f16, {1, 5, 5, 4});
    const auto out = [](int64_t size) { return typed(f16, {1, size, size, 4}); };
    const TensorType wide = typed(f16, {1, 10, 10, 1}), seven = out(7);
    expect(
        {{"maxpool", {in}, {out(2)}, pool({1, 1}, "false"), ""},
         {"maxpool", {in}, {out(3)}, pool({1, 1}, "true"), ""},
         {"avgpool", {in}, {out(2)}, pool({2, 2}, "false"), ""},
         {"avgpool", {in}, {out(2)}, pool({2, 0}, "false"), "dilations has 0"},
         {"avgpool", {in}, {out(1)}, pool({9, 9}, "false"), "the window does not fit"},
         {"maxpool", {typed(f16, {5, 4})}, {typed(f16, {2, 4})}, pool({1, 1}, "true"), "must be NHWC, NWC"},
         {"group_norm", {in, typed(f16, {4})}, {in}, groups(2), ""},
         {"group_norm", {in}, {in}, groups(3), "groups=3 does not divide the 4 channels"},
         {"group_norm", {in, typed(f16, {2})}, {in}, groups(2), "scale f16[2] must be [4]"},
         {"resize", {in}, {seven}, resize({1, 1.5, 1.5, 1}, "linear"), ""},
         {"resize", {in}, {seven}, resize({1, 1.5, 1}, "linear"), "scales must be 4 numbers above 0"},
         {"resize", {in}, {seven}, resize({1, -1.5, 1.5, 1}, "linear"), "scales must be 4 numbers above 0"},
         {"resize", {in}, {seven}, resize({1, 1.5, 1.5, 1}, "cubic"), "mode=cubic is unknown"},
         {"resize", {in}, {in}, resize({1, 1.5, 1.5, 1}, "nearest"), "must be [1,7,7,4]"},
         {"depth_to_space", {in}, {wide}, block(2), ""},
         {"depth_to_space", {in}, {wide}, block(3), "not a multiple of 3 x 3"},
         {"space_to_depth", {wide}, {in}, block(2), ""},
         {"space_to_depth", {wide}, {in}, block(4), "not multiples of 4"},
         {"gather_elements",
          {x, typed(i32, {2, 3, 9})},
          {typed(f16, {2, 3, 9})},
          [](Task& t) { t.attr("axis", 2); },
          ""},
         {"gather_elements",
          {x, typed(i32, {2, 4, 4})},
          {typed(f16, {2, 4, 4})},
          [](Task& t) { t.attr("axis", 2); },
          "reach beyond X"},
         {"cumsum", {x}, {x}, [](Task& t) { t.attr("axis", 3); }, "axis is outside the 3 dimensions"}});
}

// The escape hatch of the language is refused by name, not as an unknown opcode.
TEST(OpcodeRules, ComputeIsRefused) {
    Program p("one");
    const Region r = p.region("r", p.buffer("b", Level::l2, 64), 0, typed(f16, {4}));
    p.compute("compute", {r}, {r}, "task");
    Diagnostics diagnostics;
    verify(std::make_shared<Module>(p.build()), DeviceLimits{}, {}, diagnostics);
    EXPECT_THAT(diagnostics.to_string(), HasSubstr("op is required"));
    const OpcodeSpec& spec = opcode(find_opcode("compute").value());
    EXPECT_TRUE(spec.refused);
}

// A future opcode runs on every device, and says when the device does not list it; strict makes that an
// error.
TEST(OpcodeRules, FutureOpcodesAreFlagged) {
    Program p("one");
    const Region in = p.region("in", p.buffer("b", Level::l2, 64), 0, typed(f16, {4}));
    const Region out = p.region("out", p.buffer("c", Level::l2, 64), 0, typed(f16, {1}));
    p.compute("reduce_sum", {in}, {out}, "task").attr("axes", {0}).attr("keepdims", "false");
    DeviceLimits limits;
    limits.name = "small";
    limits.agnostic = false;
    limits.count(UnitKind::nmu) = 1;
    limits.count(UnitKind::cstl) = 1;
    limits.count(UnitKind::dma) = 1;
    limits.count(UnitKind::vpu) = 1;
    limits.count(UnitKind::seq) = 1;
    limits.count(UnitKind::sdma) = 1;
    for (const bool strict : {false, true}) {
        Diagnostics diagnostics;
        VerifyOptions options;
        options.strict = strict;
        verify(std::make_shared<Module>(p.build()), limits, options, diagnostics);
        EXPECT_EQ(diagnostics.has_errors(), strict);
        EXPECT_THAT(diagnostics.to_string(), HasSubstr("reduce_sum is not in device `small`"));
    }
    TypeVariant variant;
    variant.name = "reduce<f16>.default";
    variant.family = variant.opcode = "reduce";
    limits.variants = {variant};
    Diagnostics diagnostics;
    verify(std::make_shared<Module>(p.build()), limits, {}, diagnostics);
    EXPECT_EQ(diagnostics.to_string(), "");
}

// Two results of one task must not share bytes.
TEST(OpcodeRules, OutputsAreApart) {
    Program p("one");
    const Buffer buffer = p.buffer("b", Level::l2, 256);
    const Region in = p.region("in", buffer, 0, typed(f16, {8}));
    const auto out = [&](const char* name, int64_t offset) {
        return p.region(name, buffer, offset, typed(f16, {4}));
    };
    p.compute("split", {in}, {out("one_half", 64), out("other_half", 68)}, "task")
        .attr("axis", 0)
        .attr("split_sizes", {4, 4});
    Diagnostics diagnostics;
    verify(std::make_shared<Module>(p.build()), DeviceLimits{}, {}, diagnostics);
    EXPECT_THAT(diagnostics.to_string(),
                HasSubstr("outputs region `one_half` and region `other_half` overlap"));
}

}  // namespace
}  // namespace kpu::opcode_rules_test
