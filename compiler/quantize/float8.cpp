#include "compiler/quantize/float8.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/graph/data.hpp"
#include "compiler/graph/supports.hpp"
#include "compiler/quantize/rewrite_products.hpp"
#include "values/scalar.hpp"
#include "values/small_float.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

double as_f32(double number) { return static_cast<double>(static_cast<float>(number)); }

class Float8 : ProductRewriter {
  public:
    Float8(Graph& graph, const NamedRanges& ranges, ElemType elem, const graph::Supports& supports)
        : ProductRewriter(graph),
          ranges_(ranges),
          elem_(elem),
          greatest_(static_cast<double>(
              values::small_float_numbers(elem)[values::small_float_format(elem).greatest])),
          supports_(supports),
          views_(graph.values.size(), none) {
        for (const Node& node : graph.nodes) {
            if (node.spec().traits.reorders || node.spec().name == "cast")
                views_[node.outputs[0]] = node.inputs[0];
        }
    }

    std::vector<std::string> run() {
        return rewrite_all([this](const Node& node) { return why_not(node); },
                           [this](const Node& node) { rewrite(node); });
    }

  private:
    static constexpr ValueId none = UINT32_MAX;

    /// A factor in float8, and what its numbers are to be multiplied by: one scale, or one for each index of the last dimension.
    struct Factor {
        ValueId id = 0;
        std::vector<double> scales;
    };

    Range range_of(ValueId id) const {
        while (true) {
            const Value& of = graph_.value(id);
            if (of.constant()) return quantize::range_of(of.elem, of.data.bytes, of.elements());
            if (const auto known = ranges_.find(of.name); known != ranges_.end()) return known->second;
            if (views_[id] == none) return {};
            id = views_[id];
        }
    }

    std::string_view why_not(const Node& node) {
        const std::string_view form = node.spec().traits.sums_form;
        if (form.empty() || !graph::is_supported(supports_, form, {elem_, elem_}, {ElemType::f32}) ||
            !graph::is_supported(supports_, "cast", {value(node.inputs[0]).elem}, {elem_}))
            return "the device has no float8 form of it";
        if (!graph::is_supported(supports_, "mul", {ElemType::f32, ElemType::f32}, {ElemType::f32}))
            return "the device cannot scale its f32 sums";
        for (size_t i = 0; i < 2; ++i) {
            const Range range = range_of(node.inputs[i]);
            if (!range.known || !range.all_finite) return "its numbers have no finite range on the samples";
        }
        return "";
    }

    void rewrite(const Node& node) {
        const Factor x = value(node.inputs[0]).constant() ? constant_factor(node.inputs[0], false)
                                                          : computed_factor(node.inputs[0]);
        const Factor w = value(node.inputs[1]).constant() ? constant_factor(node.inputs[1], true)
                                                          : computed_factor(node.inputs[1]);
        source_ = node.source;
        std::vector<double> scales = w.scales;
        for (double& scale : scales) scale = as_f32(scale * x.scales[0]);
        std::vector<ValueId> operands{x.id, w.id};
        if (node.inputs.size() > 2) operands.push_back(scaled_addend(node.inputs[2], scales));
        const ValueId sums =
            add(node.spec().traits.sums_form, std::move(operands), node.attrs, ElemType::f32);
        const ValueId scaled =
            add("mul", {sums, numbers(ElemType::f32, scales, value(node.inputs[1]).name + "_scale")}, {},
                ElemType::f32);
        finish(node, scaled);
    }

