#pragma once

#include <string>
#include <string_view>

namespace kpu {

/// Returns `text` as XML 1.0 has it between tags and in quoted attributes, where it reads back the same. What
/// no XML may have (control characters, bytes that are not UTF-8) becomes U+FFFD.
std::string xml_text(std::string_view text);

}  // namespace kpu
