#pragma once
// Files of graphs before and after a pass. KPUSIM_PASS_TEXTS: the folder, where it is another one.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#ifndef KPUSIM_PASS_TEXTS
#define KPUSIM_PASS_TEXTS KPUSIM_SOURCE_DIR "/tests/compiler/passes/texts"
#endif

namespace kpu::passes::testing {

inline std::vector<std::string> files() {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(KPUSIM_PASS_TEXTS))
        paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

/// "# NAME [OPTION=VALUE]: what is shown": the name.
inline std::string pass_of(const std::string& title) {
    return title.substr(2, title.find_first_of(" :", 2) - 2);
}

inline std::string title_of(const std::string& content) { return content.substr(0, content.find('\n')); }

}  // namespace kpu::passes::testing
