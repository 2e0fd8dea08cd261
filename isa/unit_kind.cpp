#include "isa/unit_kind.hpp"

#include <array>

namespace kpu {
namespace {

constexpr std::array<std::string_view, 7> unit_names = {"NMU", "CSTL", "DMA", "VPU", "SEQ", "sDMA", "WDM"};

}  // namespace

std::string_view name_of(UnitKind kind) { return unit_names[static_cast<size_t>(kind)]; }

std::optional<UnitKind> parse_unit_kind(std::string_view name) {
    for (size_t i = 0; i < unit_names.size(); ++i) {
        if (unit_names[i] == name) return static_cast<UnitKind>(i);
    }
    return std::nullopt;
}

}  // namespace kpu
