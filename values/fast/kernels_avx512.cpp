// AVX-512 F, BW, DQ, VL; the 8-bit tile also VNNI, by a function attribute, because it has its own check.
#include <immintrin.h>
#include <sleef.h>

#include <cstdint>

namespace kpu::values::fast {
namespace {

struct Lanes {
    using Float = __m512;
    using Int = __m512i;
    static constexpr int f32_width = 16, f32_vectors = 2;
    static constexpr int i32_width = 16, i32_vectors = 2;
    static constexpr int rows = 12;

    static Float load(const float* at) { return _mm512_loadu_ps(at); }
    static void store(float* at, Float value) { _mm512_storeu_ps(at, value); }
    static Float broadcast(float value) { return _mm512_set1_ps(value); }
    static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
    static Int load_int(const void* at) { return _mm512_loadu_si512(at); }
    static void store_int(void* at, Int value) { _mm512_storeu_si512(at, value); }
    static Int broadcast_int(int32_t value) { return _mm512_set1_epi32(value); }
    static Int madd(Int a, Int b, Int sum) { return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)); }

    using Real = __m512d;
    static constexpr int f64_width = 8;
    static Real load_real(const double* at) { return _mm512_loadu_pd(at); }
    static void store_real(double* at, Real value) { _mm512_storeu_pd(at, value); }
    static Real exp(Real v) { return Sleef_cinz_expd8_u10avx512fnofma(v); }
    static Real log(Real v) { return Sleef_cinz_logd8_u10avx512fnofma(v); }
    static Real tanh(Real v) { return Sleef_cinz_tanhd8_u10avx512fnofma(v); }
    static Real erfc(Real v) { return Sleef_cinz_erfcd8_u15avx512fnofma(v); }
    static Real pow(Real v, Real w) { return Sleef_cinz_powd8_u10avx512fnofma(v, w); }
};

}  // namespace
}  // namespace kpu::values::fast

#include "values/fast/f16c.inl"
#include "values/fast/kernels.inl"

namespace kpu::values::fast {
namespace {

#define KPU_VNNI __attribute__((target("avx512vnni")))

inline int32_t four_at(const uint8_t* at) {
    int32_t four;
    __builtin_memcpy(&four, at, sizeof four);
    return four;
}

template <int Rows>
KPU_VNNI void u8i8_rows(int64_t k4, const uint8_t* a, int64_t lda, const int8_t* b, uint32_t* acc,
                        int64_t ld_acc) {
    __m512i sum[Rows][2];
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < 2; ++v) sum[r][v] = _mm512_loadu_si512(acc + r * ld_acc + v * 16);
    }
    for (int64_t i = 0; i < k4; ++i) {
        const __m512i right[2] = {_mm512_loadu_si512(b + i * 128), _mm512_loadu_si512(b + i * 128 + 64)};
        for (int r = 0; r < Rows; ++r) {
            const __m512i left = _mm512_set1_epi32(four_at(a + r * lda + 4 * i));
            // vpdpbusd, not its saturating form: the sum wraps
            for (int v = 0; v < 2; ++v) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], left, right[v]);
        }
    }
    for (int r = 0; r < Rows; ++r) {
        for (int v = 0; v < 2; ++v) _mm512_storeu_si512(acc + r * ld_acc + v * 16, sum[r][v]);
    }
}

KPU_VNNI void u8i8_tile(int rows, int64_t k4, const uint8_t* a, int64_t lda, const int8_t* b, uint32_t* acc,
                        int64_t ld_acc) {
    if (rows == Lanes::rows) return u8i8_rows<Lanes::rows>(k4, a, lda, b, acc, ld_acc);
    int r = 0;
    for (; r + 4 <= rows; r += 4) u8i8_rows<4>(k4, a + r * lda, lda, b, acc + r * ld_acc, ld_acc);
    for (; r < rows; ++r) u8i8_rows<1>(k4, a + r * lda, lda, b, acc + r * ld_acc, ld_acc);
}

}  // namespace

const Kernels avx512_kernels = KPU_KERNEL_COMMON("avx512", f32_of_f16, f16_of_f32, 0, 0, nullptr);
const Kernels avx512_vnni_kernels =
    KPU_KERNEL_COMMON("avx512_vnni", f32_of_f16, f16_of_f32, Lanes::rows, 32, u8i8_tile);

}  // namespace kpu::values::fast
