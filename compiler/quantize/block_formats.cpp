#include "compiler/quantize/block_formats.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/rewrite_products.hpp"
#include "values/compute.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

constexpr BlockFormat formats[] = {
    {"mxfp8", ElemType::f8e4m3},
    {"mxfp8_e5m2", ElemType::f8e5m2},
    {"mxfp6", ElemType::f6e2m3},
    {"mxfp6_e3m2", ElemType::f6e3m2},
    {"mxfp4", ElemType::f4e2m1},
    {"mxint8", ElemType::i8},
    {"nvfp4", ElemType::f4e2m1, ElemType::f8e4m3, 16, true},
};

/// The greatest scale times the greatest element of NVFP4.
constexpr double most_of_nvfp4 = 448.0 * 6.0;

class BlockProducts : ProductRewriter {
  public:
    BlockProducts(Graph& graph, const BlockFormat& format, const graph::Supports& supports)
        : ProductRewriter(graph), format_(format), left_(activations_of(format)), supports_(supports) {}

    std::vector<std::string> run() {
        return rewrite_all([this](const Node& node) { return why_not(node); },
                           [this](const Node& node) { rewrite(node); });
    }

  private:
    struct Factor {
        ValueId elements = 0, scales = 0;
        double of_tensor = 1;
    };

    std::string_view why_not(const Node& node) {
        const Value &x = value(node.inputs[0]), &w = value(node.inputs[1]);
        if (node.spec().traits.needs != Needs::matrix || x.shape.rank != 2 || w.shape.rank != 2)
            return "block formats are of products of matrices";
        if (!w.constant()) return "its second factor is computed, whose blocks would lie across its rows";
        const ElemType f32 = ElemType::f32;
        if (!graph::is_supported(supports_, "gemm.mx",
                                 {left_.element, format_.element, left_.scale, format_.scale}, {f32}) ||
            !graph::is_supported(supports_, "quantize.mx", {x.elem}, {left_.element, left_.scale}))
            return "the device has no products of these blocks";
        if (format_.of_tensor && !graph::is_supported(supports_, "mul", {f32, f32}, {f32}))
            return "the device cannot scale its f32 sums";
        return "";
    }

    void rewrite(const Node& node) {
        source_ = node.source;
        const Factor x = computed(node.inputs[0]), w = constant(node.inputs[1]);
        std::vector<ValueId> operands{x.elements, w.elements, x.scales, w.scales};
        if (node.inputs.size() > 2) operands.push_back(addend(node.inputs[2], w.of_tensor));
        // one size for both: blocks of 16 are also a half of those of 32
        const BoundAttrs attrs{{graph::integer("block_size", format_.size)}};
        const bool scales = w.of_tensor != 1;
        ValueId y = add("gemm.mx", std::move(operands), attrs, ElemType::f32);
        if (scales) y = add("mul", {y, number(w.of_tensor)}, {}, ElemType::f32);
        finish(node, y);
    }

    /// Returns the factor rounded on the device, once for all products that read it.
    Factor computed(ValueId id) {
        const auto known = computed_.find(id);
        if (known != computed_.end()) return known->second;
        const graph::Source before = source_;
        source_ = {value(id).name + "/to_blocks", "Cast"};
        const BoundAttrs attrs{{graph::integer("block_size", format_.size), graph::integer("axis", 1)}};
        Factor factor;
        factor.elements = add("quantize.mx", {id}, attrs, left_.element);
        factor.scales = factor.elements + 1;
        value(factor.scales).elem = left_.scale;
        computed_.emplace(id, factor);
        source_ = before;
        return factor;
    }

    /// Returns the factor rounded here, with blocks along the rows.
    Factor constant(ValueId id) {
        const Value from = value(id);
        std::vector<double> numbers = graph::numbers(from);
        Factor factor;
        if (format_.of_tensor) {
            double largest = 0;
            for (const double each : numbers) largest = std::max(largest, std::fabs(each));
            if (largest > 0 && std::isfinite(largest))
                factor.of_tensor = static_cast<double>(static_cast<float>(largest / most_of_nvfp4));
            for (double& each : numbers) each /= factor.of_tensor;
        }
        const graph::Data real = graph::make_numbers(ElemType::f32, numbers);
        const int64_t blocks = (from.shape[0] + format_.size - 1) / format_.size;
        const Dims shape = graph::dims({blocks, from.shape[1]});
        const graph::NewData elements = graph::new_data(graph::data_bytes(format_.element, from.elements())),
                             scales = graph::new_data(static_cast<uint64_t>(shape.product()));
        const values::Tensor in{ElemType::f32, from.shape, nullptr, const_cast<uint8_t*>(real.bytes)};
        engine_->execute(*find_opcode("quantize.mx"), {in},
                         {{format_.element, from.shape, nullptr, elements.bytes},
                          {format_.scale, shape, nullptr, scales.bytes}},
                         {{graph::integer("block_size", format_.size), graph::integer("axis", 0)}});
        factor.elements = graph_.add_constant(from.name, format_.element, from.shape, elements.data);
        factor.scales = graph_.add_constant(from.name + "_scale", format_.scale, shape, scales.data);
        return factor;
    }

    /// Returns the addend in units of the sums.
    ValueId addend(ValueId id, double of_tensor) {
        const Value from = value(id);
        std::vector<double> numbers = graph::numbers(from);
        for (double& each : numbers) each /= of_tensor;
        return graph_.add_constant(from.name, ElemType::f32, from.shape,
                                   graph::make_numbers(ElemType::f32, numbers));
    }

    ValueId number(double one) {
        return graph_.add_constant("scale", ElemType::f32, Dims{},
                                   graph::make_numbers(ElemType::f32, std::vector<double>{one}));
    }

    const BlockFormat &format_, &left_;
    const graph::Supports& supports_;
    std::map<ValueId, Factor> computed_;
    std::unique_ptr<values::ComputeBackend> engine_ = values::make_fast_backend();
};

}  // namespace

const BlockFormat* find_block_format(std::string_view name) {
    const auto* found = std::find_if(std::begin(formats), std::end(formats),
                                     [&](const BlockFormat& each) { return each.name == name; });
    return found == std::end(formats) ? nullptr : found;
}

const BlockFormat& activations_of(const BlockFormat& weights) {
    return weights.element == ElemType::f4e2m1 ? formats[0] : weights;
}

std::vector<std::string> make_block_products(Graph& graph, const BlockFormat& format,
                                             const graph::Supports& supports) {
    std::vector<std::string> in_floats = BlockProducts(graph, format, supports).run();
    graph::remove_unused(graph);
    return in_floats;
}

}  // namespace kpu::quantize
