#pragma once
// A float network into an int8 one.
//
// Activations are i8 with one scale and zero point each (0 is always a step), constant weights i8 with a scale
// for each output channel, biases i32 in steps of the accumulators. What has no int8 form (its function needs
// floats, the device lacks it) runs in the device's float type, between `dequantize` and `quantize`. After
// the last product nothing is rounded to 8 bits: its accumulators become floats. Inputs and outputs of the
// model keep the host's type and are converted at load and store.
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/plan.hpp"
#include "compiler/quantize/ranges.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

struct QuantizeOptions {
    ElemType real = ElemType::f16;  ///< type of what is not int8: a float type of the device
    Supports supports;
    RangeOptions ranges;
    /// Constant weights of matrix products and convolutions are i4, with a scale for each output channel and group of so
    /// many input channels; 0: i8, with a scale for each output channel.
    int64_t group_size = 0;
    /// Inputs are quantized and outputs dequantized by nodes of their own, not at the host's boundary.
    bool boundary_on_device = false;
};

struct QuantizeResult {
    graph::Graph graph;
    bool calibrated = false;  ///< false: the samples were random
    size_t samples = 0;
    /// Nodes of the source that stay floats, and why: "softmax_1 (softmax): its function needs floats".
    std::vector<std::string> in_floats;
    std::vector<std::string> widened;      ///< constants of 4 bits that are stored with 8
    std::vector<std::string> narrow_sums;  ///< nodes that make f16 of sums of integers, which may be larger
};

/// The graph's values are floats (f32), or integers that stand for themselves.
QuantizeResult quantize(const graph::Graph& graph, const Samples& samples, const QuantizeOptions& options);
/// Quantizes with ranges that are known, by ValueId of `graph`, which split_addends() has made. `samples`: to
/// correct biases by; null: they are not corrected.
QuantizeResult quantize(const graph::Graph& graph, const std::vector<Range>& ranges,
                        const QuantizeOptions& options, const Samples* samples = nullptr);
/// Ranges on samples; inputs that are not finite are refused.
std::vector<Range> checked_ranges(const graph::Graph& graph, const Samples& samples,
                                  const RangeOptions& options);

/// Returns the products whose addend is no constant become a product and an addition.
graph::Graph split_addends(graph::Graph graph);

}  // namespace kpu::quantize
