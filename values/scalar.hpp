#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/diagnostics.hpp"
#include "base/types.hpp"
#include "values/convert.hpp"

namespace kpu::values {

/// Single elements of dense operands (of 4 bits: one per byte), by run-time type.

template <class T>
T load(const uint8_t* data, int64_t index) {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}
template <class T>
void store(uint8_t* data, int64_t index, T value) {
    std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

struct IntegerRange {
    int64_t low;
    int64_t high;
};
inline IntegerRange range_of(ElemType type) {
    switch (type) {
        case ElemType::i4:
            return {-8, 7};
        case ElemType::i8:
            return {-128, 127};
        case ElemType::i16:
            return {-32768, 32767};
        case ElemType::i32:
            return {INT32_MIN, INT32_MAX};
        case ElemType::u8:
            return {0, 255};
        case ElemType::u16:
            return {0, 65535};
        case ElemType::u32:
            return {0, UINT32_MAX};
        default:
            throw InternalError("range of a type that is not an integer");
    }
}

inline int64_t load_integer(ElemType type, const uint8_t* data, int64_t index) {
    switch (type) {
        case ElemType::i4:
        case ElemType::i8:
            return load<int8_t>(data, index);
        case ElemType::i16:
            return load<int16_t>(data, index);
        case ElemType::i32:
            return load<int32_t>(data, index);
        case ElemType::u8:
            return load<uint8_t>(data, index);
        case ElemType::u16:
            return load<uint16_t>(data, index);
        case ElemType::u32:
            return load<uint32_t>(data, index);
        default:
            throw InternalError("integer read of a type that is not an integer");
    }
}

inline void store_saturated(ElemType type, uint8_t* data, int64_t index, int64_t value) {
    const IntegerRange range = range_of(type);
    value = std::clamp(value, range.low, range.high);
    switch (bit_width(type)) {
        case 4:
        case 8:
            return store(data, index, static_cast<uint8_t>(value));
        case 16:
            return store(data, index, static_cast<uint16_t>(value));
        default:
            return store(data, index, static_cast<uint32_t>(value));
    }
}

/// Loads a posit or small float, out of line: loops over the other floats stay small.
float load_rare_float(ElemType type, const uint8_t* data, int64_t index);
void store_rare_float(ElemType type, uint8_t* data, int64_t index, double value);

inline float load_float(ElemType type, const uint8_t* data, int64_t index) {
    switch (type) {
        case ElemType::f16:
            return f32_of_f16(load<uint16_t>(data, index));
        case ElemType::bf16:
            return f32_of_bf16(load<uint16_t>(data, index));
        case ElemType::f32:
            return load<float>(data, index);
        default:
            return load_rare_float(type, data, index);
    }
}

/// Rounds once to the element type.
inline void store_float(ElemType type, uint8_t* data, int64_t index, double value) {
    switch (type) {
        case ElemType::f16:
            return store(data, index, f16_of(value));
        case ElemType::bf16:
            return store(data, index, bf16_of(value));
        case ElemType::f32:
            return store(data, index, f32_of(value));
        default:
            return store_rare_float(type, data, index, value);
    }
}

/// Loads an element, which is exact in binary64 for every supported type.
inline double load_real(ElemType type, const uint8_t* data, int64_t index) {
    return is_float(type) ? static_cast<double>(load_float(type, data, index))
                          : static_cast<double>(load_integer(type, data, index));
}

/// Returns a number in steps of this size, divided as ONNX's QuantizeLinear does: both are f32, and so is the
/// quotient.
inline double in_steps(double value, double scale) {
    return f32_of(static_cast<double>(f32_of(value)) / scale);
}

/// round_half_even(value) + zero_point; a NaN counts as 0. Clamping first keeps the conversion in range, and what is outside
/// of every type's there.
inline int64_t rounded_steps(double value, int64_t zero_point) {
    if (std::isnan(value)) value = 0;
    return static_cast<int64_t>(std::nearbyint(std::clamp(value, -0x1p40, 0x1p40))) + zero_point;
}
/// saturate(round_half_even(value) + zero_point)
inline int64_t quantized(double value, int64_t zero_point, IntegerRange range) {
    return std::clamp(rounded_steps(value, zero_point), range.low, range.high);
}

}  // namespace kpu::values
