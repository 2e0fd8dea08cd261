// Matrix products and convolutions, on systolic arrays.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "isa/opcodes/rows.hpp"

namespace kpu::opcodes {
namespace {

const EnergyKeys on_array{"array.mac.TYPE", "array.pe.shift", "array.pe.idle"};
const AttrSpec accum{"accum_type", AttrKind::elem_type, true, "", "type of the accumulator"};
const AttrSpec accum_of_y{"accum_type", AttrKind::elem_type, false, "",
                          "accumulator type, the type of Y; may be left out"};
const AttrSpec dilations{"dilations", AttrKind::ints, true, "", "[vertical, horizontal]"};
const AttrSpec groups{"groups", AttrKind::integer, false, "1", "groups of input and output channels"};
const AttrSpec blocks{
    "blocks", AttrKind::integer, false, "1",
    "W of a group has so many blocks on its diagonal, and zeros beside them, which count as "
    "no work"};
const OperandSpec w{"W"}, opt_b{"B", true}, opt_c{"C", true};

/// Narrowing: Y is of the operands' kind and C is a bias. Accumulating: Y and C have the accumulator's type.
bool product_types(const OpcodeSpec& spec, const std::vector<ElemType>& in,
                   const std::vector<ElemType>& out) {
    const ElemType y = out[0];
    const bool bias = in.size() == 3;
    if (is_float(in[0]) && is_float(in[1])) {
        if (spec.accumulates) return y == ElemType::f32 && (!bias || in[2] == y);
        return is_float(y) && (!bias || is_float(in[2]));
    }
    if (!is_narrow_integer(in[0]) || !is_narrow_integer(in[1])) return false;
    return (spec.accumulates ? y == ElemType::i32 : is_narrow_integer(y)) &&
           (!bias || in[2] == ElemType::i32);
}

/// True for narrow integers with scales of groups: sums are f32, and C continues them.
bool group_product_types(const OpcodeSpec& spec, const std::vector<ElemType>& in,
                         const std::vector<ElemType>& out) {
    if (in.size() < 3) return false;
    const bool scales = in[2] == ElemType::f16 || in[2] == ElemType::f32;
    return is_narrow_integer(in[0]) && is_narrow_integer(in[1]) && scales && out[0] == ElemType::f32 &&
           (in.size() <= spec.addend || in[spec.addend] == ElemType::f32);
}

/// Applies NumPy's rule for an operand that is added to the result.
bool broadcastable(const Dims& c, const Dims& y) {
    bool fits = c.rank <= y.rank;
    for (size_t d = 1; fits && d <= c.rank; ++d) fits = c[c.rank - d] == 1 || c[c.rank - d] == y[y.rank - d];
    return fits;
}

std::vector<Dims> product_shape(const ShapeCase& c) {
    const Dims &a_shape = c.in(0), &b_shape = c.in(1);
    const Dims* declared = c.declared();
    if (a_shape.rank < 2 || b_shape.rank != a_shape.rank ||
        (declared != nullptr && declared->rank != a_shape.rank)) {
        c.fail("operands need one rank of at least 2: {}. Fix: reshape the regions.", c.operands_text());
    }
    const size_t m = a_shape.rank - 2u, n = a_shape.rank - 1u;
    Dims result = a_shape;
    for (size_t d = 0; d < m; ++d) {
        if (a_shape[d] != b_shape[d] || (declared != nullptr && a_shape[d] != (*declared)[d]))
            c.fail("leading dimensions must be equal: {}. Fix: use equal batches.", c.operands_text());
    }
    if (a_shape[n] != b_shape[m])
        c.fail("inner dimensions must be equal: {}. Fix: A is [M,K], B is [K,N].", c.operands_text());
    result[n] = b_shape[n];
    if (declared != nullptr && !(*declared == result))
        c.fail("Y must be [M,N] of A and B: {}. Fix: change its shape.", c.operands_text());
    const size_t addend = c.spec.addend;
    if (c.inputs() > addend && !broadcastable(c.in(addend), result)) {
        c.fail("{} cannot be broadcast to {}. Fix: use [N], [1,N], [M,1] or [M,N].", c.input_text(addend),
               c.output_text());
    }
    return {result};
}

/// Checks that S has a row for each group of `depth` elements that are summed, the last one may be shorter;
/// with zero points two such matrices.
void check_scales(const ShapeCase& c, int64_t depth, int64_t columns) {
    const int64_t size = c.attribute("group_size").integer;
    if (size < 1) c.fail("group_size is {}. Fix: use at least 1.", size);
    const int64_t count = (depth + size - 1) / size;
    const Dims& s = c.in(2);
    const bool zero_points = s.rank == 3 && s[0] == 2;
    const size_t first = zero_points ? 1 : 0;
    if ((s.rank == 2 || zero_points) && s[first] == count && s[first + 1] == columns) return;
    c.fail(
        "{} must be [{},{}], or [2,{},{}] with zero points: {} elements in groups of {}. Fix: change its "
        "shape.",
        c.input_text(2), count, columns, count, columns, depth, size);
}

std::vector<Dims> group_product_shape(const ShapeCase& c) {
    std::vector<Dims> result = product_shape(c);
    if (c.in(0).rank != 2) c.fail("operands are matrices: {}. Fix: reshape the regions.", c.operands_text());
    check_scales(c, c.in(1)[0], c.in(1)[1]);
    return result;
}

/// True for two factors in block formats; sums are f32, and C continues them.
bool block_product_types(const OpcodeSpec& spec, const std::vector<ElemType>& in,
                         const std::vector<ElemType>& out) {
    return in.size() >= 4 && is_block_format(in[0], in[2]) && is_block_format(in[1], in[3]) &&
           out[0] == ElemType::f32 && (in.size() <= spec.addend || in[spec.addend] == ElemType::f32);
}

std::vector<Dims> block_product_shape(const ShapeCase& c) {
    std::vector<Dims> result = product_shape(c);
    if (c.in(0).rank != 2) c.fail("operands are matrices: {}. Fix: reshape the regions.", c.operands_text());
    const int64_t m = c.in(0)[0], k = c.in(0)[1], n = c.in(1)[1];
    const int64_t count = block_count(c, k);
    const Dims &sa = c.in(2), &sb = c.in(3);
    if (sa.rank != 2 || sb.rank != 2 || sa[0] != m || sa[1] != count || sb[0] != count || sb[1] != n) {
        c.fail(
            "SA must be [{},{}] and SB [{},{}], a scale for each block of K: {}. Fix: change their "
            "shape.",
            m, count, count, n, c.operands_text());
    }
    return result;
}

void check_layout(const ShapeCase& c, size_t spatial) {
    const size_t rank = spatial + 2;
    const Dims* declared = c.declared();
    if (c.in(0).rank == rank && c.in(1).rank == rank && (declared == nullptr || declared->rank == rank))
        return;
    constexpr std::string_view layouts[] = {"X (NWC), W (WIO)", "X (NHWC), W (HWIO)", "X (NDHWC), W (DHWIO)"};
    c.fail("{} and Y need {} dimensions: {}. Fix: reshape the regions.", layouts[spatial - 1], rank,
           c.operands_text());
}

void check_channels(const ShapeCase& c, size_t spatial) {
    const Dims &x_shape = c.in(0), &w_shape = c.in(1);
    const size_t last = spatial + 1;
    const int64_t count = conv_groups(c.spec, c.attrs, x_shape[last]);
    if (count < 1 || x_shape[last] % count != 0 || w_shape[last] % count != 0 ||
        w_shape[last - 1] != x_shape[last] / count) {
        c.fail("{} and {} do not fit with groups={}: W is [{},Cin/groups,Cout]. Fix: change W or groups.",
               c.input_text(0), c.input_text(1), count,
               spatial == 1   ? "K"
               : spatial == 2 ? "Kh,Kw"
                              : "Kd,Kh,Kw");
    }
    const int64_t diagonal = c.attrs.integer("blocks", 1);
    if (diagonal < 1 || w_shape[last - 1] % diagonal != 0 || w_shape[last] / count % diagonal != 0)
        c.fail("blocks={} does not divide the {} input and {} output channels of a group. Fix: change it.",
               diagonal, w_shape[last - 1], w_shape[last] / count);
    const Dims* declared = c.declared();
    if (declared != nullptr && ((*declared)[0] != x_shape[0] || (*declared)[last] != w_shape[last])) {
        c.fail("{} must have the batch of X ({}) and the output channels of W ({}). Fix: change its shape.",
               c.output_text(), x_shape[0], w_shape[last]);
    }
}

/// Checks extents: the declared output may be smaller than the windows allow: only its elements are computed.
void check_extents(const ShapeCase& c, const std::vector<int64_t>& positions) {
    for (size_t d = 0; c.declared() != nullptr && d < positions.size(); ++d) {
        const int64_t size = (*c.declared())[d + 1];
        if (size > positions[d]) {
            c.fail("output {} must be {} by pads, strides and window. Fix: change its shape.",
                   c.output_text(), fmt::join(positions, "x"));
        }
        if (size < positions[d]) {
            c.warn(
                fmt::format("output {} is smaller than the derived {}; only the declared extents are "
                            "computed. Fix: declare the derived size.",
                            c.output_text(), fmt::join(positions, "x")));
        }
    }
}

std::vector<Dims> conv_shape(const ShapeCase& c) {
    const size_t spatial = c.spec.window_rank, last = spatial + 1;
    check_layout(c, spatial);
    const Dims &x_shape = c.in(0), &w_shape = c.in(1);
    const std::vector<int64_t>& pad = c.ints("pads", 2 * spatial, 0);
    const std::vector<int64_t>& step = c.ints("strides", spatial, 1);
    const std::vector<int64_t>& dilation = c.ints("dilations", spatial, 1);
    check_channels(c, spatial);
    std::vector<int64_t> positions;
    Dims result = x_shape;
    result[last] = w_shape[last];
    for (size_t d = 0; d < spatial; ++d) {
        const int64_t window = dilation[d] * (w_shape[d] - 1) + 1;
        positions.push_back(window_positions(x_shape[d + 1], pad[d], pad[d + spatial], window, step[d]));
        result[d + 1] = positions.back();
    }
    check_window_fits(c, positions);
    check_extents(c, positions);
    if (c.declared() != nullptr) result = *c.declared();
    if (c.spec.group_scales) check_scales(c, w_shape[last - 1], w_shape[last]);
    const size_t addend_at = c.spec.addend;
    if (c.inputs() <= addend_at) return {result};
    const Dims& bias = c.in(addend_at);
    const bool per_channel = bias.rank == 1 && bias[0] == w_shape[last];
    const bool addend = c.spec.accumulates && bias == result;
    if (!per_channel && !addend) {
        c.fail("{} must be [{}]{}. Fix: change its shape.", c.input_text(addend_at), w_shape[last],
               c.spec.accumulates ? " or the shape of Y" : "");
    }
    return {result};
}

/// Returns the shape of Y, in which the windows of neighbouring elements of X lie `strides` apart, and add up
/// where they overlap.
std::vector<Dims> transposed_conv_shape(const ShapeCase& c) {
    const size_t spatial = c.spec.window_rank, last = spatial + 1;
    check_layout(c, spatial);
    const Dims &x_shape = c.in(0), &w_shape = c.in(1);
    const std::vector<int64_t>& pad = c.ints("pads", 2 * spatial, 0);
    const std::vector<int64_t>& step = c.ints("strides", spatial, 1);
    const std::vector<int64_t>& dilation = c.ints("dilations", spatial, 1);
    const std::vector<int64_t> more = c.ints_or("output_padding", spatial, 0, 0);
    check_channels(c, spatial);
    Dims result = x_shape;
    result[last] = w_shape[last];
    for (size_t d = 0; d < spatial; ++d) {
        if (more[d] >= std::max(step[d], dilation[d])) {
            c.fail("output_padding has {}, strides {} and dilations {}. Fix: use less than one of both.",
                   more[d], step[d], dilation[d]);
        }
        result[d + 1] = (x_shape[d + 1] - 1) * step[d] + dilation[d] * (w_shape[d] - 1) + 1 + more[d] -
                        pad[d] - pad[d + spatial];
        if (result[d + 1] < 1) c.fail("nothing of Y is left by pads. Fix: use less padding.");
    }
    if (c.declared() != nullptr && !(*c.declared() == result)) {
        c.fail("output {} must be {} by pads, strides and window. Fix: change its shape.", c.output_text(),
               shape_text(result));
    }
    if (c.inputs() == 3 && (c.in(2).rank != 1 || c.in(2)[0] != w_shape[last]))
        c.fail("{} must be [{}]. Fix: change its shape.", c.input_text(2), w_shape[last]);
    return {result};
}

uint64_t product_macs(const Dims& first, const Dims&, uint64_t results, const BoundAttrs&) {
    return first.rank < 2 ? 0 : results * static_cast<uint64_t>(first[first.rank - 1u]);
}

/// Counts MACs: W holds a window and input channels for each output channel, the last dimension.
uint64_t conv_macs(const Dims&, const Dims& second, uint64_t results, const BoundAttrs& attrs) {
    if (second.rank < 2) return 0;
    for (size_t d = 0; d + 1 < second.rank; ++d) results *= static_cast<uint64_t>(second[d]);
    return results / static_cast<uint64_t>(std::max<int64_t>(1, attrs.integer("blocks", 1)));
}

/// Counts each element of X with the whole window, results that pads drop included.
uint64_t transposed_conv_macs(const Dims& first, const Dims& second, uint64_t, const BoundAttrs&) {
    if (first.rank < 2) return 0;
    return static_cast<uint64_t>(first.product() / first[first.rank - 1u] * second.product());
}

OpcodeSpec product(std::string_view name, std::vector<OperandSpec> inputs, std::string_view formula) {
    OpcodeSpec row;
    row.name = row.family = name;
    row.inputs = std::move(inputs);
    row.outputs = {y};
    row.formula = formula;
    row.op_class = OpcodeClass::gemm;
    row.attributes = {accum};
    row.types = product_types;
    row.shapes = product_shape;
    row.unit = UnitKind::nmu;
    row.macs = product_macs;
    row.energy = on_array;
    row.traits.needs = Needs::matrix;
    row.traits.grouping = Grouping::anchor;
    row.traits.strips = true;
    row.traits.sums_form = "gemm.acc";
    row.traits.group_form = "gemm.group";
    return row;
}

OpcodeSpec convolution(std::string_view name, uint8_t window_rank, std::vector<AttrSpec> attributes,
                       std::string_view formula) {
    OpcodeSpec row = product(name, {x, w, opt_b}, formula);
    row.op_class = OpcodeClass::conv;
    row.attributes = std::move(attributes);
    row.window_rank = window_rank;
    row.shapes = conv_shape;
    row.macs = conv_macs;
    row.traits.needs = Needs::window;
    row.traits.sums_form = row.traits.group_form = "";
    return row;
}

/// Returns the form whose output is the accumulator: C continues in order, and may be the output's region.
OpcodeSpec accumulating(OpcodeSpec row) {
    row.inputs[2] = opt_c;
    row.attributes.back() = accum_of_y;
    row.accumulates = row.in_place_allowed = true;
    return row;
}

/// Returns the accumulating form with a scale for each group of K and output channel, in a third operand.
OpcodeSpec with_group_scales(OpcodeSpec row) {
    row.inputs = {row.inputs[0], row.inputs[1], {"S"}, opt_c};
    row.attributes.back() = {"group_size", AttrKind::integer, true, "", "elements of K with one scale"};
    row.types = group_product_types;
    row.addend = 3;
    row.accumulates = row.in_place_allowed = row.group_scales = true;
    return row;
}

/// Returns the accumulating form with scales for blocks of K in both factors: the block formats.
OpcodeSpec with_block_scales(OpcodeSpec row) {
    row.inputs = {row.inputs[0], row.inputs[1], {"SA"}, {"SB"}, opt_c};
    row.attributes = {block_size};
    row.types = block_product_types;
    row.shapes = block_product_shape;
    row.addend = 4;
    row.accumulates = row.in_place_allowed = row.block_scales = true;
    return row;
}

OpcodeSpec future(OpcodeSpec row) {
    row.future = true;
    return row;
}

}  // namespace

void add_products(Table& t) {
    t.push_back(
        product("gemm", {a, b, opt_c}, "Y[m,n] = sum_k A[m,k] * B[k,n] + C[m,n]; C broadcastable to Y"));
    t.push_back(product("matmul", {a, b}, "Y[m,n] = sum_k A[m,k] * B[k,n]"));
    t.back().family = "gemm";
    t.push_back(accumulating(product(
        "gemm.acc", {a, b, opt_c},
        "Y = C + sum_k A[m,k] * B[k,n] continued in order; Y and C of the accumulator type; C may be Y")));
    t.push_back(convolution("conv2d", 2, {pads, strides, dilations, groups, blocks, accum},
                            "Y[n,y,x,o] = sum_{kh,kw,c} X[n, y*s+kh*d-p, x*s+kw*d-p, c] * W[kh,kw,c,o] + "
                            "B[o]; X NHWC, W HWIO"));
    t.back().traits.sums_form = "conv2d.acc";
    t.back().traits.group_form = "conv2d.group";
    t.push_back(accumulating(convolution("conv2d.acc", 2, {pads, strides, dilations, groups, blocks, accum},
                                         "Y = C + conv2d(X, W) continued in order; C has the shape of Y (may "
                                         "be Y) or [Cout]")));
    t.push_back(with_group_scales(product(
        "gemm.group", {a, b},
        "Y = C, then for each group g of group_size k's: Y = Y + (sum_k A[m,k] * B[k,n]) * scale(A) * "
        "S[g,n]; A, B integers, S [K/group_size,N] f16 or f32, or [2,...] with zero points of B; Y, C f32; "
        "C may be Y")));
    t.back().shapes = group_product_shape;
    t.push_back(with_block_scales(product(
        "gemm.mx", {a, b},
        "Y = C, then for each block b of block_size k's: Y = Y + (sum_k A[m,k] * B[k,n]) * scale(SA[m,b]) * "
        "scale(SB[b,n]); A, B floats of 8 bits or fewer, or i8 in steps of 1/64; S in u8 are exponents "
        "(E8M0: "
        "2^(S - 127), 255 is NaN), of f4e2m1 also f8e4m3; Y, C f32; C may be Y")));
    t.push_back(with_group_scales(convolution(
        "conv2d.group", 2, {pads, strides, dilations, accum},
        "Y = C + conv2d(X, W) with a scale for each group of group_size input channels, as "
        "gemm.group; W [Kh,Kw,Cin,Cout], S [Cin/group_size,Cout]; C has the shape of Y or [Cout]")));
    const AttrSpec pads1{"pads", AttrKind::ints, true, "", "[left, right]"};
    const AttrSpec strides1{"strides", AttrKind::ints, true, "", "[step]"};
    const AttrSpec dilations1{"dilations", AttrKind::ints, true, "", "[step]"};
    t.push_back(
        future(convolution("conv1d", 1, {pads1, strides1, dilations1, groups, blocks, accum},
                           "Y[n,x,o] = sum_{k,c} X[n, x*s+k*d-p, c] * W[k,c,o] + B[o]; X NWC, W WIO")));
    const AttrSpec pads3{"pads", AttrKind::ints, true, "", "[front, top, left, back, bottom, right]"};
    const AttrSpec strides3{"strides", AttrKind::ints, true, "", "[depth, vertical, horizontal]"};
    const AttrSpec dilations3{"dilations", AttrKind::ints, true, "", "[depth, vertical, horizontal]"};
    t.push_back(future(convolution("conv3d", 3, {pads3, strides3, dilations3, groups, blocks, accum},
                                   "Y[n,z,y,x,o] = sum_{kd,kh,kw,c} X[n, z*s+kd*d-p, y*s+kh*d-p, x*s+kw*d-p, "
                                   "c] * W[kd,kh,kw,c,o] + B[o]; X NDHWC, W DHWIO")));
    t.push_back(
        future(convolution("depthwise_conv2d", 2, {pads, strides, dilations, accum},
                           "conv2d with groups = Cin; X NHWC, W [Kh,Kw,1,Cout], Cout a multiple of Cin")));
    t.back().depthwise = true;
    const AttrSpec output_padding{
        "output_padding", AttrKind::ints, false, "",
        "[vertical, horizontal]: rows and columns added at the end; may be left out"};
    t.push_back(
        future(convolution("conv_transpose2d", 2, {pads, strides, dilations, output_padding, groups, accum},
                           "Y[n,y*s+kh*d-p,x*s+kw*d-p,o] = sum of X[n,y,x,c] * W[kh,kw,c,o], + B[o]; "
                           "X NHWC, W [Kh,Kw,Cin/groups,Cout]")));
    t.back().transposed = true;
    t.back().shapes = transposed_conv_shape;
    t.back().macs = transposed_conv_macs;
}

}  // namespace kpu::opcodes
