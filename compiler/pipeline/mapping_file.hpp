#pragma once
// Mappings in a file: JSON, {"OPERATION": {"tile": {"h": 8}, "engines": {"h": 2}, "in_flight": 3, "output": "L2", "fuse":
// false}}; each field may be left out. "__device": {"engines": 2, "staging_bytes": 65536} is the part of the device that works, where it
// is not all of it.
#include <string>

#include "compiler/pipeline/division.hpp"

namespace kpu::pipeline {

/// Throws UserError that names the file, the operation and the field.
compiler::MappingWishes read_mapping(const std::string& path);

/// Writes the mapping of each operation, for a person to change. Operations that share a name are left out.
void write_mapping(const compiler::Lowered& lowered, const Division& division, const std::string& path);

}  // namespace kpu::pipeline
