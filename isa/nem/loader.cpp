// Where the text of included files comes from: the file system, then the files compiled into the executable.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "isa/nem/context.hpp"
#include "isa/nem/nem.hpp"

namespace kpu {
extern const EmbeddedFile nem_families[];
extern const std::size_t nem_families_count;
}  // namespace kpu

namespace kpu::nem {
namespace {

namespace fs = std::filesystem;

struct Registry {
    std::mutex mutex;
    std::vector<EmbeddedFile> files{nem_families, nem_families + nem_families_count};
};

Registry& registry() {
    static Registry instance;
    return instance;
}

std::optional<SourceFile> read_embedded(const std::string& name) {
    Registry& known = registry();
    const std::lock_guard<std::mutex> lock(known.mutex);
    const auto file = std::find_if(known.files.begin(), known.files.end(),
                                   [&](const EmbeddedFile& f) { return f.name == name; });
    if (file == known.files.end()) return std::nullopt;
    return SourceFile{"<" + name + ">", std::string(file->text)};
}

/// Reads at most one byte more than a document may have, so that the reader can say that it is too large.
std::optional<SourceFile> read_regular(const fs::path& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error) || error) return std::nullopt;
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return std::nullopt;
    const uint64_t size = std::min<uint64_t>(fs::file_size(path, error), max_total_bytes + 1);
    if (error) return std::nullopt;
    std::string text(static_cast<size_t>(size), '\0');
    stream.read(text.data(), static_cast<std::streamsize>(size));
    text.resize(static_cast<size_t>(stream.gcount()));
    return SourceFile{path.lexically_normal().string(), std::move(text)};
}

}  // namespace

void register_embedded(const EmbeddedFile* files, size_t count) {
    Registry& known = registry();
    const std::lock_guard<std::mutex> lock(known.mutex);
    for (size_t i = 0; i < count; ++i) {
        const bool is_known = std::any_of(known.files.begin(), known.files.end(),
                                          [&](const EmbeddedFile& f) { return f.name == files[i].name; });
        if (!is_known) known.files.push_back(files[i]);
    }
}

FileLoader default_loader(std::vector<std::string> search_paths) {
    return [paths = std::move(search_paths)](const std::string& name,
                                             const std::string& from) -> std::optional<SourceFile> {
        if (name.empty() || name.find('\0') != std::string::npos) return std::nullopt;
        const fs::path target(name);
        const bool from_file = from.empty() || from.front() != '<' || from == "<stdin>";
        if (target.is_absolute()) return read_regular(target);
        if (from_file) {
            const fs::path folder = from == "<stdin>" ? fs::path() : fs::path(from).parent_path();
            if (auto file = read_regular(folder / target)) return file;
        }
        for (const std::string& path : paths) {
            if (auto file = read_regular(fs::path(path) / target)) return file;
        }
        return read_embedded(name);
    };
}

}  // namespace kpu::nem
