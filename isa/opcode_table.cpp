// The opcode table: the only place that lists opcodes. Parser, verifier, values, model, lists and docs read
// it. A new opcode is one row in make_table(). Operand names are those that type families bind.
#include <unordered_map>

#include "isa/diagnostics.hpp"
#include "isa/opcodes.hpp"
#include "isa/text.hpp"

namespace kpu {
namespace {

enum Flags : unsigned {
    plain = 0,
    in_place = 1,
    future = 2,
    variadic_in = 4,
    variadic_out = 8,
    movement = 16
};

OpcodeSpec row(std::string_view name, std::vector<OperandSpec> inputs, std::vector<OperandSpec> outputs,
               std::vector<AttrSpec> attributes, std::string_view family, UnitKind unit, OpcodeClass op_class,
               unsigned flags, std::string_view formula) {
    OpcodeSpec spec{name,
                    std::move(inputs),
                    std::move(outputs),
                    false,
                    false,
                    std::move(attributes),
                    family,
                    unit,
                    op_class,
                    false,
                    false,
                    false,
                    formula};
    spec.variadic_inputs = (flags & variadic_in) != 0;
    spec.variadic_outputs = (flags & variadic_out) != 0;
    spec.in_place_allowed = (flags & in_place) != 0;
    spec.future = (flags & future) != 0;
    spec.movement = (flags & movement) != 0;
    return spec;
}

std::vector<OpcodeSpec> make_table() {
    using K = AttrKind;
    using C = OpcodeClass;
    const UnitKind nmu = UnitKind::nmu, cstl = UnitKind::cstl, dma = UnitKind::dma, vpu = UnitKind::vpu;

    const AttrSpec accum{"accum_type", K::elem_type, true, "", "type of the accumulator"};
    const AttrSpec accum_of_y{"accum_type", K::elem_type, false, "",
                              "accumulator type, the type of Y; may be left out"};
    const AttrSpec pads{"pads", K::ints, true, "", "[top, left, bottom, right]"};
    const AttrSpec strides{"strides", K::ints, true, "", "[vertical, horizontal]"};
    const AttrSpec dilations{"dilations", K::ints, true, "", "[vertical, horizontal]"};
    const AttrSpec groups{"groups", K::integer, false, "1", "groups of input and output channels"};
    const AttrSpec kernel_shape{"kernel_shape", K::ints, true, "", "[height, width]"};
    const AttrSpec axis{"axis", K::integer, true, "", "dimension; negative counts from the last"};
    const AttrSpec epsilon{"epsilon", K::real, true, "", "added to the mean of squares"};

    const OperandSpec a{"A"}, b{"B"}, x{"X"}, w{"W"}, y{"Y"}, src{"src"}, dst{"dst"};
    const OperandSpec opt_b{"B", true}, opt_c{"C", true}, opt_scale{"scale", true};

    return {
        // movement: written transfer.async(dst=..., src=...); listed here for lists and documentation
        row("transfer", {src}, {dst}, {}, "", dma, C::view, movement, "dst = src"),
        row("store", {src}, {dst}, {}, "", cstl, C::view, movement, "dst = src, committed for later readers"),

        row("gemm", {a, b, opt_c}, {y}, {accum}, "gemm", nmu, C::gemm, plain,
            "Y[m,n] = sum_k A[m,k] * B[k,n] + C[m,n]; C broadcastable to Y"),
        row("matmul", {a, b}, {y}, {accum}, "gemm", nmu, C::gemm, plain, "Y[m,n] = sum_k A[m,k] * B[k,n]"),
        row("gemm.acc", {a, b, opt_c}, {y}, {accum_of_y}, "gemm.acc", nmu, C::gemm, in_place,
            "Y = C + sum_k A[m,k] * B[k,n] continued in order; Y and C of the accumulator type; C may be Y"),
        row("conv2d", {x, w, opt_b}, {y}, {pads, strides, dilations, groups, accum}, "conv2d", nmu, C::conv,
            plain,
            "Y[n,y,x,o] = sum_{kh,kw,c} X[n, y*s+kh*d-p, x*s+kw*d-p, c] * W[kh,kw,c,o] + B[o]; X NHWC, W "
            "HWIO"),
        row("conv2d.acc", {x, w, opt_c}, {y}, {pads, strides, dilations, groups, accum_of_y}, "conv2d.acc",
            nmu, C::conv, in_place,
            "Y = C + conv2d(X, W) continued in order; C has the shape of Y (may be Y) or [Cout]"),

        row("relu", {x}, {y}, {}, "eltwise", cstl, C::elementwise, in_place, "Y = max(X, 0)"),
        row("add", {a, b}, {y}, {}, "eltwise", cstl, C::elementwise, in_place, "Y = A + B; equal shapes"),
        row("maxpool", {x}, {y}, {kernel_shape, pads, strides}, "eltwise", cstl, C::pooling, plain,
            "Y[n,y,x,c] = max over the window of X, padding excluded; NHWC"),

        row("rmsnorm", {x, opt_scale}, {y}, {axis, epsilon}, "norm", cstl, C::norm, in_place,
            "Y = X / sqrt(mean(X^2 along axis) + epsilon) * scale"),

        row("cast", {x}, {y}, {}, "cast", cstl, C::convert, plain,
            "Y = X in the type of Y; float to integer truncates and saturates, integers saturate"),
        row("quantize", {src}, {dst}, {}, "quantize", vpu, C::convert, plain,
            "dst = saturate(round_half_even(src / scale) + zero_point), quantization of dst"),
        row("dequantize", {src}, {dst}, {}, "dequantize", vpu, C::convert, plain,
            "dst = (src - zero_point) * scale, quantization of src"),
        row("requant", {src}, {dst}, {}, "requant", vpu, C::convert, plain,
            "dst = saturate(round_half_even((src - zp_src) * scale_src / scale_dst) + zp_dst); i32 to i8 or "
            "i16"),
    };
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
