#pragma once
// The four forms of a schedule. A file is untrusted: what is wrong is named with its line or its op.
//
//   text      # comment
//             tile 32 f32                     header: tile size and type of the operands,
//             arena l1 65536                  where the arena is and what it has (optional: all of L1[0]),
//             tensor 0 x 128 128 input        id, name, rows, columns, role; then type and scale=S, optional
//             L tensor row col dst            LOAD     (any op may end with buffer=N)
//             E m n k a b acc                 EXECUTE
//             S tensor row col src relu       STORE, relu 0 or 1
//             The header may be a file of its own.
//   packed    little-endian; the header is a file of its own. Per op its type, u8: 0 1 2, and 3 zero bytes, then
//             LOAD     tensor row col dst bytes  u32 each, buffer i32
//             EXECUTE  m n k a b acc             u32 each, buffer i32
//             STORE    tensor row col src bytes  u32 each, activation u8: 0 1, and 3 zero bytes
//   protobuf  tile_schedule.proto
//   json      {"format": "kpusim.tile_schedule/1", "tile": ..., "tensors": [...], "ops": [...]}, for people
#include <optional>
#include <string>
#include <string_view>

#include "compiler/tile_schedule/schedule.hpp"

namespace kpu::tile_schedule {

enum class Form : uint8_t { text, packed, protobuf, json };
std::string_view name_of(Form form);
std::optional<Form> parse_form(std::string_view name);

/// Returns the form of a file by its first bytes; nothing when it is no schedule. A text of header lines
/// alone is one.
std::optional<Form> form_of(std::string_view bytes);

/// Reads a schedule of any form; throws UserError with every mistake found. Without a header its ops are as
/// they stand, and `has_header` is false.
Schedule read_schedule(std::string_view bytes, const std::string& origin);
/// Reads a header from a file of its own (text). Throws UserError.
Header read_header(std::string_view text, const std::string& origin);
/// Gives a schedule without header its header. Throws UserError when it has one.
void set_header(Schedule& schedule, Header header);

/// Throws UserError on what the form has no place for: packed, the buffer of a STORE.
std::string write_schedule(const Schedule& schedule, Form form);
std::string header_text(const Header& header);

}  // namespace kpu::tile_schedule
