#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "isa/unit_kind.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// Returns the units of a kind that an engine (null: the device) has, from the field that the kind's row
/// names; 1 where it names none.
uint32_t unit_count(const proto::Platform& platform, const proto::Engine* engine, UnitKind kind);

/// Returns work per core cycle of one unit at best: MACs of the array's base type, elements, bytes; 0 where
/// the kind's row names no field.
double unit_peak(const proto::Platform& platform, const proto::Engine* engine, UnitKind kind);

/// Returns the clock that units of a domain run on; of `ddr`: the one of the DRAM's commands.
Clock clock_of(const proto::Platform& platform, ClockDomain domain);

}  // namespace kpu::platforms
