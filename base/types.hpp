#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kpu {

/// Element types of tensors and regions. Values equal those of proto::ElemType, so files and code agree.
enum class ElemType : uint8_t {
    none = 0,
    i4 = 1,
    i8 = 2,
    i16 = 3,
    i32 = 4,
    u8 = 5,
    u16 = 6,
    u32 = 7,
    f16 = 8,
    bf16 = 9,
    f32 = 10,
    posit8 = 11,   ///< es 0
    posit16 = 12,  ///< es 1
    f8e4m3 = 13,   ///< OCP OFP8: no infinities, ONNX's FLOAT8E4M3FN
    f8e5m2 = 14,
    posit8_es1 = 15,
    posit8_es2 = 16,
    posit16_es0 = 17,
    posit16_es2 = 18,
    f6e2m3 = 19,  ///< elements of OCP's block formats (Microscaling 1.0): no infinities, no NaN
    f6e3m2 = 20,
    f4e2m1 = 21,
};
constexpr int elem_type_count = 22;

/// Returns the bits of one element in memory: i4 f4e2m1 4, i8 u8 posit8 f8e4m3 f8e5m2 f6e2m3 f6e3m2 8 (the
/// upper two of f6 are 0), i16 u16 f16 bf16 posit16 16, i32 u32 f32 32; none 0.
int bit_width(ElemType type);
std::string_view name_of(ElemType type);
std::optional<ElemType> parse_elem_type(std::string_view name);
bool is_float(ElemType type);    ///< f16, bf16, f32, posits, floats of 8 bits or fewer
bool is_integer(ElemType type);  ///< i4 .. u32
bool is_posit(ElemType type);
bool is_float8(ElemType type);       ///< f8e4m3, f8e5m2
bool is_small_float(ElemType type);  ///< the above, f6e2m3, f6e3m2, f4e2m1
bool shares_bytes(ElemType type);    ///< two elements lie in a byte, the first in its lower half: i4, f4e2m1
/// Returns posit8 or posit16 for those of any es: what devices have rates and prices of. Other types stay.
ElemType without_es(ElemType type);

/// Returns the bytes that hold `elements` densely packed elements (two of 4 bits share a byte).
uint64_t packed_bytes(ElemType type, uint64_t elements);

/// The memory level of a buffer. DDR and L2 belong to the device, L1 to one engine.
enum class Level : uint8_t { ddr = 0, l2 = 1, l1 = 2 };
std::string_view name_of(Level level);

using Picoseconds = uint64_t;
using Cycles = uint64_t;

}  // namespace kpu
