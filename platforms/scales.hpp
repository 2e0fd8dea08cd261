#pragma once

#include <string>
#include <vector>

namespace kpu::platforms {

/// Fields that belong together: `--set scale.array=2` multiplies each that has a value of its own; what
/// follows from others follows.
struct ScaleInfo {
    std::string path;  ///< scale.array
    std::vector<std::string> fields;
    std::string meaning;  ///< one line, with the fields
};
const std::vector<ScaleInfo>& scales();

}  // namespace kpu::platforms
