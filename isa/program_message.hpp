#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isa/module.hpp"

namespace kpu {

/// A program without a container is its KPUProgram message alone, serialized or as protobuf text. Its data stand in
/// side files only; it has no checksum, so that what is cut between two fields goes unseen.
enum class MessageForm { serialized, text };

/// Tells the form by the first bytes of a file; nothing if it is neither. A serialized message is told by its
/// fields, a text by its first word, which is a field's name followed by `:` or `{`.
std::optional<MessageForm> message_form(std::string_view head);

/// Reads one of the two forms, as told by message_form(). What a container is refused for, it is refused for, with the
/// byte or the line; parts of a text are known by their places. Side files are found relative to the folder of
/// `origin`. Throws UserError.
Module read_message(std::string_view bytes, const std::string& origin);

constexpr uint64_t max_program_bytes = 1u << 30;

enum class Packing { none, zlib };
/// Parses at most max_program_bytes; false if the bytes are no such message.
bool parse_message(std::string_view bytes, Packing packing, KPUProgram& program);
/// Returns " at byte N (KPUProgram.statement[2].task): truncated ..."; empty if nothing is wrong with the
/// form.
std::string fault_text(std::string_view bytes);

}  // namespace kpu