    /// The inverse of the scale is a number of the activations' type, by which they are multiplied there.
    Factor computed_factor(ValueId id) {
        const auto known = computed_.find(id);
        if (known != computed_.end()) return known->second;
        const ElemType real = value(id).elem;
        source_ = {value(id).name + "/to_float8", "Cast"};  // several products may read it
        const Range range = range_of(id);
        const double size = std::max(std::fabs(range.low), std::fabs(range.high));
        const double wanted = size > 0 ? std::clamp(greatest_ / headroom() / size, 0x1p-14, 0x1p15) : 1;
        std::vector<uint8_t> bytes(8);
        values::store_float(real, bytes.data(), 0, wanted);
        const auto inverse = static_cast<double>(values::load_float(real, bytes.data(), 0));
        ValueId scaled = id;
        if (inverse != 1)
            scaled = add("mul", {id, numbers(real, {inverse}, value(id).name + "_inverse")}, {}, real);
        const Factor factor{add("cast", {scaled}, {}, elem_), {1 / inverse}};
        computed_.emplace(id, factor);
        return factor;
    }

    /// Returns the headroom: what exceeds the samples' range saturates in f8e4m3.
    double headroom() const { return elem_ == ElemType::f8e5m2 ? 16 : 1; }

    Factor constant_factor(ValueId id, bool by_channel) {
        const Value from = value(id);
        std::vector<double> all = graph::numbers(from);
        const auto channels = by_channel ? static_cast<size_t>(from.shape[from.shape.rank - 1u]) : size_t{1};
        std::vector<double> scales(channels, 0);
        for (size_t i = 0; i < all.size(); ++i)
            scales[i % channels] = std::max(scales[i % channels], std::fabs(all[i]));
        for (double& scale : scales) scale = scale > 0 ? std::max(as_f32(scale / greatest_), 0x1p-126) : 1;
        for (size_t i = 0; i < all.size(); ++i) all[i] /= scales[i % channels];
        return {graph_.add_constant(from.name, elem_, from.shape, graph::make_numbers(elem_, all)), scales};
    }

    /// Returns the addend in steps of the sums; one that is the same for all channels gets numbers of its own
    /// for each.
    ValueId scaled_addend(ValueId id, const std::vector<double>& scales) {
        const Value from = value(id);
        const std::vector<double> given = graph::numbers(from);
        Dims shape = from.shape;
        if (shape.rank == 0) shape = graph::dims({1});
        const auto last = static_cast<size_t>(shape.rank) - 1;
        const size_t repeats = shape[last] == 1 ? scales.size() : 1;
        if (repeats > 1) shape[last] = static_cast<int64_t>(repeats);
        std::vector<double> scaled;
        for (const double number : given) {
            for (size_t c = 0; c < repeats; ++c)
                scaled.push_back(number / scales[scaled.size() % scales.size()]);
        }
        return graph_.add_constant(from.name, ElemType::f32, shape,
                                   graph::make_numbers(ElemType::f32, scaled));
    }

    /// Returns a constant of one number, or of one for each index of the last dimension.
    ValueId numbers(ElemType elem, const std::vector<double>& all, std::string name) {
        const bool same = std::all_of(all.begin(), all.end(), [&](double one) { return one == all[0]; });
        const std::vector<double> kept(all.begin(), same ? all.begin() + 1 : all.end());
        const Dims shape = same ? Dims{} : graph::dims({static_cast<int64_t>(kept.size())});
        return graph_.add_constant(std::move(name), elem, shape, graph::make_numbers(elem, kept));
    }

    const NamedRanges& ranges_;
    ElemType elem_;
    double greatest_;
    const graph::Supports& supports_;
    std::vector<ValueId> views_;  ///< for each value, what it is a cast or a view of
    std::map<ValueId, Factor> computed_;
};

}  // namespace

NamedRanges by_name(const Graph& graph, const std::vector<Range>& ranges) {
    NamedRanges result;
    for (ValueId id = 0; id < graph.values.size(); ++id) {
        if (ranges[id].known) result.emplace(graph.value(id).name, ranges[id]);
    }
    return result;
}

std::vector<std::string> make_float8_products(Graph& graph, const NamedRanges& ranges, ElemType elem,
                                              const graph::Supports& supports) {
    std::vector<std::string> in_floats = Float8(graph, ranges, elem, supports).run();
    graph::remove_unused(graph);
    return in_floats;
}

}  // namespace kpu::quantize
