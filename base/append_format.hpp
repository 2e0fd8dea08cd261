#pragma once

#include <fmt/format.h>

#include <string>

namespace kpu {

void append_formatted(std::string& text, fmt::string_view format, fmt::format_args arguments);
void append_formatted(fmt::memory_buffer& text, fmt::string_view format, fmt::format_args arguments);

/// fmt::format_to(std::back_inserter(text), ...): that compiles all of the library's formatting, seconds of it, into every
/// source that calls it, this into one. `Text` is a std::string or a fmt::memory_buffer.
template <typename Text, typename... Args>
void append_format(Text& text, fmt::format_string<Args...> format, Args&&... arguments) {
    append_formatted(text, format, fmt::make_format_args(arguments...));
}

}  // namespace kpu
