// Every processor: vectors of 16 bytes as GCC and Clang have them, which is NEON on ARM64.
#include <sleef.h>

#include <cstdint>
#include <cstring>

namespace kpu::values::fast {
namespace {

struct Lanes {
    using Float [[gnu::vector_size(16)]] = float;
    using Int [[gnu::vector_size(16)]] = int32_t;
    using Short [[gnu::vector_size(16)]] = int16_t;
    static constexpr int f32_width = 4, f32_vectors = 2;
    static constexpr int i32_width = 4, i32_vectors = 2;
    static constexpr int rows = 4;

    template <class Vector>
    static Vector load_vector(const void* at) {
        Vector value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }
    static Float load(const float* at) { return load_vector<Float>(at); }
    static void store(float* at, Float value) { std::memcpy(at, &value, sizeof value); }
    static Float broadcast(float value) { return Float{value, value, value, value}; }
    static Float fma(Float a, Float b, Float c) {
        for (int i = 0; i < f32_width; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
        return c;
    }
    static Int load_int(const void* at) { return load_vector<Int>(at); }
    static void store_int(void* at, Int value) { std::memcpy(at, &value, sizeof value); }
    static Int broadcast_int(int32_t value) { return Int{value, value, value, value}; }
    static Int madd(Int a, Int b, Int sum) {
        const auto x = load_vector<Short>(&a), y = load_vector<Short>(&b);
        for (int i = 0; i < i32_width; ++i) {
            // modulo 2^32, as four products of -32768 and -32768 overflow
            const auto even = static_cast<uint32_t>(x[2 * i] * y[2 * i]);
            const auto odd = static_cast<uint32_t>(x[2 * i + 1] * y[2 * i + 1]);
            sum[i] = static_cast<int32_t>(static_cast<uint32_t>(sum[i]) + even + odd);
        }
        return sum;
    }

    using Real = double;  // as the library's vectors differ by processor, and their bits do not
    static constexpr int f64_width = 1;
    static Real load_real(const double* at) { return *at; }
    static void store_real(double* at, Real value) { *at = value; }
    static Real exp(Real v) { return Sleef_cinz_expd1_u10purec(v); }
    static Real log(Real v) { return Sleef_cinz_logd1_u10purec(v); }
    static Real tanh(Real v) { return Sleef_cinz_tanhd1_u10purec(v); }
    static Real erfc(Real v) { return Sleef_cinz_erfcd1_u15purec(v); }
    static Real pow(Real v, Real w) { return Sleef_cinz_powd1_u10purec(v, w); }
};

}  // namespace
}  // namespace kpu::values::fast

#include "values/fast/kernels.inl"
//
#include "values/fast/f16_scalar.inl"

namespace kpu::values::fast {

const Kernels portable_kernels = KPU_KERNEL_COMMON("portable", f32_of_f16, f16_of_f32, 0, 0, nullptr);

}  // namespace kpu::values::fast
