#pragma once

#include <string>
#include <string_view>

#include "base/diagnostics.hpp"
#include "platforms/platform.pb.h"

namespace kpu::platforms {

/// True if a .cfg file is a SCALE-Sim configuration: it begins with a section in brackets (or, wrongly, one
/// of its keys), where a NEM file has declarations.
bool is_scale_sim_config(std::string_view text);

/// Returns the platform of a SCALE-Sim configuration; the rest is left unset. The array is the file's, its
/// timing `compat`; its SRAM never limits it, as in that tool. Keys that are not modelled and unknown ones
/// are reported as info.
proto::Platform scale_sim_fields(std::string_view text, const std::string& origin, Diagnostics& diagnostics);

}  // namespace kpu::platforms
