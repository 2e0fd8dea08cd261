#include "base/append_format.hpp"

#include <iterator>

namespace kpu {

void append_formatted(std::string& text, fmt::string_view format, fmt::format_args arguments) {
    fmt::vformat_to(std::back_inserter(text), format, arguments);
}

void append_formatted(fmt::memory_buffer& text, fmt::string_view format, fmt::format_args arguments) {
    fmt::vformat_to(std::back_inserter(text), format, arguments);
}

}  // namespace kpu
