#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace kpu::platforms {

/// Whether a text that is no plain value is meant as a formula: it names a field, or has an operator.
bool is_formula(std::string_view text);

/// The names of fields in a formula, which need not be a right one.
std::vector<std::string> names_of(std::string_view text);

/// The value of a formula over fields: numbers (64KiB too), names with dots, + - * / // %, brackets, min, max, floor,
/// ceil, round, sqrt and log2, as in sweeps. `number_of` gives the value of a name, and throws where there is none.
/// Throws UserError with the column of what is wrong; never recurses deeper than the limit on brackets.
double formula_value(std::string_view text, const std::function<double(std::string_view name)>& number_of);

}  // namespace kpu::platforms
