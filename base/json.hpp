#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kpu {

// Compiled once, here: the library's parser and printer are templates that take seconds in every source.

/// Returns the document in `text`. Throws UserError "no JSON at byte N", or "a number beyond double".
nlohmann::json parse_json(std::string_view text);

/// Writes JSON, compact without `indent`, else with lines of so many blanks a level. Bytes that are not UTF-8
/// are replaced by U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);

/// Returns the same, compact, but bytes that are not UTF-8 are refused: UserError.
std::string exact_json_text(const nlohmann::json& value);

/// Returns `text` as a JSON string, quotes included.
std::string json_quoted(std::string_view text);

}  // namespace kpu
