#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace kpu::compiler {

/// A file that is given in memory.
struct MemoryFile {
    std::shared_ptr<const void> owner;  ///< keeps the bytes alive
    const uint8_t* bytes = nullptr;
    uint64_t size = 0;
};
using MemoryFiles = std::map<std::string, MemoryFile>;  ///< files by the name that the source has for them

/// Input of a front end: recognised by its first bytes, and read as a whole only when asked, so that a file
/// of gigabytes can be mapped instead.
class Source {
  public:
    static constexpr size_t head_bytes = 65536;

    /// Returns a file; "-" is standard input. What can be read once only (a pipe) is read at once. Throws
    /// UserError.
    static Source of_file(const std::string& path);
    /// `origin` names the bytes in messages; files that they name are among `files`, or found beside it.
    static Source of_bytes(std::string bytes, std::string origin, MemoryFiles files = {});

    const std::string& origin() const { return origin_; }
    /// Returns file name without folder and extension: what a program without a name of its own is called.
    std::string stem() const;
    std::string_view head() const { return std::string_view(bytes_).substr(0, head_bytes); }
    bool is_file() const { return is_file_; }  ///< a regular one, by the name of origin()
    std::string bytes() const;                 ///< all of them. Throws UserError
    const MemoryFiles& files() const { return files_; }

  private:
    std::string bytes_, origin_;
    MemoryFiles files_;
    bool is_file_ = false;
};

/// True if no control character but blanks stands in it.
bool is_printable(std::string_view text);

}  // namespace kpu::compiler
