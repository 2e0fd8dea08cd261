#include "isa/kernel/types.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/name_index.hpp"

namespace kpu::kernel {
namespace {

struct Row {
    std::string_view name;
    unsigned bits;
};
constexpr std::array<Row, type_count> rows = {{{"none", 0},
                                               {"bool", 32},
                                               {"u32", 32},
                                               {"i32", 32},
                                               {"u64", 64},
                                               {"f32", 32},
                                               {"u8", 8},
                                               {"i8", 8},
                                               {"u16", 16},
                                               {"i16", 16},
                                               {"f16", 16},
                                               {"bf16", 16},
                                               {"i4", 4},
                                               {"u4", 4},
                                               {"i2", 2},
                                               {"u2", 2},
                                               {"f8_e4m3fn", 8},
                                               {"f8_e5m2", 8},
                                               {"f8_e4m3b11fnuz", 8},
                                               {"bytes", 8}}};

}  // namespace

std::string_view name_of(Type type) { return rows[static_cast<size_t>(type)].name; }

std::optional<Type> parse_type(std::string_view name) {
    static const NameIndex<Row> index(rows, &Row::name);
    const Row* const found = index.find(name);
    if (found == nullptr || found == rows.data()) return std::nullopt;  // `none` is no type
    return static_cast<Type>(found - rows.data());
}

unsigned storage_bits(Type type) { return rows[static_cast<size_t>(type)].bits; }

TypeSet legal_casts(Type type) {
    constexpr TypeSet integers =
        set_of(Type::boolean, Type::u32, Type::i32, Type::u64, Type::u8, Type::i8, Type::u16, Type::i16);
    constexpr TypeSet from_f32 =
        set_of(Type::boolean, Type::u32, Type::i32, Type::u64, Type::f32, Type::f16, Type::bf16);
    switch (type) {
        case Type::f32:
            return from_f32;
        case Type::f16:
        case Type::bf16:
            return set_of(type, Type::f32);
        case Type::boolean:
        case Type::u32:
        case Type::i32:
            return static_cast<TypeSet>(integers | set_of(Type::f32));
        case Type::u64:
        case Type::u8:
        case Type::i8:
        case Type::u16:
        case Type::i16:
            return integers;
        default:
            break;
    }
    return 0;
}

std::string names_of(TypeSet set) {
    std::string text;
    for (int i = 1; i < type_count; ++i) {
        const auto type = static_cast<Type>(i);
        if (contains(set, type)) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name_of(type));
    }
    return text;
}

std::string value_text(Type type, uint64_t bits) {
    const auto word = static_cast<uint32_t>(bits);
    switch (type) {
        case Type::boolean:
            return fmt::format("Bool({})", bits != 0);
        case Type::i32:
            return fmt::format("I32({})", static_cast<int32_t>(word));
        case Type::u64:
            return fmt::format("U64({})", bits);
        case Type::f32: {
            float value;
            std::memcpy(&value, &word, sizeof value);
            std::string text = fmt::format("{}", value);
            if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
            return fmt::format("Float({})", text);
        }
        case Type::u32:
            return fmt::format("U32({})", word);
        default:
            return fmt::format("{}({})", name_of(type), bits);
    }
}

}  // namespace kpu::kernel
