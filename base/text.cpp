#include "base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace kpu {
namespace {

/// Returns the Levenshtein distance; names are cut at 64 characters, enough to suggest one.
size_t edit_distance(std::string_view a, std::string_view b) {
    a = a.substr(0, 64);
    b = b.substr(0, 64);
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 0; i < a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < b.size(); ++j) {
            const size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
        }
    }
    return row.back();
}

/// Returns the distance between two names in halves of a change. A candidate that begins with the name is as
/// near as one with a letter changed (`cyc`, `cycles`); nearer is one that most of the name is, but for an
/// ending without a dot (`requantize`, `requant`).
size_t distance_of(std::string_view name, std::string_view candidate) {
    if (name == candidate) return 0;
    const bool ending = candidate.size() * 2 > name.size() && starts_with(name, candidate);
    if (ending && name.find('.', candidate.size()) == std::string_view::npos) return 1;
    if (name.size() > 2 && starts_with(candidate, name)) return 2;
    return 2 * edit_distance(name, candidate);
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string_view>& candidates) {
    std::string_view best;
    size_t best_distance = SIZE_MAX;
    for (const std::string_view candidate : candidates) {
        const size_t distance = distance_of(name, candidate);
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return std::string(best);
}

std::string_view trimmed(std::string_view text) {
    constexpr std::string_view blanks = " \t\r";
    const size_t first = text.find_first_not_of(blanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string_view take_line(std::string_view& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return trimmed(line);
}

bool starts_with(std::string_view text, std::string_view start) {
    return text.substr(0, start.size()) == start;
}

bool ends_with(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace kpu
