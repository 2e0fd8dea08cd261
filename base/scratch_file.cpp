#include "base/scratch_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu {

namespace {

[[noreturn]] void fail(const std::string& folder, int reason) {
    throw UserError(
        fmt::format("a temporary file in {}: {}. Fix: set TMPDIR to a folder on a disk with enough space.",
                    folder, std::strerror(reason)));
}

int open_unnamed(const std::string& folder) {
    const int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    // not every file system has files without a name
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
    std::string path = folder + "/kpusim_XXXXXX";
    const int named = ::mkostemp(path.data(), O_CLOEXEC);
    if (named >= 0) ::unlink(path.c_str());
    return named;
}

}  // namespace

std::string scratch_folder() {
    const char* const chosen = std::getenv("TMPDIR");
    return chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
}

uint64_t scratch_bytes() {
    struct statvfs status {};
    if (::statvfs(scratch_folder().c_str(), &status) != 0) return 0;
    return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

ScratchFile::ScratchFile() : folder_(scratch_folder()) {
    file_ = open_unnamed(folder_);
    if (file_ < 0) fail(folder_, errno);
}

ScratchFile::~ScratchFile() { ::close(file_); }

void ScratchFile::append(const void* bytes, size_t count) {
    const auto* from = static_cast<const char*>(bytes);
    for (size_t done = 0; done < count;) {
        const ssize_t written = ::pwrite(file_, from + done, count - done, static_cast<off_t>(size_ + done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) fail(folder_, written < 0 ? errno : ENOSPC);
        done += static_cast<size_t>(written);
    }
    size_ += count;
}

void ScratchFile::read(uint64_t offset, void* bytes, size_t count) const {
    auto* to = static_cast<char*>(bytes);
    for (size_t done = 0; done < count;) {
        const ssize_t got = ::pread(file_, to + done, count - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) fail(folder_, got < 0 ? errno : EIO);
        done += static_cast<size_t>(got);
    }
}

}  // namespace kpu
