#include "base/text_output.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "base/diagnostics.hpp"
#include "base/text.hpp"

namespace kpu {
namespace {

constexpr mode_t any_mode = 0666;  ///< permissions before the umask

/// Names of temporary files where a signal handler finds them. More than these are not removed by one.
std::array<std::atomic<const char*>, 64> temporaries{};

int remember(const char* path) {
    for (size_t i = 0; i < temporaries.size(); ++i) {
        const char* free = nullptr;
        if (temporaries[i].compare_exchange_strong(free, path)) return static_cast<int>(i);
    }
    return -1;
}

void forget(int slot) {
    if (slot >= 0) temporaries[static_cast<size_t>(slot)] = nullptr;
}

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// Returns the path without links; empty with errno where there is none.
std::string real_path(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
    return found ? found.get() : "";
}

/// Returns the target of the link `path`; empty if it is no link.
std::string link_target(const std::string& path) {
    std::array<char, PATH_MAX> name{};
    const ssize_t size = ::readlink(path.c_str(), name.data(), name.size());
    if (size <= 0) return {};
    std::string target(name.data(), static_cast<size_t>(size));
    return target.front() == '/' ? target : folder_of(path) + target;
}

/// Returns the descriptor of this process that a path such as /dev/stdout or /dev/fd/63 stands for, or -1.
/// Opened by name, a file would be written from its start, over what else goes to the descriptor.
int own_descriptor(std::string path) {
    const std::string own = fmt::format("/proc/{}/fd", ::getpid());
    for (int links = 0; links < 40 && !path.empty(); ++links) {
        const std::string folder = folder_of(path);
        if (!folder.empty() && real_path(folder) == own) {
            int number = -1;
            const char* const end = path.data() + path.size();
            const auto [stop, error] = std::from_chars(path.data() + folder.size(), end, number);
            return error == std::errc() && stop == end ? number : -1;
        }
        path = link_target(path);
    }
    return -1;
}

/// The destination of an output.
struct Place {
    enum class Kind { descriptor, in_place, file, none };
    Kind kind = Kind::none;  ///< none: errno says why
    int descriptor = -1;
    std::string target;  ///< file: to be replaced or made
    mode_t mode = 0;     ///< file: of the one that is there, or 0
};

Place place_of(const std::string& path) {
    Place place;
    place.descriptor = own_descriptor(path);
    if (place.descriptor >= 0) {
        place.kind = Place::Kind::descriptor;
        return place;
    }
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
        if (S_ISDIR(status.st_mode)) {
            errno = EISDIR;
        } else if (!S_ISREG(status.st_mode)) {
            place.kind = Place::Kind::in_place;
        } else {
            place.target = real_path(path);
            place.mode = status.st_mode & 07777;
            if (!place.target.empty()) place.kind = Place::Kind::file;
        }
        return place;
    }
    if (errno != ENOENT) return place;
    // a link to nothing makes what it names
    place.target = path;
    for (std::string next = link_target(path); !next.empty(); next = link_target(place.target))
        place.target = next;
    const bool named = !place.target.empty() && place.target.back() != '/';
    if (named) place.kind = Place::Kind::file;
    errno = place.target.empty() ? ENOENT : EISDIR;
    return place;
}

/// Locks it until this process closes it, or ends; false: another one has taken it for a dead one's. Where files have no
/// locks, nobody takes them for that.
bool take(int file) {
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    struct stat status {};
    return ::fstat(file, &status) != 0 || status.st_nlink > 0;
}

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

/// True for kpusim-PID-NUMBER.tmp.
bool is_temporary_name(std::string_view name) {
    constexpr std::string_view begin = "kpusim-", end = ".tmp";
    if (!starts_with(name, begin) || !ends_with(name, end)) return false;
    name = name.substr(begin.size(), name.size() - begin.size() - end.size());
    return std::count(name.begin(), name.end(), '-') == 1 &&
           name.find_first_not_of("0123456789-") == std::string_view::npos;
}

/// Removes what killed runs left in the folder: files that nobody holds locked. Looks into each folder once.
/// Once for each folder.
void remove_dead_temporaries(const std::string& folder) {
    static std::mutex mutex;
    static std::set<std::string> seen;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!seen.insert(folder).second) return;
    const std::unique_ptr<DIR, CloseFolder> entries(::opendir(folder.empty() ? "." : folder.c_str()));
    if (!entries) return;
    while (const dirent* entry = ::readdir(entries.get())) {
        if (!is_temporary_name(entry->d_name)) continue;
        const std::string path = folder + entry->d_name;
        const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (file < 0) continue;
        struct stat status {};
        const bool plain = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
        if (plain && ::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
        ::close(file);
    }
}

}  // namespace

