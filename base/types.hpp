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
    f8e4m3 = 13,   ///< of OCP OFP8: no infinities, ONNX's FLOAT8E4M3FN
    f8e5m2 = 14,
    posit8_es1 = 15,
    posit8_es2 = 16,
    posit16_es0 = 17,
    posit16_es2 = 18,
};
constexpr int elem_type_count = 19;

/// Bits of one element: i4 4, i8 u8 posit8 f8e4m3 f8e5m2 8, i16 u16 f16 bf16 posit16 16, i32 u32 f32 32; none 0.
int bit_width(ElemType type);
std::string_view name_of(ElemType type);
std::optional<ElemType> parse_elem_type(std::string_view name);
bool is_float(ElemType type);    ///< f16, bf16, f32, posits, f8e4m3, f8e5m2
bool is_integer(ElemType type);  ///< i4 .. u32
bool is_posit(ElemType type);
bool is_float8(ElemType type);  ///< f8e4m3, f8e5m2
/// posit8 or posit16 for those of any es: what devices have rates and prices of. Other types stay.
ElemType without_es(ElemType type);

/// Bytes that hold `elements` densely packed elements (two i4 share a byte).
uint64_t packed_bytes(ElemType type, uint64_t elements);

/// Where a buffer lives. DDR and L2 belong to the device, L1 to one engine.
enum class Level : uint8_t { ddr = 0, l2 = 1, l1 = 2 };
std::string_view name_of(Level level);

using Picoseconds = uint64_t;
using Cycles = uint64_t;

}  // namespace kpu
