#pragma once
#include "compiler/pallas/export.hpp"
#include "isa/module.hpp"

namespace kpu::compiler::pallas {

/// Returns the program of an export: arrays in DDR, a launch for each call, in order. Throws UserError.
Module lower(const Export& program, const std::string& origin);

}  // namespace kpu::compiler::pallas
