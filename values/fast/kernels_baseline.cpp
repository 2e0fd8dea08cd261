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

namespace kpu::values::fast {
namespace {

void f32_of_f16(const uint16_t* from, float* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t magnitude = from[i] & 0x7fff;
        const uint32_t sign = static_cast<uint32_t>(from[i] & 0x8000) << 16;
        // the exponent's bias differs by 112; infinities and NaNs need the rest of the way to 255
        const uint32_t number = (magnitude << 13) + (magnitude >= 0x7c00 ? 0x70000000 : 0x38000000);
        const float subnormal = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F;
        to[i] = float32(sign | (magnitude < 0x400 ? bits32(subnormal) : number));
    }
}

void f16_of_f32(const float* from, uint16_t* to, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t bits = bits32(from[i]);
        const uint32_t magnitude = bits & 0x7fffffff;
        uint32_t half = 0x7c00;
        if (magnitude > 0x7f800000) {
            to[i] = 0x7e00;
            continue;
        }
        if (magnitude < 0x38800000) {
            // adding 0.5 aligns the last subnormal place of f16 with the last place of f32, which rounds
            half = bits32(float32(magnitude) + 0.5F) - 0x3f000000;
        } else if (magnitude < 0x47800000) {
            half = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
        }
        to[i] = static_cast<uint16_t>(half | (bits >> 16 & 0x8000));
    }
}

}  // namespace

const Kernels baseline_kernels = KPU_KERNEL_COMMON("baseline", f32_of_f16, f16_of_f32, 0, 0, nullptr);

}  // namespace kpu::values::fast
