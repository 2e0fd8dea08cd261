#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpu {

/// Returns the candidate nearest to `name` by edit distance, one that begins with it, or that it begins with,
/// before others (the first of equals); empty when there is no candidate.
std::string nearest_name(std::string_view name, const std::vector<std::string_view>& candidates);

/// Removes blanks, tabs and carriage returns at both ends.
std::string_view trimmed(std::string_view text);
/// Cuts the first line off `text`, and gives it trimmed.
std::string_view take_line(std::string_view& text);

bool starts_with(std::string_view text, std::string_view start);
bool ends_with(std::string_view text, std::string_view end);

}  // namespace kpu
