#include <xmmintrin.h>

#include "values/compute.hpp"

namespace kpu::values {

// MXCSR: all exceptions masked, round to nearest even, flush-to-zero and denormals-are-zero off
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }

FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }

}  // namespace kpu::values
