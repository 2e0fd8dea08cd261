#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace kpu {

/// Kinds of units that execute tasks. SEQ and WDM never execute a task themselves.
enum class UnitKind : uint8_t { nmu = 0, cstl = 1, dma = 2, vpu = 3, seq = 4, sdma = 5, wdm = 6 };
std::string_view name_of(UnitKind kind);  ///< as NEM spells it: NMU CSTL DMA VPU SEQ sDMA WDM
std::optional<UnitKind> parse_unit_kind(std::string_view name);

}  // namespace kpu
