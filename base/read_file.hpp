#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace kpu {

/// Limits of text and device files: more than any text has, and than a person types. A larger file is refused
/// before it is read.
constexpr size_t max_text_bytes = size_t{1} << 30, max_device_bytes = size_t{1} << 20;

/// Returns a file, or its first `limit` bytes; "-" is standard input. Throws UserError naming the file and
/// the system's reason, or that it has more than max_text_bytes.
std::string read_file(const std::string& path, size_t limit = SIZE_MAX);

/// A file that is read in parts, by a reader who knows from the first what is to follow.
class InputFile {
  public:
    /// Opens a file; "-" is standard input. Throws UserError.
    explicit InputFile(const std::string& path);
    /// Adds the next `count` bytes to `bytes`, fewer at the end of the file. Throws UserError.
    void read(size_t count, std::string& bytes);
    /// Returns the bytes of a regular file; nothing of a pipe or a device.
    std::optional<uint64_t> size() const;
    bool is_device() const;  ///< true if it may have no end
    const std::string& name() const { return name_; }

  private:
    [[noreturn]] void fail() const;

    struct Close {
        void operator()(std::FILE* file) const {
            if (file != stdin) std::fclose(file);
        }
    };
    std::string name_;
    std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace kpu
