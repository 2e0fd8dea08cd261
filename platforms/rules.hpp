#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.hpp"
#include "base/types.hpp"
#include "platforms/platform.hpp"
#include "platforms/platform.pb.h"
#include "platforms/schema.hpp"

namespace kpu::platforms {

/// Element types of a MacRate: i8 means i8 x i8, i8xi4 an i4 second operand.
struct RateTypes {
    ElemType first, second;
};
/// Returns the types; nothing for a text that names no MAC of the energy table.
std::optional<RateTypes> rate_types(std::string_view text);

/// Lowers the size of DDR where, with fewer channels, fewer ranks or another device, DDR may hold less than
/// the file says. It does so where an override or the extending file (`changed`) says so without a size, and
/// `notes` (null: nobody) says so.
void fit_ddr_size(proto::Platform& platform, const Overrides& overrides, bool changed, Diagnostics* notes);
/// Fills in what follows from other fields: port widths of arrays and vector units, rate and size of the DDR.
void derive(proto::Platform& platform);
/// Rules that tie several fields together, after every single field was checked.
void check_rules(const proto::Platform& platform, const std::string& origin,
                 const schema::ParseInfoTree* places, Diagnostics& diagnostics);

}  // namespace kpu::platforms
