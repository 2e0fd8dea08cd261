#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kpu::kernel {

/// Types of kernel values and of the elements of their buffers.
enum class Type : uint8_t {
    none,
    boolean,  ///< a u32 word in a buffer, 0 or 1
    u32,
    i32,
    u64,  ///< two u32 words in a buffer
    f32,
    // from here on: loaded as raw bits, moved, and computed with only after a cast
    u8,
    i8,
    u16,
    i16,
    f16,
    bf16,
    i4,
    // only values of rule set xla have these; buffers hold them as i8 or u8
    u4,
    i2,
    u2,
    f8_e4m3fn,  ///< as jax names them: fn has no infinity, uz no -0
    f8_e5m2,
    f8_e4m3b11fnuz,
    bytes,  ///< raw memory: copied, never loaded
};
constexpr int type_count = 20;

using TypeSet = uint32_t;
constexpr TypeSet set_of(Type type) { return static_cast<TypeSet>(1u << static_cast<unsigned>(type)); }
template <typename... Types>
constexpr TypeSet set_of(Type first, Types... rest) {
    return static_cast<TypeSet>(set_of(first) | set_of(rest...));
}
constexpr bool contains(TypeSet set, Type type) { return (set & set_of(type)) != 0; }

constexpr TypeSet words = set_of(Type::u32, Type::i32, Type::u64);
constexpr TypeSet computed = set_of(Type::boolean, Type::u32, Type::i32, Type::u64, Type::f32);
constexpr TypeSet narrow = set_of(Type::u8, Type::i8, Type::u16, Type::i16, Type::f16, Type::bf16);
constexpr TypeSet only_values =
    set_of(Type::u4, Type::i2, Type::u2, Type::f8_e4m3fn, Type::f8_e5m2, Type::f8_e4m3b11fnuz);

std::string_view name_of(Type type);
std::optional<Type> parse_type(std::string_view name);
/// Returns the bits of an element in a buffer.
unsigned storage_bits(Type type);
/// Returns the types that a value of `type` may be cast to.
TypeSet legal_casts(Type type);
/// Returns "`bool`, `u32`" in the order of the enumeration.
std::string names_of(TypeSet set);

/// Returns a float as operations take and give it: NaN is 7FC00000, a subnormal is the zero of its sign.
constexpr uint32_t canonical(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude < 0x00800000u) return bits & 0x80000000u;
    return magnitude > 0x7f800000u ? 0x7fc00000u : bits;
}

/// Returns "U32(1)", "I32(-2)", "Bool(true)", "Float(1.0)": a value in messages.
std::string value_text(Type type, uint64_t bits);

}  // namespace kpu::kernel
