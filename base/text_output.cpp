#include "base/text_output.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/diagnostics.hpp"

namespace kpu {

Output Output::to_file(const std::string& path) {
    Output output;
    output.path_ = path;
    output.temporary_ = fmt::format("{}.{}.tmp", path, ::getpid());
    output.file_.reset(std::fopen(output.temporary_.c_str(), "wb"));
    if (!output.file_) output.fail("cannot create");
    return output;
}

Output Output::to_string(std::string& target) {
    Output output;
    output.target_ = &target;
    return output;
}

Output::~Output() {
    if (!file_) return;
    file_.reset();
    std::remove(temporary_.c_str());
}

void Output::fail(const char* what) const {
    throw UserError(fmt::format("{}: {}: {}. Fix: choose a path that can be written.", path_, what,
                                std::strerror(errno)));
}

void Output::flush() {
    if (target_ != nullptr) {
        target_->append(buffer_.data(), buffer_.size());
    } else if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size()) {
        fail("cannot write");
    }
    buffer_.clear();
}

void Output::finish() {
    flush();
    if (target_ != nullptr) return;
    if (std::fclose(file_.release()) != 0) {
        const int reason = errno;
        std::remove(temporary_.c_str());
        errno = reason;
        fail("cannot write");
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
        const int reason = errno;
        std::remove(temporary_.c_str());
        errno = reason;
        fail("cannot replace");
    }
}

void write_file(const std::string& path, std::string_view bytes) {
    Output output = Output::to_file(path);
    output.write(bytes);
    output.finish();
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"') out += '"';
        out += c;
    }
    out += '"';
    return out;
}

}  // namespace kpu
