#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kpu::platforms {

/// Properties of one field of a platform: serves the loader's checks, `--set`, messages and the
/// documentation.
struct ParameterInfo {
    std::string path;  ///< engine.array.rows: names of the schema joined by dots
    std::string type;  ///< text, integer, real, boolean, or the values of an enumeration: os|ws|is
    std::string unit;  ///< cycle, byte, MHz, ...; empty for text and plain numbers
    std::string
        default_value;  ///< value that a NEM device and a file that may leave the field out get; empty: see
                        ///< `meaning`
    bool required;      ///< a platform file must have it; a NEM device never must
    double min, max;    ///< range of numbers, inclusive
    bool power_of_two;
    std::string meaning;  ///< one line
};

/// Returns every leaf field of the platform schema, in schema order.
const std::vector<ParameterInfo>& parameters();
/// Returns the row of a path without indices; null when there is none.
const ParameterInfo* find_parameter(std::string_view path);

}  // namespace kpu::platforms
