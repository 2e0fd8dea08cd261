// AVX2, FMA3, F16C. Compiled with those flags; called only where the processor has them.
#include <immintrin.h>
#include <sleef.h>

#include <cstdint>

namespace kpu::values::fast {
namespace {

struct Lanes {
    using Float = __m256;
    using Int = __m256i;
    static constexpr int f32_width = 8, f32_vectors = 2;
    static constexpr int i32_width = 8, i32_vectors = 2;
    static constexpr int rows = 6;

    static Float load(const float* at) { return _mm256_loadu_ps(at); }
    static void store(float* at, Float value) { _mm256_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm256_set1_ps(value); }
    static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
    static Int load_int(const void* at) { return _mm256_loadu_si256(static_cast<const __m256i*>(at)); }
    static void store_int(void* at, Int value) { _mm256_storeu_si256(static_cast<__m256i*>(at), value); }
    static Int broadcast_int(int32_t value) { return _mm256_set1_epi32(value); }
    static Int madd(Int a, Int b, Int sum) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }

    using Real = __m256d;
    static constexpr int f64_width = 4;
    static Real load_real(const double* at) { return _mm256_loadu_pd(at); }
    static void store_real(double* at, Real value) { _mm256_storeu_pd(at, value); }
    static Real exp(Real v) { return Sleef_cinz_expd4_u10avx(v); }
    static Real log(Real v) { return Sleef_cinz_logd4_u10avx(v); }
    static Real tanh(Real v) { return Sleef_cinz_tanhd4_u10avx(v); }
    static Real erfc(Real v) { return Sleef_cinz_erfcd4_u15avx(v); }
    static Real pow(Real v, Real w) { return Sleef_cinz_powd4_u10avx(v, w); }
};

}  // namespace
}  // namespace kpu::values::fast

#include "values/fast/f16c.inl"
#include "values/fast/kernels.inl"

namespace kpu::values::fast {

const Kernels avx2_kernels = KPU_KERNEL_COMMON("avx2", f32_of_f16, f16_of_f32, 0, 0, nullptr);

}  // namespace kpu::values::fast
