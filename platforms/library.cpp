#include "platforms/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/diagnostics.hpp"
#include "base/embedded_file.hpp"
#include "base/read_file.hpp"
#include "base/text.hpp"

namespace kpu {
extern const EmbeddedFile platform_files[];
extern const std::size_t platform_files_count;
}  // namespace kpu

namespace kpu::platforms {
namespace {

/// Returns the name without folder, extension, trailing underscore and dots: npm_lite_.nem -> npm_lite.
std::string stem_of(std::string_view name) {
    if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) name.remove_prefix(slash + 1);
    for (const std::string_view extension : {".textproto", ".nem", ".cfg"}) {
        if (!ends_with(name, extension)) continue;
        name.remove_suffix(extension.size());
        break;
    }
    while (ends_with(name, "_")) name.remove_suffix(1);
    std::string stem(name);
    std::replace(stem.begin(), stem.end(), '.', '_');
    return std::string(declared_name(stem));
}

}  // namespace

std::string_view declared_name(std::string_view device) {
    return device == "nem_baseline_1_0" ? "npm_baseline_1_0" : device;
}

std::optional<std::string_view> embedded_text(std::string_view file_name) {
    for (std::size_t i = 0; i < platform_files_count; ++i) {
        if (platform_files[i].name == file_name) return platform_files[i].text;
    }
    return std::nullopt;
}

std::optional<std::string> embedded_file_of(std::string_view name) {
    const std::string stem = stem_of(name);
    for (const char* extension : {".textproto", ".nem"}) {
        if (embedded_text(stem + extension)) return stem + extension;
    }
    return std::nullopt;
}

std::vector<std::string> embedded_names() {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < platform_files_count; ++i) names.emplace_back(platform_files[i].name);
    return names;
}

bool is_regular_file(const std::string& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error);
}

std::string read_text_file(const std::string& path) {
    constexpr std::size_t limit = std::size_t{16} << 20;
    std::string text = read_file(path, limit + 1);
    if (text.size() > limit)
        throw UserError(fmt::format("{}: larger than 16 MiB; this is not a text file.", path));
    return text;
}

}  // namespace kpu::platforms
