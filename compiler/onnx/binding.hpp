#pragma once
// Values that --bind gives to inputs of a model: constants from then on.
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/onnx/operand.hpp"

namespace kpu::onnx {

/// Returns a number of 31 bits without a sign; none: it is something else.
std::optional<int64_t> decimal(std::string_view text);

/// "position", "position+3", "upto(position-1)": what an input follows, and the number that is added to the position;
/// none: something else.
std::optional<std::pair<graph::Follows, int64_t>> following(const std::string& value);

/// `value`: a number, true, false, a list of them as JSON writes it, or the name of a .npy file. `shape`: of the input, -1
/// where it is dynamic; none: the model does not say. Throws Unsupported when the value has another type or shape.
Operand bound_operand(const ValueInfo& input, const std::optional<Sizes>& shape, const std::string& value);

}  // namespace kpu::onnx
