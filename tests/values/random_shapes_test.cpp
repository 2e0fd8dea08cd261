// Fast engine against reference, bit for bit: every opcode on every combination of types, random shapes and numbers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "isa/shapes.hpp"
#include "tests/values/helpers.hpp"
#include "tests/values/type_combinations.hpp"
#include "values/fast/fast.hpp"

namespace kpu::values {
namespace {

using testing::combinations;
using testing::integer_attr;
using testing::ints_attr;
using testing::Operand;
using testing::per_tensor;
using testing::pick;
using testing::Random;
using testing::random_quant;
using testing::real_attr;
using testing::Types;

using Shape = std::vector<int64_t>;
struct Case {
    std::vector<Operand> in, out;
    BoundAttrs attrs;
};

class Maker {
  public:
    explicit Maker(uint64_t seed) : random_(seed) {}

    Case make(OpcodeId id, const Types& types) {
        const OpcodeSpec& spec = opcode(id);
        Case made;
        switch (spec.op_class) {
            case OpcodeClass::gemm:
                spec.name == "gemm.mx" ? make_block_gemm(types, made) : make_gemm(spec, types, made);
                break;
            case OpcodeClass::conv:
                make_conv(spec, types, made);
                break;
            case OpcodeClass::elementwise:
                make_pointwise(spec, types, made);
                break;
            case OpcodeClass::convert:
                types.size() > 2 ? make_block_conversion(spec, types, made)
                                 : make_pointwise(spec, types, made);
                break;
            case OpcodeClass::pooling:
                spec.name == "resize" ? make_resize(spec, types, made) : make_pool(spec, types, made);
                break;
            case OpcodeClass::norm:
            case OpcodeClass::softmax:
                spec.name == "group_norm" ? make_group_norm(types, made) : make_norm(spec, types, made);
                break;
            case OpcodeClass::view:
            case OpcodeClass::reduction:
                make_view(spec, types, made);
                break;
        }
        for (Operand& operand : made.in) {
            if (!keep_values_) testing::fill(random_, operand, coin(2));
        }
        if (keep_values_) testing::fill(random_, made.in[0], coin(2));
        keep_values_ = false;
        return made;
    }

  private:
    bool coin(int64_t sides) { return pick(random_, 1, sides) == 1; }
    int64_t size(int64_t most = 9) { return coin(12) ? pick(random_, 10, 70) : pick(random_, 1, most); }
    Shape shape(int64_t least, int64_t most, int64_t extent = 7) {
        Shape result;
        for (int64_t rank = pick(random_, least, most); rank > 0; --rank) result.push_back(size(extent));
        return result;
    }
    Shape list(size_t count, int64_t low, int64_t high) {
        Shape result;
        for (size_t i = 0; i < count; ++i) result.push_back(pick(random_, low, high));
        return result;
    }

    /// Returns a quantisation per tensor, or along `axis` per channel or per group.
    BoundQuant quant(const Operand& operand, int axis) {
        const int64_t kind = axis < 0 ? 0 : pick(random_, 0, 2);
        BoundQuant q = random_quant(random_, operand, kind == 0 ? -1 : axis, coin(2));
        if (kind < 2) return q;
        q.kind = proto::Quant::PER_GROUP;
        q.group_size = pick(random_, 1, 9);
        const auto groups =
            static_cast<size_t>((static_cast<int64_t>(q.scales.size()) + q.group_size - 1) / q.group_size);
        q.scales.resize(groups);
        q.zero_points.resize(groups);
        return q;
    }
    int any_axis(const Operand& operand) {
        return static_cast<int>(pick(random_, -1, operand.shape.rank - 1));
    }

    /// Quantisation of a product's operands; `depth`: the axis of B that is summed over.
    void quantise(Case& made, int depth) {
        if (!is_integer(made.in[0].type) || coin(3)) return;
        const bool raw = made.out[0].type == ElemType::i32;
        const int last = made.in[1].shape.rank - 1;
        const bool along_depth = !raw && coin(3);
        made.in[0].quant = quant(made.in[0], -1);
        made.in[1].quant = quant(made.in[1], along_depth ? depth : coin(2) ? last : -1);
        const bool grouped = made.in[1].quant.kind != proto::Quant::PER_TENSOR && along_depth;
        if (!raw)
            made.out[0].quant = quant(made.out[0], !grouped && coin(3) ? made.out[0].shape.rank - 1 : -1);
        if (grouped && made.in.size() > 2) made.in[2].quant = per_tensor(1e-7, 0);
    }

