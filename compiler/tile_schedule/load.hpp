#pragma once

#include <string>

#include "compiler/source.hpp"
#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

/// Returns a schedule of any form, with the header of a file of its own (empty: none); not checked yet.
/// Throws UserError.
Schedule load_schedule(const compiler::Source& source, const std::string& header);

}  // namespace kpu::tile_schedule
