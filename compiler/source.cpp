#include "compiler/source.hpp"

#include <algorithm>
#include <filesystem>

#include "base/read_file.hpp"

namespace kpu::compiler {

namespace fs = std::filesystem;

Source Source::of_file(const std::string& path) {
    if (path == "-") return of_bytes(read_file(path), "<stdin>");
    Source source;
    source.origin_ = path;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) return source;  // no bytes: recognised as nothing
    source.is_file_ = fs::is_regular_file(path, ignored);
    source.bytes_ = read_file(path, source.is_file_ ? head_bytes : SIZE_MAX);
    return source;
}

Source Source::of_bytes(std::string bytes, std::string origin, MemoryFiles files) {
    Source source;
    source.bytes_ = std::move(bytes);
    source.origin_ = std::move(origin);
    source.files_ = std::move(files);
    return source;
}

std::string Source::stem() const { return fs::path(origin_).stem().string(); }

std::string Source::bytes() const {
    const bool complete = !is_file_ || bytes_.size() < head_bytes;
    return complete ? bytes_ : read_file(origin_);
}

bool is_printable(std::string_view text) {
    return std::none_of(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) < ' ' && (c < '\t' || c > '\r')) || c == '\x7f';
    });
}

}  // namespace kpu::compiler
