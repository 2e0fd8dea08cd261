#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpu::traces {

/// A place where two texts differ: lines of A that became lines of B.
struct LineChange {
    size_t line = 0;  ///< in A, from 1; where B's lines would stand when A has none
    std::vector<std::string> a, b;
};

/// Returns the fewest lines to take out and put in, from top to bottom. Where more than 2,000 lines lie
/// between the first and the last difference, these are one change.
std::vector<LineChange> line_changes(std::string_view a, std::string_view b);

}  // namespace kpu::traces
