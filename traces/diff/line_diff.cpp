#include "traces/diff/line_diff.hpp"

#include <algorithm>

namespace kpu::traces {

namespace {

using Lines = std::vector<std::string_view>;

constexpr size_t max_middle = 2000;

Lines split(std::string_view text) {
    Lines lines;
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// keep[i][j]: longest common subsequence of a[i..] and b[j..].
std::vector<std::vector<uint16_t>> common(const Lines& a, const Lines& b) {
    std::vector<std::vector<uint16_t>> keep(a.size() + 1, std::vector<uint16_t>(b.size() + 1, 0));
    for (size_t i = a.size(); i-- > 0;) {
        for (size_t j = b.size(); j-- > 0;) {
            keep[i][j] = a[i] == b[j] ? static_cast<uint16_t>(keep[i + 1][j + 1] + 1)
                                      : std::max(keep[i + 1][j], keep[i][j + 1]);
        }
    }
    return keep;
}

}  // namespace

std::vector<LineChange> line_changes(std::string_view text_a, std::string_view text_b) {
    Lines a = split(text_a), b = split(text_b);
    size_t head = 0;
    while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
    while (a.size() > head && b.size() > head && a.back() == b.back()) {
        a.pop_back();
        b.pop_back();
    }
    a.erase(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(head));
    b.erase(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(head));
    std::vector<LineChange> changes;
    if (a.empty() && b.empty()) return changes;
    if (a.size() > max_middle || b.size() > max_middle)
        return {{head + 1, {a.begin(), a.end()}, {b.begin(), b.end()}}};
    const auto keep = common(a, b);
    bool open = false;
    for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
        if (i < a.size() && j < b.size() && a[i] == b[j]) {
            open = false;
            ++i, ++j;
            continue;
        }
        if (!open) changes.push_back({head + i + 1, {}, {}});
        open = true;
        if (j == b.size() || (i < a.size() && keep[i + 1][j] >= keep[i][j + 1])) {
            changes.back().a.emplace_back(a[i++]);
        } else {
            changes.back().b.emplace_back(b[j++]);
        }
    }
    return changes;
}

}  // namespace kpu::traces
