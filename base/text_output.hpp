#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/append_format.hpp"

namespace kpu {

/// The destination of a writer's bytes: a file, or a string. A regular file is written under a temporary name
/// beside it and renamed by finish(), so a reader never sees half of it; without finish() the temporary file
/// is removed. Links are followed. What exists and is no regular file (a device, a pipe, an open descriptor
/// such as /dev/stdout) is written in place.
class Output {
  public:
    /// Opens `path` for writing. Throws UserError naming the path and the system's reason.
    static Output to_file(const std::string& path);
    static Output to_string(std::string& target);
    /// Throws where to_file() would, and leaves nothing. A pipe is not opened: its reader would see an end.
    static void check(const std::string& path);
    Output(Output&& other) noexcept;
    Output& operator=(Output&&) = delete;
    ~Output();

    void write(std::string_view bytes) {
        buffer_.append(bytes.data(), bytes.data() + bytes.size());
        if (buffer_.size() >= flush_size) flush();
    }
    template <typename... Args>
    void print(fmt::format_string<Args...> format, Args&&... args) {
        append_format(buffer_, format, std::forward<Args>(args)...);
        if (buffer_.size() >= flush_size) flush();
    }
    /// Ends the output: everything is written under the final name after this. Throws UserError.
    void finish();
    const std::string& path() const { return path_; }  ///< as it was given; empty of a string

  private:
    Output() = default;
    void open_temporary(unsigned mode);
    void flush();
    void discard() noexcept;
    [[noreturn]] void fail(const char* what) const;

    static constexpr size_t flush_size = 1 << 20;
    std::string path_;                ///< as it was given, for messages
    std::string target_, temporary_;  ///< a file to replace: links resolved; empty: written in place
    int slot_ = -1;                   ///< index of the temporary file among those to remove
    int file_ = -1;                   ///< descriptor
    std::string* text_ = nullptr;     ///< to_string()
    fmt::memory_buffer buffer_;
};

/// Writes a whole file, the same way. Throws UserError.
void write_file(const std::string& path, std::string_view bytes);

/// Writes all bytes to a descriptor; false with errno where the system refuses.
bool write_all(int file, std::string_view bytes);

/// Removes the temporary files of every unfinished Output. For the handler of a signal that ends the process:
/// calls nothing but what a handler may.
void remove_temporary_files() noexcept;

/// Returns a field of a CSV row: quoted where commas, quotes or line breaks ask for it. A text that a
/// spreadsheet would run as a formula gets a ' before it, which shows it as text; our readers take it off.
std::string csv_field(std::string_view text);

}  // namespace kpu
