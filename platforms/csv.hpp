#pragma once

#include <string_view>
#include <vector>

namespace kpu::platforms {

/// Returns the rows of a data file that ships with kpusim: lines of `columns` cells with commas between, of
/// which the last may hold more; lines that begin with # and the first other one, the names, are left out.
/// Throws InternalError where one is short.
std::vector<std::vector<std::string_view>> shipped_rows(std::string_view file_name, size_t columns);

/// Returns a number in such a cell. Throws InternalError.
double number_of(std::string_view cell);

}  // namespace kpu::platforms
