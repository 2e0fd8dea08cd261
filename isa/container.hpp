#pragma once

#include <string>
#include <string_view>

#include "isa/module.hpp"

namespace kpu {

/// Container (.kpu), little-endian: magic "KPUPROG\0", u32 version, u32 section count, section table
/// {u32 kind, u32 index, u64 offset, u64 size, u32 crc32c, u32 reserved}, u32 crc32c of everything before it; then the program (kind 1), then
/// 64-byte-aligned data sections (kind 2). A file is untrusted: sizes, offsets and counts are checked before use.

/// Reads a container; data sections are memory-mapped. Throws UserError naming the file and what is wrong
/// (a pickle is refused by name).
Module read_container(const std::string& path);
Module parse_container(std::string_view bytes, const std::string& origin);

std::string serialize_container(const Module& module);
/// Writes atomically (temporary file, then rename). Throws UserError.
void write_container(const Module& module, const std::string& path);

/// Structure checks that make every index, count and expression of an untrusted program safe to use.
/// Throws UserError naming the field.
void check_structure(const KPUProgram& program, const std::string& origin);

}  // namespace kpu