bool write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::write(file, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
}

void remove_temporary_files() noexcept {
    for (auto& entry : temporaries) {
        const char* const path = entry.exchange(nullptr);
        if (path != nullptr) ::unlink(path);
    }
}

Output Output::to_file(const std::string& path) {
    Output output;
    output.path_ = path;
    const Place place = place_of(path);
    switch (place.kind) {
        case Place::Kind::descriptor:
            output.file_ = ::fcntl(place.descriptor, F_DUPFD_CLOEXEC, 3);
            break;
        case Place::Kind::in_place:
            output.file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
            break;
        case Place::Kind::file:
            output.target_ = place.target;
            output.open_temporary(place.mode);
            break;
        case Place::Kind::none:
            break;
    }
    if (output.file_ < 0) output.fail("cannot create");
    return output;
}

/// Opens the file beside the target, so that it can be renamed. Its name is short: the target's may be as
/// long as names go.
void Output::open_temporary(unsigned mode) {
    static std::atomic<unsigned> number{0};
    remove_dead_temporaries(folder_of(target_));
    do {
        temporary_ = fmt::format("{}kpusim-{}-{}.tmp", folder_of(target_), ::getpid(), number++);
        slot_ = remember(temporary_.c_str());
        file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, any_mode);
        if (file_ >= 0 && take(file_)) break;
        if (file_ >= 0) {  // somebody took it for a dead one, and removes it
            ::close(std::exchange(file_, -1));
            errno = EEXIST;
        }
        forget(std::exchange(slot_, -1));
    } while (errno == EEXIST);
    if (file_ < 0) return temporary_.clear();
    if (mode != 0) ::fchmod(file_, mode);  // as it was; where that is not ours to say, as new files are
}

Output Output::to_string(std::string& target) {
    Output output;
    output.text_ = &target;
    return output;
}

void Output::check(const std::string& path) {
    if (place_of(path).kind != Place::Kind::in_place) {
        to_file(path);
        return;
    }
    Output output;
    output.path_ = path;
    if (::access(path.c_str(), W_OK) != 0) output.fail("cannot create");
}

Output::Output(Output&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      slot_(std::exchange(other.slot_, -1)),
      file_(std::exchange(other.file_, -1)),
      text_(other.text_),
      buffer_(std::move(other.buffer_)) {
    // the characters of a short name move with their string
    if (slot_ >= 0) temporaries[static_cast<size_t>(slot_)] = nullptr;
    temporary_ = std::exchange(other.temporary_, {});
    if (!temporary_.empty()) slot_ = remember(temporary_.c_str());
}

Output::~Output() { discard(); }

void Output::discard() noexcept {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
    forget(std::exchange(slot_, -1));
    temporary_.clear();
}

void Output::fail(const char* what) const {
    throw UserError(fmt::format("{}: {}: {}. Fix: choose a path that can be written.", path_, what,
                                std::strerror(errno)));
}

void Output::flush() {
    if (text_ != nullptr) {
        text_->append(buffer_.data(), buffer_.size());
    } else if (!write_all(file_, {buffer_.data(), buffer_.size()})) {
        fail("cannot write");
    }
    buffer_.clear();
}

void Output::finish() {
    flush();
    if (text_ != nullptr) return;
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot write");
    if (target_.empty()) return;
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot replace");
    forget(std::exchange(slot_, -1));
    temporary_.clear();
}

void write_file(const std::string& path, std::string_view bytes) {
    Output output = Output::to_file(path);
    output.write(bytes);
    output.finish();
}

namespace {

std::string quoted_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
    return out;
}

/// True if a spreadsheet would run it as a formula, or take a sign of ours off.
bool needs_text_sign(std::string_view text) {
    constexpr std::string_view formula = "=+-@\t";
    if (formula.find(text[0]) != std::string_view::npos) return true;
    return text[0] == '\'' && text.size() > 1 &&
           (text[1] == '\'' || formula.find(text[1]) != std::string_view::npos);
}

}  // namespace

std::string csv_field(std::string_view text) {
    if (!text.empty() && needs_text_sign(text)) return quoted_field("'" + std::string(text));
    return quoted_field(text);
}

}  // namespace kpu
