#pragma once
// The activations that operators name.
#include <string>

#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

struct Activation {
    std::string name;  ///< as ONNX's recurrent operators have it, in any case: "Relu"
    double alpha = 0, beta = 0;
};
/// Refuses an unknown name.
ValueId activate(Call& call, const Activation& f, ValueId x);

}  // namespace kpu::onnx
