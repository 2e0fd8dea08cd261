#pragma once
// Scales and zero points, and constants in them. Scales are numbers of f32, so that a model file can hold them.
#include <optional>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/ranges.hpp"

namespace kpu::quantize {

BoundQuant per_tensor(double scale, int64_t zero_point);
BoundQuant per_channel(int axis, std::vector<double> scales);
bool equal(const BoundQuant& a, const BoundQuant& b);
/// Returns the quantisation of a value which is reshaped; none if its scales are those of no dimension any
/// more. A dimension that holds the channels several times has their scales as often.
std::optional<BoundQuant> reshaped(const BoundQuant& quant, const Dims& from, const Dims& to);

/// Returns i8 for numbers of this range and for 0, which is a step of its own: the zero point.
BoundQuant activation_quant(const Range& range);
/// Returns the numbers that i8 of this quantisation holds.
Range representable(const BoundQuant& quant);

/// True if i8 of this quantisation holds the number, or each number of a constant, without rounding.
bool is_step(double number, const BoundQuant& quant);
bool are_steps(const graph::Value& value, const BoundQuant& quant);
/// Returns i8 steps that hold each number of a float constant without rounding; none: there are none, or they
/// are not looked for (multiples of the least number are, up to 127).
std::optional<BoundQuant> exact_quant(const graph::Value& value);
/// Returns a float constant in i8 steps. Rounded like the opcode `quantize`.
graph::Data quantized_data(const graph::Value& value, const BoundQuant& quant);

/// Weights in i8 [-127,127], symmetric, a scale for each index of the last dimension. `least_scales`: none
/// below; empty: no bound.
struct Weights {
    graph::Data data;
    BoundQuant quant;
};
Weights quantized_weights(const graph::Value& value, const std::vector<double>& least_scales);

/// Weights in i4, a scale for each output channel and group of `group_size` indices of the last dimension but one: that of
/// least squared error. Scales are f16, or f32 where one is too small for that.
struct GroupedWeights {
    graph::Data data, scales;
    Dims scale_shape;
    ElemType scale_elem = ElemType::f16;
    int64_t group_size = 1;
};
GroupedWeights grouped_weights(const graph::Value& value, int64_t group_size);
/// True if the blocks that a model brings are groups of the summed dimension, the same for all taps of a
/// window.
bool has_groups(const graph::Value& value);
/// Returns groups as the model brings them: with zero points, if some are not 0, in the second half of the
/// scales.
GroupedWeights given_groups(const graph::Value& value);

/// Returns the scales of weights below which this bias, in steps of x_scale * w_scale, would not fit 31 bits.
/// The last dimension of the bias has `channels` elements, or one for all.
std::vector<double> least_scales_for(const graph::Value& bias, double x_scale, int64_t channels);
/// Returns a bias in i32 steps of the accumulators: `scales` has one for each index of its last dimension.
graph::Data quantized_bias(const graph::Value& bias, const std::vector<double>& scales);

}  // namespace kpu::quantize
