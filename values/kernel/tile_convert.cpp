// Conversions between element types, kernels.md B8.
#include <cmath>
#include <limits>

#include "values/convert.hpp"
#include "values/kernel/tile_float.hpp"

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

Tile narrowed(const Tile& from, Type to) {
    Tile result(to, from.shape);
    const float* in = from.as<float>();
    auto* out = result.make_as<uint16_t>();
    for (size_t i = 0; i < from.count(); ++i)
        out[i] = to == Type::f16 ? f16_of(flushed(in[i])) : bf16_of(flushed(in[i]));
    return result;
}

Tile from_float(const Tile& from, Type to) {
    if (to == Type::f32) return from;
    if (to == Type::f16 || to == Type::bf16) return narrowed(from, to);
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
    if (tile.type != Type::f16 && tile.type != Type::bf16) return tile;
    Tile result(Type::f32, tile.shape);
    const auto* in = tile.as<uint16_t>();
    float* out = result.make_as<float>();
    for (size_t i = 0; i < tile.count(); ++i)
        out[i] = tile.type == Type::f16 ? f32_of_f16(in[i]) : f32_of_bf16(in[i]);
    return result;
}

Tile convert_tile(const Tile& from, Type to) {
    if (from.type == to) return from;
    if (from.type == Type::f16 || from.type == Type::bf16) return from_float(widened(from), to);
    if (from.type == Type::f32) return from_float(from, to);
    if (to == Type::f16 || to == Type::bf16) return narrowed(from_integer(from, Type::f32), to);
    return from_integer(from, to);
}

}  // namespace kpu::values::kernel
