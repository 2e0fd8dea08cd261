#pragma once
// Loops over columns of values, for the instructions of the machine that runs them. Nothing is contracted or
// reordered, so that a result does not depend on which loop was taken.
#include <cstddef>
#include <cstdint>

/// The next loop's iterations do not depend on each other. Clang, which only builds fuzzers, warns where it cannot use that.
#ifdef __clang__
#define KPUSIM_INDEPENDENT
#else
#define KPUSIM_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace kpu::values::kernel {

inline bool has_wide_instructions() {
#if defined(__x86_64__)
    static const bool has = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    return has;
#else
    return false;
#endif
}

/// Places stand for themselves: a column is another one, or the very same.
template <typename Step>
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]]
#endif
void each_wide(size_t count, const Step& step) {
    KPUSIM_INDEPENDENT
    for (size_t i = 0; i < count; ++i) step(i);
}
template <typename Step>
void each_narrow(size_t count, const Step& step) {
    KPUSIM_INDEPENDENT
    for (size_t i = 0; i < count; ++i) step(i);
}
/// step(i) for each place i below count.
template <typename Step>
void each(size_t count, const Step& step) {
    if (has_wide_instructions())
        each_wide(count, step);
    else
        each_narrow(count, step);
}

/// True if each element follows that of the lane before.
inline bool consecutive(const uint32_t* elements, size_t count) {
    if (count == 0 || elements[0] > UINT32_MAX - count) return false;
    uint32_t differs = 0;
    for (size_t i = 0; i < count; ++i) differs |= elements[i] ^ (elements[0] + static_cast<uint32_t>(i));
    return differs == 0;
}

}  // namespace kpu::values::kernel
