#pragma once

#include <cstddef>
#include <string_view>

namespace kpu {

/// A text file compiled into the program (shipped platforms, type families), so that no install path is
/// needed.
struct EmbeddedFile {
    std::string_view name;
    std::string_view text;
};

}  // namespace kpu
