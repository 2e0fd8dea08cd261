#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/append_format.hpp"

namespace kpu {

/// Text for people, made line by line: the base of what writes a report.
class TextLines {
  protected:
    template <typename... Args>
    void line(fmt::format_string<Args...> format, Args&&... args) {
        append_format(out_, format, std::forward<Args>(args)...);
        out_.push_back('\n');
    }
    /// Returns all lines so far.
    std::string lines() const { return fmt::to_string(out_); }

  private:
    fmt::memory_buffer out_;
};

}  // namespace kpu