    /// Adds a bias or the addend of an accumulation, of the type that goes with the operands.
    void add_addend(Case& made, bool accumulates, const std::vector<Shape>& shapes) {
        if (coin(2)) return;
        const ElemType y = made.out[0].type;
        const ElemType type = is_float(made.in[0].type) || made.in.size() > 2 ? y : ElemType::i32;
        made.in.emplace_back(accumulates ? y : type, shapes[random_() % shapes.size()]);
    }

    /// Adds scales of groups of random size, with zero points or without.
    void add_group_scales(const OpcodeSpec& spec, const Types& types, int64_t depth, int64_t columns,
                          Case& made) {
        if (!spec.group_scales) return;
        const int64_t group = pick(random_, 1, depth + 2), rows = (depth + group - 1) / group;
        made.in.emplace_back(types[2], coin(2) ? Shape{rows, columns} : Shape{2, rows, columns});
        made.attrs.list.push_back(integer_attr("group_size", group));
        if (coin(2)) made.in[0].quant = quant(made.in[0], -1);
    }

    void make_gemm(const OpcodeSpec& spec, const Types& types, Case& made) {
        const Shape batch = !spec.group_scales && coin(3) ? shape(1, 2, 3) : Shape{};
        const int64_t m = size(), n = coin(4) ? pick(random_, 14, 40) : size(), k = size(40);
        const auto with = [&](int64_t rows, int64_t columns) {
            Shape result = batch;
            result.insert(result.end(), {rows, columns});
            return result;
        };
        made.in = {{types[0], with(m, k)}, {types[1], with(k, n)}};
        made.out = {{types.back(), with(m, n)}};
        add_group_scales(spec, types, k, n, made);
        const bool accumulates = spec.accumulates;
        if (spec.inputs.size() > 2)
            add_addend(made, accumulates,
                       accumulates ? std::vector<Shape>{with(m, n)}
                                   : std::vector<Shape>{{n}, {1, n}, {m, 1}, {m, n}, with(m, n)});
        if (!spec.group_scales) quantise(made, made.in[1].shape.rank - 2);
    }

    void make_block_gemm(const Types& types, Case& made) {
        const int64_t m = size(), n = size(), k = pick(random_, 1, 80);
        const int64_t block = coin(2) ? 32 : pick(random_, 1, 40), count = (k + block - 1) / block;
        made.in = {{types[0], {m, k}}, {types[1], {k, n}}, {types[2], {m, count}}, {types[3], {count, n}}};
        made.out = {{types[4], {m, n}}};
        if (coin(2)) made.in.emplace_back(types[4], coin(2) ? Shape{n} : Shape{m, n});
        if (block != 32 || coin(2)) made.attrs.list.push_back(integer_attr("block_size", block));
    }

