#pragma once

#include <string>
#include <string_view>

#include "isa/module.hpp"

namespace kpu {

/// First bytes of a container.
constexpr std::string_view container_magic("KPUPROG\0", 8);

/// True if a file begins as a Python pickle, which is refused by name.
bool is_pickle(std::string_view head);

/// Container (.kpu), little-endian: magic "KPUPROG\0", u32 version, u32 section count, section table
/// {u32 kind, u32 index, u64 offset, u64 size, u32 crc32c, u32 reserved}, u32 crc32c of everything before it;
/// then the program (kind 1; kind 3: packed by zlib), then 64-byte-aligned data sections (kind 2). A file is untrusted: sizes,
/// offsets and counts are checked before use.

/// The layout is canonical: sections follow each other in that order, padding is zero, nothing follows the
/// last one. Reads a container; data sections are memory-mapped; side files are found relative to the
/// container's folder. Throws UserError naming the file and what is wrong (a pickle is refused by name).
Module read_container(const std::string& path);
/// Returns the same from memory; data sections are copied, side files are found relative to the folder of
/// `origin`.
Module parse_container(std::string_view bytes, const std::string& origin);

/// Maps the side file of a data entry, found relative to `folder`, and checks its size and SHA-256. Throws
/// UserError.
DataSection load_side_file(const proto::Data& data, const std::string& folder);

std::string serialize_container(const Module& module);
/// Returns an SHA-256 (hex) that tells programs apart. For data it takes the recorded digests, so mapped
/// bytes stay unread.
std::string program_digest(const Module& module);
/// Writes atomically (temporary file, then rename). Throws UserError.
void write_container(const Module& module, const std::string& path);

/// Checks the structure so that every index, count and expression of an untrusted program is safe to use.
/// Throws UserError naming the field.
void check_structure(const KPUProgram& program, const std::string& origin);
/// The same but for fields that this version does not know and for what the text of a kernel cannot hold, which
/// only foreign bytes can have: a reader of bytes has refused them, and looking again would take a third of a
/// verification.
void check_form(const KPUProgram& program, const std::string& origin);

}  // namespace kpu
