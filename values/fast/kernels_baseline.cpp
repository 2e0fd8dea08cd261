// x86-64 as every machine has it: SSE2, fused multiply-add by the C library.
#include <emmintrin.h>
#include <sleef.h>

#include <cstdint>

namespace kpu::values::fast {
namespace {

struct Lanes {
    using Float = float;
    using Int = __m128i;
    static constexpr int f32_width = 1, f32_vectors = 4;
    static constexpr int i32_width = 4, i32_vectors = 2;
    static constexpr int rows = 4;

    static Float load(const float* at) { return *at; }
    static void store(float* at, Float value) { *at = value; }
    static Float broadcast(float value) { return value; }
    static Float fma(Float a, Float b, Float c) { return __builtin_fmaf(a, b, c); }
    static Int load_int(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }
    static void store_int(void* at, Int value) { _mm_storeu_si128(static_cast<__m128i*>(at), value); }
    static Int broadcast_int(int32_t value) { return _mm_set1_epi32(value); }
    static Int madd(Int a, Int b, Int sum) { return _mm_add_epi32(sum, _mm_madd_epi16(a, b)); }

    using Real = __m128d;
    static constexpr int f64_width = 2;
    static Real load_real(const double* at) { return _mm_loadu_pd(at); }
    static void store_real(double* at, Real value) { _mm_storeu_pd(at, value); }
    static Real exp(Real v) { return Sleef_cinz_expd2_u10sse2(v); }
    static Real log(Real v) { return Sleef_cinz_logd2_u10sse2(v); }
    static Real tanh(Real v) { return Sleef_cinz_tanhd2_u10sse2(v); }
    static Real erfc(Real v) { return Sleef_cinz_erfcd2_u15sse2(v); }
    static Real pow(Real v, Real w) { return Sleef_cinz_powd2_u10sse2(v, w); }
};

}  // namespace
}  // namespace kpu::values::fast

#include "values/fast/kernels.inl"
//
#include "values/fast/f16_scalar.inl"

namespace kpu::values::fast {

const Kernels baseline_kernels = KPU_KERNEL_COMMON("baseline", f32_of_f16, f16_of_f32, 0, 0, nullptr);

}  // namespace kpu::values::fast
