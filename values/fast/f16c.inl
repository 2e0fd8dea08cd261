// Conversions between f16 and f32 by the F16C instructions.
#include <immintrin.h>

#include <cstdint>

namespace kpu::values::fast {
namespace {

void f32_of_f16(const uint16_t* from, float* to, int64_t count) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
    }
    for (; i < count; ++i) to[i] = _cvtsh_ss(from[i]);
}

void f16_of_f32(const float* from, uint16_t* to, int64_t count) {
    int64_t i = 0;
    const __m128i nan = _mm_set1_epi16(0x7e00);
    const __m128i infinity = _mm_set1_epi16(0x7c00);
    const __m128i magnitude = _mm_set1_epi16(0x7fff);
    for (; i + 8 <= count; i += 8) {
        const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
        const __m128i is_nan = _mm_cmpgt_epi16(_mm_and_si128(half, magnitude), infinity);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm_blendv_epi8(half, nan, is_nan));
    }
    for (; i < count; ++i) {
        const __m128i lanes = _mm_cvtps_ph(_mm_set_ss(from[i]), _MM_FROUND_TO_NEAREST_INT);
        const auto half = static_cast<uint16_t>(_mm_cvtsi128_si32(lanes));
        to[i] = (half & 0x7fff) > 0x7c00 ? 0x7e00 : half;
    }
}

}  // namespace
}  // namespace kpu::values::fast
