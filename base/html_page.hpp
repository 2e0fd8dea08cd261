#pragma once

#include <string>
#include <string_view>

namespace kpu {

/// Returns a page that needs no other file: `page` with the style of all our pages in place of @STYLE@, and
/// `json` in place of @DATA@, where it cannot end the script that holds it. Throws InternalError when the
/// page lacks one of them.
std::string html_page(std::string_view page, std::string json);

}  // namespace kpu
