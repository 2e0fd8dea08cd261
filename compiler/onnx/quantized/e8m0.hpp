#pragma once
// float8e8m0 of ONNX: powers of two, the scales of OCP's block formats. The device has its bytes as u8.
#include "compiler/onnx/call.hpp"

namespace kpu::onnx {

/// Returns the code of a number: the exponent of its size as f32, one more if it is between two powers; 255
/// of NaN and infinities.
uint8_t e8m0_of(double value);
/// Returns the code that stands for the number.
uint8_t e8m0_of_power(double power);
/// Returns 2^(code - 127), NaN of 255.
double number_of_e8m0(uint8_t code);

/// Returns the bytes of numbers, as the operator's attributes `round_mode` and `saturate` say.
ValueId to_e8m0(Call& call, ValueId x);
/// Returns the numbers of bytes, in f32.
ValueId from_e8m0(Call& call, ValueId x);

}  // namespace kpu::onnx
