#include "compiler/onnx/model/stand_in.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "compiler/onnx/quantized/e8m0.hpp"
#include "values/small_float.hpp"

namespace kpu::onnx {
namespace {

/// Repeated over the tensor; a prime, so that no two rows are alike.
constexpr uint64_t most_different = 65521;

/// Draws a number in [0.5, 1), of either sign where it is a weight: deviations, scales of channels and the
/// like are positive.
double draw(std::mt19937& random, bool weight) {
    const double size = 0.5 + double(random() >> 8) / (1 << 25);
    return weight && (random() & 1) != 0 ? -size : size;
}

template <class T>
void put(uint8_t* to, T value) {
    std::memcpy(to, &value, sizeof value);
}

void put_real(uint8_t* to, Type type, double value) {
    if (type == Type::f16) return put(to, values::f16_of(value));
    if (type == Type::bf16) return put(to, values::bf16_of(value));
    if (is_small_float(elem_of(type)))
        return put(to, values::small_float_of(value, values::small_float_format(elem_of(type))));
    if (type == Type::f8e8m0) return put(to, e8m0_of(value));
    if (type == Type::f64) return put(to, value);
    put(to, values::f32_of(value));
}

void put_integer(uint8_t* to, uint64_t bytes, int64_t value) { std::memcpy(to, &value, bytes); }

}  // namespace

graph::Data stand_in(Type type, const Sizes& shape, uint32_t seed) {
    uint64_t count = 1;
    for (const int64_t size : shape) count *= static_cast<uint64_t>(size);
    const uint64_t bytes = element_bytes(type), different = std::min(count, most_different);
    std::mt19937 random(seed);
    const bool weight = shape.size() > 1;
    // products that an output adds up, whichever dimension they lie along
    const double sums = weight ? std::max(double(shape[0]), double(count) / double(shape[0])) : 1;
    const int64_t largest = type == Type::boolean || packed_bits(type) == 2 ? 1
                            : packed_bits(type) == 4                        ? 7
                                                                            : 100;
    std::vector<uint8_t> numbers(count * bytes);
    for (uint64_t i = 0; i < different; ++i) {
        uint8_t* to = numbers.data() + i * bytes;
        const double value = draw(random, weight);
        if (is_real(type)) {
            put_real(to, type, value * std::sqrt(2 / sums));
        } else {
            const bool sign = value < 0 && (type == Type::i8 || type == Type::i4);
            const int64_t number = std::max<int64_t>(1, std::llround(std::fabs(value) * double(largest)));
            put_integer(to, bytes, sign ? -number : number);
        }
    }
    for (uint64_t have = different; have < count; have += different)
        std::memcpy(numbers.data() + have * bytes, numbers.data(), std::min(different, count - have) * bytes);
    return graph::make_data(std::move(numbers));
}

}  // namespace kpu::onnx
