// The opcode table: the only place that lists opcodes. Parser, verifier, values, model, lists and docs read
// it. A new opcode is one row in one of the functions below. Operand names are those that type families bind.
#include <unordered_map>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "isa/opcodes.hpp"

namespace kpu {
namespace {

using K = AttrKind;
using C = OpcodeClass;
using Table = std::vector<OpcodeSpec>;

enum Flags : unsigned {
    plain = 0,
    in_place = 1,
    future = 2,
    variadic_in = 4,
    variadic_out = 8,
    movement = 16,
    refused = 32,
    needs_quant = 64,
    special = 128  ///< transcendental
};

/// Defaults of the platform's cost table (vector units only). Assumed: a special function (exponential,
/// logarithm, division, root) runs at a quarter of the rate of an addition, as in shader cores of the field.
struct Cost {
    double cycles = 1;
    uint32_t passes = 1;
};

OpcodeSpec row(std::string_view name, std::vector<OperandSpec> inputs, std::vector<OperandSpec> outputs,
               std::vector<AttrSpec> attributes, std::string_view family, UnitKind unit, OpcodeClass op_class,
               unsigned flags, Cost cost, std::string_view formula) {
    OpcodeSpec spec;
    spec.name = name;
    spec.inputs = std::move(inputs);
    spec.outputs = std::move(outputs);
    spec.attributes = std::move(attributes);
    spec.family = family;
    spec.unit = unit;
    spec.op_class = op_class;
    spec.variadic_inputs = (flags & variadic_in) != 0;
    spec.variadic_outputs = (flags & variadic_out) != 0;
    spec.in_place_allowed = (flags & in_place) != 0;
    spec.future = (flags & future) != 0;
    spec.movement = (flags & movement) != 0;
    spec.refused = (flags & refused) != 0;
    spec.integers_need_quant = (flags & needs_quant) != 0;
    spec.transcendental = (flags & special) != 0;
    spec.cycles = cost.cycles;
    spec.passes = cost.passes;
    spec.formula = formula;
    return spec;
}

constexpr UnitKind nmu = UnitKind::nmu, cstl = UnitKind::cstl, dma = UnitKind::dma, vpu = UnitKind::vpu;

const AttrSpec accum{"accum_type", K::elem_type, true, "", "type of the accumulator"};
const AttrSpec pads{"pads", K::ints, true, "", "[top, left, bottom, right]"};
const AttrSpec strides{"strides", K::ints, true, "", "[vertical, horizontal]"};
const AttrSpec dilations{"dilations", K::ints, true, "", "[vertical, horizontal]"};
const AttrSpec groups{"groups", K::integer, false, "1", "groups of input and output channels"};
const AttrSpec axis{"axis", K::integer, true, "", "dimension; negative counts from the last"};
const AttrSpec keepdims{"keepdims", K::boolean, true, "", "true: reduced dimensions stay with size 1"};

const OperandSpec a{"A"}, b{"B"}, x{"X"}, w{"W"}, y{"Y"}, src{"src"}, dst{"dst"};
const OperandSpec opt_b{"B", true}, opt_c{"C", true}, opt_scale{"scale", true}, opt_bias{"bias", true};

void add_products(Table& t) {
    const AttrSpec accum_of_y{"accum_type", K::elem_type, false, "",
                              "accumulator type, the type of Y; may be left out"};
    t.push_back(row("gemm", {a, b, opt_c}, {y}, {accum}, "gemm", nmu, C::gemm, plain, {},
                    "Y[m,n] = sum_k A[m,k] * B[k,n] + C[m,n]; C broadcastable to Y"));
    t.push_back(row("matmul", {a, b}, {y}, {accum}, "gemm", nmu, C::gemm, plain, {},
                    "Y[m,n] = sum_k A[m,k] * B[k,n]"));
    t.push_back(
        row("gemm.acc", {a, b, opt_c}, {y}, {accum_of_y}, "gemm.acc", nmu, C::gemm, in_place, {},
            "Y = C + sum_k A[m,k] * B[k,n] continued in order; Y and C of the accumulator type; C may be Y"));
    t.push_back(row("conv2d", {x, w, opt_b}, {y}, {pads, strides, dilations, groups, accum}, "conv2d", nmu,
                    C::conv, plain, {},
                    "Y[n,y,x,o] = sum_{kh,kw,c} X[n, y*s+kh*d-p, x*s+kw*d-p, c] * W[kh,kw,c,o] + B[o]; X "
                    "NHWC, W HWIO"));
    t.push_back(row("conv2d.acc", {x, w, opt_c}, {y}, {pads, strides, dilations, groups, accum_of_y},
                    "conv2d.acc", nmu, C::conv, in_place, {},
                    "Y = C + conv2d(X, W) continued in order; C has the shape of Y (may be Y) or [Cout]"));
    const AttrSpec pads1{"pads", K::ints, true, "", "[left, right]"};
    const AttrSpec strides1{"strides", K::ints, true, "", "[step]"};
    const AttrSpec dilations1{"dilations", K::ints, true, "", "[step]"};
    t.push_back(row("conv1d", {x, w, opt_b}, {y}, {pads1, strides1, dilations1, groups, accum}, "conv1d", nmu,
                    C::conv, future, {},
                    "Y[n,x,o] = sum_{k,c} X[n, x*s+k*d-p, c] * W[k,c,o] + B[o]; X NWC, W WIO"));
    const AttrSpec pads3{"pads", K::ints, true, "", "[front, top, left, back, bottom, right]"};
    const AttrSpec strides3{"strides", K::ints, true, "", "[depth, vertical, horizontal]"};
    const AttrSpec dilations3{"dilations", K::ints, true, "", "[depth, vertical, horizontal]"};
    t.push_back(row("conv3d", {x, w, opt_b}, {y}, {pads3, strides3, dilations3, groups, accum}, "conv3d", nmu,
                    C::conv, future, {},
                    "Y[n,z,y,x,o] = sum_{kd,kh,kw,c} X[n, z*s+kd*d-p, y*s+kh*d-p, x*s+kw*d-p, c] * "
                    "W[kd,kh,kw,c,o] + B[o]; X NDHWC, W DHWIO"));
    t.push_back(row("depthwise_conv2d", {x, w, opt_b}, {y}, {pads, strides, dilations, accum},
                    "depthwise_conv2d", nmu, C::conv, future, {},
                    "conv2d with groups = Cin; X NHWC, W [Kh,Kw,1,Cout], Cout a multiple of Cin"));
}

void add_elementwise(Table& t) {
    const auto unary = [&](std::string_view name, unsigned flags, double cycles, std::string_view formula,
                           std::vector<AttrSpec> attributes = {}) {
        t.push_back(row(name, {x}, {y}, std::move(attributes), "eltwise", cstl, C::elementwise,
                        flags | in_place, {cycles, 1}, formula));
    };
    const auto binary = [&](std::string_view name, unsigned flags, double cycles, std::string_view formula) {
        t.push_back(row(name, {a, b}, {y}, {}, "eltwise", cstl, C::elementwise, flags | in_place, {cycles, 1},
                        formula));
    };
    const AttrSpec alpha{"alpha", K::real, true, "", "factor of negative elements"};
    const AttrSpec min_val{"min_val", K::real, true, "", "lower bound"};
    const AttrSpec max_val{"max_val", K::real, true, "", "upper bound, at least min_val"};
    constexpr unsigned function = needs_quant | special;
    unary("relu", plain, 1, "Y = max(X, 0)");
    unary("sigmoid", function, 4, "Y = 1 / (1 + exp(-X))");
    unary("tanh", function, 4, "Y = tanh(X)");
    unary("exp", function, 4, "Y = exp(X)");
    unary("log", function, 4, "Y = ln(X); NaN below 0");
    unary("sqrt", function, 4, "Y = sqrt(X); NaN below 0");
    unary("abs", plain, 1, "Y = |X|");
    unary("neg", plain, 1, "Y = -X");
    unary("gelu", function, 6, "Y = X / 2 * erfc(-X / sqrt(2)), the erf form");
    unary("silu", function, 5, "Y = X * sigmoid(X)");
    unary("leaky_relu", plain, 1, "Y = X < 0 ? alpha * X : X", {alpha});
    binary("add", plain, 1, "Y = A + B; equal shapes");
    binary("sub", plain, 1, "Y = A - B; equal shapes");
    binary("mul", plain, 1, "Y = A * B; equal shapes");
    binary("div", special, 4, "Y = A / B; plain integers truncate; equal shapes");
    binary("min", plain, 1, "Y = min(A, B), NaN propagates, -0 < +0; equal shapes");
    binary("max", plain, 1, "Y = max(A, B), NaN propagates, -0 < +0; equal shapes");
    binary("pow", function, 9, "Y = A ^ B; equal shapes");
    unary("clamp", plain, 1, "Y = min(max(X, min_val), max_val)", {min_val, max_val});
}

void add_pools_and_norms(Table& t) {
    const AttrSpec kernel_shape{"kernel_shape", K::ints, true, "", "[height, width]"};
    const AttrSpec epsilon{"epsilon", K::real, true, "", "added below the root"};
    t.push_back(row("maxpool", {x}, {y}, {kernel_shape, pads, strides}, "eltwise", cstl, C::pooling, plain,
                    {}, "Y[n,y,x,c] = max over the window of X, padding excluded; NHWC"));
    t.push_back(row("avgpool", {x}, {y}, {kernel_shape, pads, strides}, "eltwise", cstl, C::pooling, plain,
                    {}, "Y[n,y,x,c] = mean over the window of X, padding excluded; NHWC"));
    t.push_back(row("layernorm", {x, opt_scale, opt_bias}, {y}, {axis, epsilon}, "norm", cstl, C::norm,
                    in_place | special, {1, 3},
                    "Y = (X - mean) / sqrt(mean((X - mean)^2) + epsilon) * scale + bias, along axis"));
    t.push_back(row("rmsnorm", {x, opt_scale}, {y}, {axis, epsilon}, "norm", cstl, C::norm,
                    in_place | special, {1, 2}, "Y = X / sqrt(mean(X^2 along axis) + epsilon) * scale"));
    t.push_back(row("softmax", {x}, {y}, {axis}, "softmax", cstl, C::softmax, in_place | special, {2, 3},
                    "Y = exp(X - max) / sum exp(X - max), along axis"));
    t.push_back(row("log_softmax", {x}, {y}, {axis}, "softmax", cstl, C::softmax, in_place | special, {2, 3},
                    "Y = (X - max) - ln(sum exp(X - max)), along axis"));
}

void add_views(Table& t) {
    const auto view = [&](std::string_view name, std::vector<OperandSpec> inputs, unsigned flags,
                          std::vector<AttrSpec> attributes, std::string_view formula) {
        t.push_back(row(name, std::move(inputs), {y}, std::move(attributes), "view", cstl, C::view, flags, {},
                        formula));
    };
    view("transpose", {x}, plain, {{"perm", K::ints, true, "", "dimension of X for each dimension of Y"}},
         "Y[i0,i1,...] = X with dimension perm[d] of X as dimension d of Y");
    view("reshape", {x}, plain,
         {{"target_shape", K::ints, true, "", "the shape of Y; one entry may be -1: what is left"}},
         "Y = the elements of X in row-major order");
    view("slice", {x}, plain,
         {{"starts", K::ints, true, "", "first index per axis; negative counts from the end"},
          {"ends", K::ints, true, "", "index behind the last, per axis; negative counts from the end"},
          {"axes", K::ints, true, "", "the sliced dimensions"},
          {"steps", K::ints, true, "", "per axis, not 0; negative walks backwards"}},
         "Y = X[starts:ends:steps] along axes, bounds clamped to the dimension");
    view("concat", {x}, variadic_in, {axis}, "Y = the inputs one behind the other along axis");
    t.push_back(row("split", {x}, {y},
                    {axis, {"split_sizes", K::ints, true, "", "size of each output along axis"}}, "view",
                    cstl, C::view, variadic_out, {}, "outputs = consecutive parts of X along axis"));
    view("pad", {x}, plain,
         {{"pads", K::ints, true, "", "elements before each dimension, then behind each"},
          {"mode", K::word, true, "", "constant, edge or reflect"},
          {"constant_value", K::real, false, "0", "of mode constant"}},
         "Y = X with pads elements around it");
    view("gather", {x, {"indices"}}, plain, {axis},
         "Y[..., i..., ...] = X[..., indices[i...], ...] along axis; a negative index counts from the end");
}

void add_reductions(Table& t) {
    const AttrSpec axes{"axes", K::ints, true, "", "the reduced dimensions; negative count from the last"};
    const auto reduce = [&](std::string_view name, std::string_view formula) {
        t.push_back(row(name, {x}, {y}, {axes, keepdims}, "reduce", vpu, C::reduction, future, {}, formula));
    };
    reduce("reduce_sum", "Y = sum of X over axes");
    reduce("reduce_max", "Y = maximum of X over axes");
    reduce("reduce_min", "Y = minimum of X over axes");
    const auto search = [&](std::string_view name, std::string_view formula) {
        t.push_back(
            row(name, {x}, {y}, {axis, keepdims}, "arg_reduce", vpu, C::reduction, future, {}, formula));
    };
    search("argmax", "Y = index of the first greatest element along axis; the first NaN if there is one");
    search("argmin", "Y = index of the first least element along axis; the first NaN if there is one");
}

void add_conversions(Table& t) {
    t.push_back(row("cast", {x}, {y}, {}, "cast", cstl, C::convert, plain, {},
                    "Y = X in the type of Y; float to integer truncates and saturates, integers saturate"));
    t.push_back(row("quantize", {src}, {dst}, {}, "quantize", vpu, C::convert, plain, {},
                    "dst = saturate(round_half_even(src / scale) + zero_point), quantization of dst"));
    t.push_back(row("dequantize", {src}, {dst}, {}, "dequantize", vpu, C::convert, plain, {},
                    "dst = (src - zero_point) * scale, quantization of src"));
    t.push_back(row("requant", {src}, {dst}, {}, "requant", vpu, C::convert, plain, {},
                    "dst = saturate(round_half_even((src - zp_src) * scale_src / scale_dst) + zp_dst); i32 "
                    "to i8 or i16"));
}

Table make_table() {
    Table t;
    // movement: written transfer.async(dst=..., src=...); listed here for lists and documentation
    t.push_back(row("transfer", {src}, {dst}, {}, "", dma, C::view, movement, {}, "dst = src"));
    t.push_back(row("store", {src}, {dst}, {}, "", cstl, C::view, movement, {},
                    "dst = src, committed for later readers"));
    add_products(t);
    add_elementwise(t);
    add_pools_and_norms(t);
    add_views(t);
    add_reductions(t);
    add_conversions(t);
    t.push_back(row("compute", {x}, {y}, {{"op", K::text, true, "", "name of an operation"}}, "", cstl,
                    C::elementwise, refused | variadic_in | variadic_out, {},
                    "escape hatch of the language: no defined result, refused"));
    return t;
}

}  // namespace

const std::vector<OpcodeSpec>& opcode_table() {
    static const std::vector<OpcodeSpec> table = make_table();
    return table;
}

const OpcodeSpec& opcode(OpcodeId id) {
    if (id >= opcode_table().size()) throw InternalError("opcode id out of range");
    return opcode_table()[id];
}

std::optional<OpcodeId> find_opcode(std::string_view name) {
    static const std::unordered_map<std::string_view, OpcodeId> ids = [] {
        std::unordered_map<std::string_view, OpcodeId> by_name;
        for (const OpcodeSpec& spec : opcode_table())
            by_name.emplace(spec.name, static_cast<OpcodeId>(by_name.size()));
        return by_name;
    }();
    const auto found = ids.find(name);
    return found == ids.end() ? std::nullopt : std::optional<OpcodeId>(found->second);
}

std::string nearest_opcode(std::string_view name) {
    std::vector<std::string_view> names;
    for (const OpcodeSpec& spec : opcode_table()) names.push_back(spec.name);
    return nearest_name(name, names);
}

}  // namespace kpu
