#include "base/html_page.hpp"

#include <fmt/format.h>

#include "base/diagnostics.hpp"
#include "base/embedded_file.hpp"

namespace kpu {

extern const EmbeddedFile page_style[];

namespace {

void put(std::string& page, std::string_view mark, std::string_view text) {
    const size_t place = page.find(mark);
    if (place == std::string::npos) throw InternalError(fmt::format("a page has no place for its {}", mark));
    page.replace(place, mark.size(), text);
}

}  // namespace

std::string html_page(std::string_view page, std::string json) {
    for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
    std::string whole(page);
    put(whole, "@STYLE@", page_style[0].text);
    put(whole, "@DATA@", json);
    return whole;
}

}  // namespace kpu
