#pragma once

#include <string>

#include "traces/diff/diff.hpp"

namespace kpu::runtime {

/// The run that a folder holds, with the parameters of its platform. Throws UserError.
traces::DiffSide read_side(const std::string& folder);

}  // namespace kpu::runtime
