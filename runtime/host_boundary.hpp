#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/bound_program.hpp"
#include "values/beyond.hpp"

namespace kpu::runtime {

// Tensors whose host arrays have another type than the device's (TensorSpec::converts()): converted when a
// run loads and stores them, outside its cycles. Floats go through the arithmetic of `quantize`, `dequantize`
// and `cast`, so a program that quantizes on the device has the same bits.

/// Returns NumPy's dtype of host arrays, and its name here: "<i8" and "i64". It does so for tensors that do
/// not convert, too.
std::string_view host_dtype(const TensorSpec& spec);
std::string_view host_type_name(const TensorSpec& spec);
size_t host_item_bytes(const TensorSpec& spec);

/// Returns the elements as memory holds them (i4: one a byte) from the bytes of a host array. Throws
/// UserError that names `origin` and the first element that the device's type does not hold. `beyond`: counts
/// numbers that the device's type does not hold. None below -1e8: those are masks, which mean minus infinity.
std::string to_device(const TensorSpec& spec, const std::string& host, const std::string& origin,
                      values::Beyond* beyond = nullptr);
/// Converts back: rounded once, or checked.
std::string to_host(const TensorSpec& spec, const std::string& dense);

bool host_has_floats(const TensorSpec& spec);
/// Returns the number `index` of a host array of floats.
double host_number(const TensorSpec& spec, const uint8_t* host, int64_t index);

/// Counts the numbers of a host array that are NaN or infinite.
uint64_t not_finite(const TensorSpec& spec, const std::string& host);

/// Counts the elements of a tensor whose host array has integers of 64 bits that are the least or the
/// greatest of the device's type: what lies beyond is cut to these.
uint64_t at_the_ends(const TensorSpec& spec, const std::string& dense);

/// Returns a line for each input and output that is converted or stored in another order: "image
/// f32[1,3,224,224] -> i8 NHWC, scale 0.0186 (outside the cycles)".
std::vector<std::string> boundary_lines(const BoundProgram& program);

}  // namespace kpu::runtime
