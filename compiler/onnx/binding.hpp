#pragma once
// Values that --bind gives to inputs of a model: constants from then on.
#include <optional>
#include <string>

#include "compiler/onnx/operand.hpp"

namespace kpu::onnx {

/// `value`: a number, true, false, a list of them as JSON writes it, or the name of a .npy file. `shape`: of the input, -1
/// where it is dynamic; none: the model does not say. Throws Unsupported when the value has another type or shape.
Operand bound_operand(const ValueInfo& input, const std::optional<Sizes>& shape, const std::string& value);

}  // namespace kpu::onnx
