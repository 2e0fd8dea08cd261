#include "values/kernel/lanes/arithmetic.hpp"

#include <algorithm>

namespace kpu::values::kernel {
namespace {

/// Returns an integer of any type, bool too, as a wide one; u64 above 2^63 does not come here.
int64_t integer_of(Type type, uint64_t bits) {
    switch (type) {
        case Type::i32:
            return static_cast<int32_t>(bits);
        case Type::i8:
            return static_cast<int8_t>(bits);
        case Type::i16:
            return static_cast<int16_t>(bits);
        default:
            return static_cast<int64_t>(bits);
    }
}

/// Truncated and saturated; NaN gives 0.
int64_t truncated(float value, int64_t least, int64_t most) {
    if (std::isnan(value)) return 0;
    const double whole = std::trunc(double{value});
    if (whole <= static_cast<double>(least)) return least;
    return whole >= static_cast<double>(most) ? most : static_cast<int64_t>(whole);
}

bool cast_float(Type to, float value, uint64_t& result) {
    switch (to) {
        case Type::boolean:
            result = value != 0 ? 1 : 0;
            return true;
        case Type::u32:
            result = static_cast<uint64_t>(truncated(value, 0, UINT32_MAX));
            return true;
        case Type::i32:
            result = static_cast<uint32_t>(truncated(value, INT32_MIN, INT32_MAX));
            return true;
        case Type::u64:
            if (!(value > -1.0F && value < 0x1p64F)) return false;
            result = value < 0 ? 0 : static_cast<uint64_t>(value);
            return true;
        case Type::f16:
            result = f16_of(value);
            return true;
        case Type::bf16:
            result = bf16_of(value);
            return true;
        default:
            result = word_of(value);
            return true;
    }
}

bool cast_integer(Type from, Type to, uint64_t bits, uint64_t& result) {
    const bool large = from == Type::u64 && bits > INT64_MAX;
    const int64_t value = integer_of(from, bits);
    switch (to) {
        case Type::boolean:
            result = bits != 0 ? 1 : 0;
            return true;
        case Type::u32:
            result = static_cast<uint32_t>(value);
            return from != Type::u64 || bits <= UINT32_MAX;
        case Type::i32:
            result = static_cast<uint32_t>(value);
            return from != Type::u64 || bits <= INT32_MAX;
        case Type::u64:
            result = bits;
            if (from != Type::u64) result = static_cast<uint64_t>(value);
            return large || value >= 0;
        case Type::f32:
            result = word_of(static_cast<float>(value));
            return true;
        case Type::u8:
        case Type::i8:
            result = bits & 0xff;
            return true;
        default:
            result = static_cast<uint64_t>(value) & 0xffff;
            return true;
    }
}

}  // namespace

bool truthy(Type type, uint64_t bits) {
    if (type == Type::f32) return from_bits<float>(bits) != 0;
    return bits != 0;
}

bool as_u32(Type type, uint64_t bits, uint32_t& value) {
    if (type == Type::f32) {
        const float number = from_bits<float>(bits);
        if (!(number >= 0 && number <= 0x1.fffffep31F)) return false;
        value = static_cast<uint32_t>(number);
        return true;
    }
    value = static_cast<uint32_t>(bits);
    if (type == Type::i32) return static_cast<int32_t>(value) >= 0;
    return bits <= UINT32_MAX;
}

bool cast(Type from, Type to, uint64_t bits, uint64_t& value) {
    if (from == to) {
        value = bits;
        return true;
    }
    if (from == Type::f32) return cast_float(to, from_bits<float>(bits), value);
    if (from == Type::f16 || from == Type::bf16) {
        const auto half = static_cast<uint16_t>(bits);
        value = word_of(from == Type::f16 ? f32_of_f16(half) : f32_of_bf16(half));
        return true;
    }
    return cast_integer(from, to, bits, value);
}

uint32_t atomic_result(Op op, uint32_t old, uint32_t value, uint32_t expected) {
    switch (op) {
        case Op::atomic_add:
            return old + value;
        case Op::atomic_or:
            return old | value;
        case Op::atomic_and:
            return old & value;
        case Op::atomic_xor:
            return old ^ value;
        case Op::atomic_min:
            return std::min(old, value);
        case Op::atomic_exchange:
            return value;
        case Op::atomic_compare_exchange:
            return old == expected ? value : old;
        default:
            return std::max(old, value);
    }
}

}  // namespace kpu::values::kernel
