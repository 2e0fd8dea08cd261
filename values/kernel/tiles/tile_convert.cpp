// Conversions between element types, kernels.md B8.
#include <algorithm>
#include <cmath>
#include <limits>

#include "values/kernel/tiles/tile_float.hpp"
#include "values/small_float.hpp"

namespace kpu::values::kernel {
namespace {

/// Truncated and saturated; NaN gives 0.
template <typename To>
To truncated(float value) {
    if (value != value) return 0;
    constexpr double least = static_cast<double>(std::numeric_limits<To>::min()),
                     most = static_cast<double>(std::numeric_limits<To>::max());
    const double whole = value;
    if (whole <= least) return std::numeric_limits<To>::min();
    if (whole >= most) return std::numeric_limits<To>::max();
    return static_cast<To>(whole);
}

struct Eighth {
    SmallFloat format;
    std::array<float, 256> values = small_float_values(format);
};
const Eighth& eighth_of(Type type) {
    static const std::array<Eighth, 3> in_order_of_types = {Eighth{e4m3fn}, Eighth{e5m2},
                                                            Eighth{e4m3b11fnuz}};
    return in_order_of_types[static_cast<size_t>(type) - static_cast<size_t>(Type::f8_e4m3fn)];
}

bool is_narrow_float(Type type) { return type != Type::f32 && contains(kpu::kernel::tile_floats, type); }

Tile narrowed(const Tile& from, Type to) {
    Tile result(to, from.shape);
    const float* in = from.as<float>();
    if (is_eighth(to)) {
        const SmallFloat& format = eighth_of(to).format;
        for (size_t i = 0; i < from.count(); ++i) result.make()[i] = small_float_of(flushed(in[i]), format);
        return result;
    }
    auto* out = result.make_as<uint16_t>();
    for (size_t i = 0; i < from.count(); ++i)
        out[i] = to == Type::f16 ? f16_of(flushed(in[i])) : bf16_of(flushed(in[i]));
    return result;
}

/// Returns the type of one byte with the same values; they stand in a byte each, extended by their sign.
Type byte_of(Type nibble) { return contains(kpu::kernel::tile_signed, nibble) ? Type::i8 : Type::u8; }

/// Returns the lowest bits of each byte.
Tile wrapped(const Tile& from, Type to) {
    Tile result(to, from.shape);
    const unsigned unused = 8 - kpu::kernel::storage_bits(to);
    const bool has_sign = byte_of(to) == Type::i8;
    for (size_t i = 0; i < from.count(); ++i) {
        const auto high = static_cast<uint8_t>(from.bytes()[i] << unused);
        result.make()[i] =
            static_cast<uint8_t>(has_sign ? static_cast<int8_t>(high) >> unused : high >> unused);
    }
    return result;
}

Tile from_float(const Tile& from, Type to);

/// Truncated and saturated.
Tile nibbles_of(const Tile& from, Type to) {
    const bool has_sign = byte_of(to) == Type::i8;
    const Tile bytes = from_float(from, byte_of(to));
    const int values = 1 << kpu::kernel::storage_bits(to), least = has_sign ? -values / 2 : 0;
    Tile result(to, from.shape);
    for (size_t i = 0; i < from.count(); ++i) {
        const int byte = has_sign ? static_cast<int8_t>(bytes.bytes()[i]) : bytes.bytes()[i];
        result.make()[i] = static_cast<uint8_t>(std::clamp(byte, least, least + values - 1));
    }
    return result;
}

Tile from_float(const Tile& from, Type to) {
    if (to == Type::f32) return from;
    if (is_narrow_float(to)) return narrowed(from, to);
    if (is_nibble(to)) return nibbles_of(from, to);
    Tile result(to, from.shape);
    const float* in = from.as<float>();
    const size_t count = from.count();
    if (to == Type::boolean) {
        uint8_t* out = result.make();
        for (size_t i = 0; i < count; ++i) out[i] = flushed(in[i]) != 0.0F;
        return result;
    }
    with_storage(to, [&](auto zero) {
        using To = decltype(zero);
        if constexpr (std::is_integral_v<To>) {
            To* out = result.make_as<To>();
            for (size_t i = 0; i < count; ++i) out[i] = truncated<To>(in[i]);
        }
    });
    return result;
}

Tile from_integer(const Tile& from, Type to) {
    Tile result(to, from.shape);
    const size_t count = from.count();
    with_storage(from.type, [&](auto from_zero) {
        using From = decltype(from_zero);
        if constexpr (std::is_integral_v<From>) {
            const From* in = from.as<From>();
            with_storage(to, [&](auto to_zero) {
                using To = decltype(to_zero);
                To* out = result.make_as<To>();
                if (to == Type::boolean)
                    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>(in[i] != 0);
                else
                    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>(in[i]);
            });
        }
    });
    return result;
}

}  // namespace

Tile widened(const Tile& tile) {
    if (!is_narrow_float(tile.type)) return tile;
    Tile result(Type::f32, tile.shape);
    float* out = result.make_as<float>();
    if (is_eighth(tile.type)) {
        const std::array<float, 256>& values = eighth_of(tile.type).values;
        for (size_t i = 0; i < tile.count(); ++i) out[i] = values[tile.bytes()[i]];
        return result;
    }
    const auto* in = tile.as<uint16_t>();
    for (size_t i = 0; i < tile.count(); ++i)
        out[i] = tile.type == Type::f16 ? f32_of_f16(in[i]) : f32_of_bf16(in[i]);
    return result;
}

bool computes_wide(Type type) { return is_narrow_float(type) || is_nibble(type); }

Tile computable(const Tile& tile) {
    return is_nibble(tile.type) ? tile.viewed(byte_of(tile.type), tile.shape) : widened(tile);
}

Tile computed_in(const Tile& wide, Type type) {
    return convert_tile(is_eighth(type) ? convert_tile(wide, Type::f16) : wide, type);
}

Tile convert_tile(const Tile& from, Type to) {
    if (from.type == to) return from;
    if (contains(kpu::kernel::tile_floats, from.type)) return from_float(widened(from), to);
    if (is_narrow_float(to)) return narrowed(from_integer(from, Type::f32), to);
    return is_nibble(to) ? wrapped(from_integer(from, Type::u8), to) : from_integer(from, to);
}

}  // namespace kpu::values::kernel
