#pragma once
// The program of a measured schedule.
#include "isa/module.hpp"
#include "runtime/validation/tiling.hpp"

namespace kpu::validation {

/// Returns a layer as loops over tiles, two in flight: operands go from DDR, or from L2 where the layer has
/// read them before and L2 still holds them, to L1; each position of the window is a product of its own on
/// the pixels that it reaches, so that padding costs nothing; sums stay in L1 until their last product, and
/// leave as results of a byte each. For time without values: what scales sums on their way out is not in it.
Module measured_schedule(const MeasuredRow& row, const platforms::Platform& platform);

}  // namespace kpu::validation
