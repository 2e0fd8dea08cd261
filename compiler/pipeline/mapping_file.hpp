#pragma once
// Mappings in a file: JSON, {"OPERATION": {"tile": {"h": 8}, "engines": {"h": 2}, "in_flight": 3, "output": "L2", "fuse":
// false}}; each field may be left out.
#include <string>

#include "compiler/emit/emit.hpp"

namespace kpu::pipeline {

/// Throws UserError that names the file, the operation and the field.
compiler::MappingWishes read_mapping(const std::string& path);

/// The mapping of each operation, for a person to change. Operations that share a name are left out.
void write_mapping(const compiler::Lowered& lowered, const std::string& path);

}  // namespace kpu::pipeline
