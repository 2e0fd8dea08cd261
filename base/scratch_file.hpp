#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kpu {

/// Returns the folder for what is too large for memory: $TMPDIR, else /var/tmp.
std::string scratch_folder();
/// Returns the bytes that a scratch file may still take; 0: unknown.
uint64_t scratch_bytes();

/// A file without a name in scratch_folder(): it goes with its owner, whatever ends the process.
class ScratchFile {
  public:
    /// Throws UserError naming the folder and the system's reason.
    ScratchFile();
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;
    ~ScratchFile();

    /// Appends the bytes. Throws UserError (a full disk), and then leaves size() as it was.
    void append(const void* bytes, size_t count);
    uint64_t size() const { return size_; }
    /// Returns the descriptor for a library that writes the file by itself; size() does not count such bytes.
    int descriptor() const { return file_; }
    /// Reads `count` bytes from `offset` on. Threads may call it at the same time. From several threads at
    /// once, too.
    void read(uint64_t offset, void* bytes, size_t count) const;

  private:
    int file_ = -1;
    uint64_t size_ = 0;
    std::string folder_;
};

}  // namespace kpu
