#include "platforms/csv.hpp"

#include <fmt/format.h>

#include <charconv>

#include "base/diagnostics.hpp"
#include "base/text.hpp"
#include "platforms/library.hpp"

namespace kpu::platforms {

std::vector<std::vector<std::string_view>> shipped_rows(std::string_view file_name, size_t columns) {
    const auto text = embedded_text(file_name);
    if (!text) throw InternalError(fmt::format("{} is not in the program", file_name));
    std::vector<std::vector<std::string_view>> rows;
    bool names = true;
    for (std::string_view rest = *text; !rest.empty();) {
        std::string_view line = take_line(rest);
        if (line.empty() || line.front() == '#') continue;
        if (std::exchange(names, false)) continue;
        std::vector<std::string_view> cells;
        while (cells.size() + 1 < columns) {
            const size_t comma = line.find(',');
            if (comma == std::string_view::npos)
                throw InternalError(
                    fmt::format("{}: `{}` has fewer than {} cells", file_name, line, columns));
            cells.push_back(line.substr(0, comma));
            line.remove_prefix(comma + 1);
        }
        cells.push_back(line);
        rows.push_back(std::move(cells));
    }
    return rows;
}

double number_of(std::string_view cell) {
    double value = 0;
    const auto result = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (result.ec != std::errc() || result.ptr != cell.data() + cell.size())
        throw InternalError(fmt::format("`{}` in a data file is not a number", cell));
    return value;
}

}  // namespace kpu::platforms
