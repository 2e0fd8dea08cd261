#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace kpu {

/// Where a writer puts its bytes: a file, or a string. A file is written under a temporary name beside its
/// target and renamed by finish(), so a reader never sees half of it; without finish() the temporary file is
/// removed.
class Output {
  public:
    /// Opens `path` for writing. Throws UserError naming the path and the system's reason.
    static Output to_file(const std::string& path);
    static Output to_string(std::string& target);
    Output(Output&& other) noexcept = default;
    Output& operator=(Output&&) = delete;
    ~Output();

    void write(std::string_view bytes) {
        buffer_.append(bytes.data(), bytes.data() + bytes.size());
        if (buffer_.size() >= flush_size) flush();
    }
    template <typename... Args>
    void print(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(buffer_), format, std::forward<Args>(args)...);
        if (buffer_.size() >= flush_size) flush();
    }
    /// Everything is on disk under the final name after this. Throws UserError.
    void finish();

  private:
    Output() = default;
    void flush();
    [[noreturn]] void fail(const char* what) const;

    static constexpr size_t flush_size = 1 << 20;
    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::string path_, temporary_;
    std::unique_ptr<std::FILE, Close> file_;
    std::string* target_ = nullptr;
    fmt::memory_buffer buffer_;
};

/// Writes a whole file, the same way. Throws UserError.
void write_file(const std::string& path, std::string_view bytes);

/// A field of a CSV row: quoted where commas, quotes or line breaks ask for it.
std::string csv_field(std::string_view text);

}  // namespace kpu
