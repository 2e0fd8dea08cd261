#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"

namespace kpu::platforms {

/// A value that is more than a number in its field: a formula, or the factor of a group of fields.
struct LinkedValue {
    std::string path;  ///< engine[0].array.cols, scale.array
    std::string text;
    SourcePos pos;  ///< no file: --set
};

/// A platform's text without what protobuf's numbers cannot hold.
struct LinkedText {
    std::string plain;  ///< blanks where the values below stood: places in it are those of the file
    std::vector<LinkedValue> formulas, scales;
};

/// Takes formulas (`cols: "2 * engine.array.rows"`) and the block `scale { array: 2 }` out of a platform's text.
/// What is wrong with them goes to `diagnostics`; what is wrong elsewhere stays for the parser of protobuf text.
LinkedText take_linked(std::string_view text, const std::string& origin, Diagnostics& diagnostics);

}  // namespace kpu::platforms
