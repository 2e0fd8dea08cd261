#include "base/types.hpp"

#include <array>

namespace kpu {
namespace {

struct TypeRow {
    std::string_view name;
    int bits;
};
constexpr std::array<TypeRow, elem_type_count> type_rows = {
    {{"none", 0},       {"i4", 4},         {"i8", 8},           {"i16", 16},         {"i32", 32},
     {"u8", 8},         {"u16", 16},       {"u32", 32},         {"f16", 16},         {"bf16", 16},
     {"f32", 32},       {"posit8", 8},     {"posit16", 16},     {"f8e4m3", 8},       {"f8e5m2", 8},
     {"posit8_es1", 8}, {"posit8_es2", 8}, {"posit16_es0", 16}, {"posit16_es2", 16}, {"f6e2m3", 8},
     {"f6e3m2", 8},     {"f4e2m1", 4}}};
constexpr std::array<std::string_view, 3> level_names = {"DDR", "L2", "L1"};

}  // namespace

int bit_width(ElemType type) { return type_rows[static_cast<size_t>(type)].bits; }

std::string_view name_of(ElemType type) { return type_rows[static_cast<size_t>(type)].name; }

std::optional<ElemType> parse_elem_type(std::string_view name) {
    for (size_t i = 1; i < type_rows.size(); ++i) {
        if (type_rows[i].name == name) return static_cast<ElemType>(i);
    }
    return std::nullopt;
}

bool is_float(ElemType type) { return type >= ElemType::f16; }

bool is_posit(ElemType type) { return type >= ElemType::posit8 && !is_small_float(type); }

bool is_float8(ElemType type) { return type == ElemType::f8e4m3 || type == ElemType::f8e5m2; }

bool is_small_float(ElemType type) {
    return is_float8(type) || type == ElemType::f6e2m3 || type == ElemType::f6e3m2 ||
           type == ElemType::f4e2m1;
}

bool shares_bytes(ElemType type) { return type == ElemType::i4 || type == ElemType::f4e2m1; }

ElemType without_es(ElemType type) {
    if (!is_posit(type)) return type;
    return bit_width(type) == 8 ? ElemType::posit8 : ElemType::posit16;
}

bool is_integer(ElemType type) { return type >= ElemType::i4 && type <= ElemType::u32; }

uint64_t packed_bytes(ElemType type, uint64_t elements) {
    const auto bits = static_cast<uint64_t>(bit_width(type));
    return bits >= 8 ? elements * (bits / 8) : (elements * bits + 7) / 8;
}

std::string_view name_of(Level level) { return level_names[static_cast<size_t>(level)]; }

}  // namespace kpu