    /// Converts to blocks along a random dimension, or back.
    void make_block_conversion(const OpcodeSpec& spec, const Types& types, Case& made) {
        const Shape all = shape(1, 4);
        const int64_t rank = static_cast<int64_t>(all.size()), axis = pick(random_, -rank, rank - 1);
        const int64_t block = pick(random_, 1, 7);
        Shape blocks = all;
        int64_t& extent = blocks[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
        extent = (extent + block - 1) / block, made.in = {{types[0], all}};
        if (spec.inputs.size() == 2) {
            made.in.emplace_back(types[1], blocks);
            made.out = {{types[2], all}};
        } else {
            made.out = {{types[1], all}, {types[2], blocks}};
        }
        made.attrs.list = {integer_attr("axis", axis), integer_attr("block_size", block)};
    }

    void make_conv(const OpcodeSpec& spec, const Types& types, Case& made) {
        const size_t dims = spec.name == "conv1d" ? 1 : spec.name == "conv3d" ? 3 : 2;
        const bool depthwise = spec.name == "depthwise_conv2d";
        const Shape pads = list(2 * dims, 0, 2), strides = list(dims, 1, 3), dilations = list(dims, 1, 2);
        const int64_t groups = spec.group_scales ? 1 : depthwise ? size(6) : pick(random_, 1, 3);
        const int64_t group_in = depthwise ? 1 : pick(random_, 1, 6);
        const int64_t outputs = groups * (coin(3) ? pick(random_, 8, 33) : pick(random_, 1, 4));
        Shape x = {pick(random_, 1, 2)}, w, y = x;
        for (size_t d = 0; d < dims; ++d) {
            const int64_t kernel = pick(random_, 1, 3), reach = dilations[d] * (kernel - 1) + 1;
            x.push_back(reach + pick(random_, 0, dims == 3 ? 3 : 7));
            w.push_back(kernel);
            y.push_back((x.back() + pads[d] + pads[d + dims] - reach) / strides[d] + 1);
        }
        x.push_back(groups * group_in);
        w.insert(w.end(), {group_in, outputs});
        y.push_back(outputs);
        if (spec.transposed) return make_transposed(spec, types, x, w, strides, dilations, groups, made);
        made.in = {{types[0], x}, {types[1], w}};
        made.out = {{types.back(), y}};
        add_group_scales(spec, types, group_in, outputs, made);
        const bool accumulates = spec.accumulates;
        add_addend(made, accumulates,
                   accumulates ? std::vector<Shape>{{outputs}, y} : std::vector<Shape>{{outputs}});
        made.attrs.list.push_back(ints_attr("pads", pads));
        made.attrs.list.push_back(ints_attr("strides", strides));
        made.attrs.list.push_back(ints_attr("dilations", dilations));
        if (!depthwise && !spec.group_scales) made.attrs.list.push_back(integer_attr("groups", groups));
        if (!spec.group_scales) quantise(made, static_cast<int>(dims));
    }

    void make_transposed(const OpcodeSpec& spec, const Types& types, const Shape& x, const Shape& w,
                         const Shape& strides, const Shape& dilations, int64_t groups, Case& made) {
        Shape pads(4), more;
        for (size_t d = 0; d < 2; ++d) {
            const int64_t most = dilations[d] * (w[d] - 1) / 2;
            pads[d] = pick(random_, 0, most);
            pads[d + 2] = pick(random_, 0, most);
            more.push_back(pick(random_, 0, std::max(strides[d], dilations[d]) - 1));
        }
        made.in = {{types[0], x}, {types[1], w}};
        made.attrs.list = {ints_attr("pads", pads), ints_attr("strides", strides),
                           ints_attr("dilations", dilations), integer_attr("groups", groups)};
        if (coin(2)) made.attrs.list.push_back(ints_attr("output_padding", more));
        add_outputs(spec, types.back(), made);
        add_addend(made, false, {{w.back()}});
        quantise(made, 2);
    }

    /// Adds outputs of the shapes that the rule gives.
    void add_outputs(const OpcodeSpec& spec, ElemType type, Case& made) {
        std::vector<TypedShape> shapes;
        for (const Operand& operand : made.in) shapes.push_back({operand.type, operand.shape});
        for (const Dims& y : infer_shapes(spec, shapes, made.attrs))
            made.out.emplace_back(type, Shape(y.begin(), y.end()));
    }

    void make_pointwise(const OpcodeSpec& spec, const Types& types, Case& made) {
        const Shape all = shape(1, 4);
        for (size_t i = 0; i + 1 < types.size(); ++i) made.in.emplace_back(types[i], all);
        made.out = {{types.back(), all}};
        made.attrs.list = {real_attr("alpha", 0.1), real_attr("beta", 0.25), real_attr("min_val", -1.5),
                           real_attr("max_val", 2.25)};
        if (coin(2)) made.attrs.list.clear();  // the defaults
        for (const AttrSpec& attr : spec.attributes) {
            if (attr.required && made.attrs.find(attr.name) == nullptr)
                made.attrs.list.push_back(real_attr(std::string(attr.name), 0.5));
        }
        const bool elementwise = spec.op_class == OpcodeClass::elementwise;
        const bool both = elementwise ? spec.integers_need_quant || coin(2) : spec.name == "requant";
        const auto quantise_data = [&](Operand& operand, const OperandSpec& as) {
            if (is_integer(operand.type) && as.role == OperandRole::data)
                operand.quant = quant(operand, any_axis(operand));
        };
        for (size_t i = 0; i < made.in.size() && (both || spec.name == "dequantize"); ++i)
            quantise_data(made.in[i], spec.inputs[i]);
        if (both || spec.name == "quantize") quantise_data(made.out[0], spec.outputs[0]);
    }

    void make_pool(const OpcodeSpec& spec, const Types& types, Case& made) {
        const auto dims = static_cast<size_t>(pick(random_, 1, 3));
        const Shape kernel = list(dims, 1, 3), strides = list(dims, 1, 3);
        const bool options = coin(2);
        const Shape dilations = options ? list(dims, 1, 3) : Shape(dims, 1);
        Shape pads, x = {pick(random_, 1, 2)};
        for (size_t d = 0; d < 2 * dims; ++d)
            pads.push_back(pick(random_, 0, dilations[d % dims] * (kernel[d % dims] - 1)));
        for (size_t d = 0; d < dims; ++d)
            x.push_back(dilations[d] * (kernel[d] - 1) + 1 + pick(random_, 0, dims == 3 ? 2 : 6));
        x.push_back(size(20));
        made.in = {{types[0], x}};
        made.attrs.list = {ints_attr("kernel_shape", kernel), ints_attr("pads", pads),
                           ints_attr("strides", strides)};
        if (options) {
            made.attrs.list.push_back(ints_attr("dilations", dilations));
            made.attrs.list.push_back(integer_attr("ceil_mode", pick(random_, 0, 1)));
            made.attrs.list.push_back(integer_attr("count_include_pad", pick(random_, 0, 1)));
        }
        add_outputs(spec, types[1], made);
        quantise_both(made);
    }

    void make_resize(const OpcodeSpec& spec, const Types& types, Case& made) {
        const auto any_of = [&](const char* name, const std::vector<const char*>& words) {
            BoundAttr attr;
            attr.name = name;
            attr.text = words[random_() % words.size()];
            return attr;
        };
        const Shape x = shape(1, 4, 5);
        Shape sizes;
        for (const int64_t size : x) sizes.push_back(coin(3) ? size : pick(random_, 1, 2 * size));
        made.in = {{types[0], x}};
        made.attrs.list = {
            ints_attr("sizes", sizes), any_of("mode", {"nearest", "linear"}),
            any_of("coordinates", {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel",
                                   "half_pixel_symmetric"}),
            any_of("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})};
        add_outputs(spec, types[1], made);
        quantise_both(made);
    }

    void quantise_both(Case& made) {
        if (!is_integer(made.in[0].type) || coin(2)) return;
        made.in[0].quant = quant(made.in[0], any_axis(made.in[0]));
        for (Operand& operand : made.out) operand.quant = quant(operand, any_axis(operand));
    }

    void make_norm(const OpcodeSpec& spec, const Types& types, Case& made) {
        const Shape all = shape(1, 4);
        const int64_t rank = static_cast<int64_t>(all.size()), axis = pick(random_, -rank, rank - 1);
        made.in = {{types[0], all}};
        made.out = {{types[1], all}};
        for (int64_t more = pick(random_, 0, static_cast<int64_t>(spec.inputs.size()) - 1); more > 0; --more)
            made.in.emplace_back(types[0], Shape{all[static_cast<size_t>(axis < 0 ? axis + rank : axis)]});
        made.attrs.list = {integer_attr("axis", axis), real_attr("epsilon", 1e-5)};
    }

    void make_group_norm(const Types& types, Case& made) {
        const int64_t groups = pick(random_, 1, 4);
        Shape all = shape(1, 3);
        all.push_back(groups * pick(random_, 1, 5));
        made.in = {{types[0], all}};
        made.out = {{types[1], all}};
        for (int64_t more = pick(random_, 0, 2); more > 0; --more)
            made.in.emplace_back(types[0], Shape{all.back()});
        made.attrs.list = {integer_attr("groups", groups), real_attr("epsilon", 1e-5)};
    }

    /// Views and reductions: random attributes, then the shapes that follow from them.
    void make_view(const OpcodeSpec& spec, const Types& types, Case& made) {
        const Shape x = shape(1, 4, 5);
        const int64_t rank = static_cast<int64_t>(x.size()), axis = pick(random_, -rank, rank - 1);
        const auto at = static_cast<size_t>(axis < 0 ? axis + rank : axis);
        made.in = {{types[0], x}};
        std::vector<BoundAttr>& attrs = made.attrs.list;
        attrs = {integer_attr("axis", axis), integer_attr("keepdims", pick(random_, 0, 1))};
        if (spec.name == "transpose") {
            Shape perm(x.size());
            std::iota(perm.begin(), perm.end(), 0);
            std::shuffle(perm.begin(), perm.end(), random_);
            attrs = {ints_attr("perm", perm)};
        } else if (spec.name == "reshape") {
            attrs = {ints_attr("target_shape", coin(2) ? Shape{-1} : Shape{-1, x.back()})};
        } else if (spec.name == "slice" || spec.name == "pad") {
            spec.name == "slice" ? add_slices(x, attrs) : add_pads(x, attrs);
        } else if (spec.name == "concat" || spec.name == "choose") {
            const int64_t more = pick(random_, 0, 2);
            for (int64_t i = 0; i < more; ++i) {
                Shape other = x;
                if (spec.name == "concat") other[at] = size(5);
                made.in.emplace_back(types[0], other);
            }
            if (spec.name == "choose") attrs = {integer_attr("index", pick(random_, 0, more))};
        } else if (spec.name == "insert_rows") {
            Shape rows = x;
            attrs.push_back(integer_attr("start", x[at] - (rows[at] = pick(random_, 1, x[at]))));
            made.in.emplace_back(types[0], rows);
        } else if (spec.name == "split") {
            Shape sizes;
            for (int64_t left = x[at]; left > 0; left -= sizes.back())
                sizes.push_back(pick(random_, 1, left));
            attrs.push_back(ints_attr("split_sizes", sizes));
        } else if (spec.name == "gather") {
            add_indices(types[1], shape(1, 2, 5), x[at], made);
        } else if (spec.name == "gather_elements") {
            Shape some = x;
            for (int64_t d = 0; d < rank; ++d) {
                const auto dimension = static_cast<size_t>(d);
                some[dimension] = pick(random_, 1, dimension == at ? 9 : x[dimension]);
            }
            add_indices(types[1], some, x[at], made);
        } else if (spec.name == "depth_to_space" || spec.name == "space_to_depth") {
            const bool deep = spec.name == "depth_to_space";
            const int64_t block = pick(random_, 1, 3), wide = deep ? 1 : block,
                          channels = deep ? block * block : 1;
            const Shape blocks = {pick(random_, 1, 2), wide * size(4), wide * size(4), channels * size(4)};
            made.in = {{types[0], blocks}};
            BoundAttr mode;
            mode.name = "mode";
            mode.text = coin(2) ? "DCR" : "CRD";
            attrs = {integer_attr("block", block), mode};
        } else if (spec.op_class == OpcodeClass::reduction) {
            Shape axes;
            for (int64_t d = 0; d < rank; ++d) {
                if (coin(2)) axes.push_back(coin(2) ? d : d - rank);
            }
            attrs.push_back(ints_attr("axes", axes.empty() ? Shape{axis} : axes));
        }
        attrs.push_back(integer_attr("select_last_index", pick(random_, 0, 1)));
        attrs.push_back(integer_attr("exclusive", pick(random_, 0, 1)));
        attrs.push_back(integer_attr("reverse", pick(random_, 0, 1)));
        add_outputs(spec, types.back(), made);
        if (spec.op_class == OpcodeClass::reduction) {
            if (types[0] == types.back() && spec.name.substr(0, 3) != "arg") quantise_both(made);
        } else if (is_integer(types[0]) && coin(2)) {  // a view gives its elements the same meaning
            const BoundQuant same = quant(made.in[0], -1);
            for (Operand& operand : made.out) operand.quant = same;
            for (size_t i = 0; i < made.in.size(); ++i) {
                if (operand_spec(spec.inputs, i).role == OperandRole::data) made.in[i].quant = same;
            }
        }
    }

    /// Adds a second input of positions along a dimension of X, negative ones among them.
    void add_indices(ElemType type, const Shape& shape, int64_t extent, Case& made) {
        made.in.emplace_back(type, shape);
        Operand& indices = made.in.back();
        const int64_t last = std::min<int64_t>(extent - 1, range_of(type).high);
        for (uint64_t i = 0; i < indices.tensor().elements(); ++i)
            store_saturated(type, indices.data(), static_cast<int64_t>(i),
                            pick(random_, range_of(type).low < 0 ? -extent : 0, last));
        keep_values_ = true;
    }

    void add_slices(const Shape& x, std::vector<BoundAttr>& attrs) {
        Shape starts, ends, axes, steps;
        for (size_t d = 0; d < x.size(); ++d) {
            if (d > 0 && coin(3)) continue;
            const int64_t a = pick(random_, 0, x[d] - 1), b = pick(random_, 0, x[d] - 1);
            const bool backwards = coin(3);
            axes.push_back(static_cast<int64_t>(d) - (coin(3) ? static_cast<int64_t>(x.size()) : 0));
            starts.push_back(backwards ? std::max(a, b) : std::min(a, b) - (coin(3) ? x[d] : 0));
            ends.push_back(backwards ? std::min(a, b) - x[d] - 1 : std::max(a, b) + 1);
            steps.push_back(pick(random_, 1, 3) * (backwards ? -1 : 1));
        }
        attrs = {ints_attr("starts", starts), ints_attr("ends", ends), ints_attr("axes", axes),
                 ints_attr("steps", steps)};
    }

    void add_pads(const Shape& x, std::vector<BoundAttr>& attrs) {
        constexpr const char* modes[] = {"constant", "edge", "reflect"};
        BoundAttr mode;
        mode.name = "mode";
        mode.text = modes[random_() % 3];
        Shape pads;
        for (size_t i = 0; i < 2 * x.size(); ++i)
            pads.push_back(
                pick(random_, 0, mode.text == "reflect" ? std::min<int64_t>(x[i % x.size()] - 1, 3) : 3));
        attrs = {ints_attr("pads", pads), mode, real_attr("constant_value", 2)};
    }

    Random random_;
    bool keep_values_ = false;  ///< applies to all inputs but the first
};

std::string text_of(Case& made) {
    std::string text;
    for (Operand& operand : made.in) text += describe(operand.tensor()) + " ";
    text += "->";
    for (Operand& operand : made.out) text += " " + describe(operand.tensor());
    for (const BoundAttr& attr : made.attrs.list)
        text += fmt::format(" {}={}{}{}", attr.name, attr.integer, attr.ints.empty() ? "" : ":",
                            fmt::join(attr.ints, ","));
    return text;
}

/// Returns the bytes of the outputs, and how many of them left the range of their type.
std::vector<uint8_t> run(ComputeBackend& backend, OpcodeId id, Case& made) {
    std::vector<Tensor> in, out;
    Beyond beyond;
    for (Operand& operand : made.in) in.push_back(operand.tensor());
    for (Operand& operand : made.out) {
        std::fill(operand.storage.begin(), operand.storage.end(), 0x5a5a5a5aU);
        out.push_back(operand.tensor());
        out.back().beyond = &beyond;
    }
    backend.execute(id, in, out, made.attrs);
    std::vector<uint8_t> bytes;
    for (Operand& operand : made.out) {
        const auto part = operand.get<uint8_t>();
        bytes.insert(bytes.end(), part.begin(), part.end());
    }
    for (const uint64_t count : {beyond.below, beyond.above}) bytes.push_back(static_cast<uint8_t>(count));
    return bytes;
}

std::vector<OpcodeId> executable() {
    std::vector<OpcodeId> ids;
    for (size_t i = 0; i < opcode_table().size(); ++i) {
        if (!opcode_table()[i].movement && !opcode_table()[i].refused)
            ids.push_back(static_cast<OpcodeId>(i));
    }
    return ids;
}

class RandomShapes : public ::testing::TestWithParam<OpcodeId> {};
INSTANTIATE_TEST_SUITE_P(Opcodes, RandomShapes, ::testing::ValuesIn(executable()), [](const auto& test) {
    std::string name(opcode(test.param).name);
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
});

TEST_P(RandomShapes, FastIsReference) {
    const OpcodeId id = GetParam();
    const auto reference = make_reference_backend();
    const fast::KernelList kernels = fast::usable_kernels();
    const std::vector<Types> types = combinations(*reference, id);
    ASSERT_FALSE(types.empty());
    Maker maker(1000 + id);
    const int rounds = types.size() > 20 ? 8 : 25;
    for (const Types& combination : types) {
        for (int round = 0; round < rounds; ++round) {
            Case made = maker.make(id, combination);
            try {
                const std::vector<uint8_t> expected = run(*reference, id, made);
                for (int k = 0; k < kernels.count; ++k) {
                    ASSERT_EQ(run(*fast::make_backend(*kernels.items[k]), id, made), expected)
                        << text_of(made) << " with " << kernels.items[k]->name;
                }
            } catch (const UserError& error) {
                FAIL() << error.what() << "\n" << text_of(made);
            }
        }
    }
}

}  // namespace
}  // namespace kpu::values
