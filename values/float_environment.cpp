#include "values/compute.hpp"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#error \
    "kpusim does not know how this processor rounds. Fix: say here how to set round-to-nearest without flush-to-zero."
#endif

namespace kpu::values {

#if defined(__x86_64__)
// MXCSR: all exceptions masked, round to nearest even, flush-to-zero and denormals-are-zero off
FloatEnvironment::FloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }

FloatEnvironment::~FloatEnvironment() { _mm_setcsr(saved_); }
#else
namespace {

// FPCR: no traps, round to nearest even, flush-to-zero off
void set_control(uint64_t value) { __asm__ volatile("msr fpcr, %0" ::"r"(value)); }
uint64_t control() {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}

}  // namespace

FloatEnvironment::FloatEnvironment() : saved_(static_cast<unsigned>(control())) { set_control(0); }

FloatEnvironment::~FloatEnvironment() { set_control(saved_); }
#endif

}  // namespace kpu::values
