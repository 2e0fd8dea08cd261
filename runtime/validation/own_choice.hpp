#pragma once
// The same layer as this compiler cuts it.
#include "isa/module.hpp"
#include "platforms/platform.hpp"
#include "runtime/validation/measured.hpp"

namespace kpu::validation {

/// Returns a network of one layer in int8, input and result in DDR, compiled with `--effort 2`.
Module own_choice(const Work& work, const platforms::Platform& platform);

}  // namespace kpu::validation
