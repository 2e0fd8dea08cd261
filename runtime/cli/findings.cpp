// Findings as people read them: on a terminal each with its source line and a caret.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/cli/command.hpp"

namespace kpu::cli {
namespace {

constexpr size_t window = 100;  ///< characters of a source line that are shown
constexpr size_t lead = 60;     ///< characters before the caret, where the line is longer

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

/// Lines of source files, each file read once. Files that cannot be read have no lines, nor have those that no
/// source is: the path may come from a program that anybody made.
class SourceLines {
  public:
    std::string line(const SourcePos& pos) {
        if (pos.line == 0 || pos.file.empty() || pos.file[0] == '<') return {};
        const auto [entry, added] = files_.try_emplace(pos.file);
        if (added) {
            std::error_code error;
            const bool is_source = std::filesystem::is_regular_file(pos.file, error) &&
                                   std::filesystem::file_size(pos.file, error) <= most_bytes;
            if (!is_source) return {};
            std::ifstream stream(pos.file, std::ios::binary);
            for (std::string text; entry->second.size() < most_lines && std::getline(stream, text);)
                entry->second.push_back(std::move(text));
        }
        return pos.line <= entry->second.size() ? entry->second[pos.line - 1] : std::string();
    }

  private:
    static constexpr size_t most_lines = size_t{1} << 20, most_bytes = size_t{1} << 28;
    std::map<std::string, std::vector<std::string>> files_;
};

/// Returns the line and a caret under byte `column`; a long line is cut around it.
std::string excerpt(const std::string& line, uint32_t column) {
    if (line.empty() || column == 0 || column > line.size() + 1) return {};
    size_t begin = column - 1 > lead ? column - 1 - lead : 0;
    while (begin < column - 1 && !starts_character(line[begin])) ++begin;
    size_t end = std::min(line.size(), begin + window);
    while (end < line.size() && !starts_character(line[end])) ++end;
    std::string text = "    ", caret = "\n    ";
    for (size_t i = begin; i < end; ++i) {
        const bool control = static_cast<unsigned char>(line[i]) < ' ' || line[i] == '\x7f';
        text += control ? ' ' : line[i];
        if (i + 1 < column && starts_character(line[i])) caret += ' ';
    }
    return text + caret + "^\n";
}

}  // namespace

std::string findings_text(const Diagnostics& diagnostics, bool with_source) {
    SourceLines sources;
    std::string text;
    for (const Diagnostic& diagnostic : diagnostics.all()) {
        text += to_string(diagnostic) + "\n";
        if (with_source) text += excerpt(sources.line(diagnostic.pos), diagnostic.pos.column);
    }
    return text;
}

void print_findings(const Diagnostics& diagnostics) {
    print_err(findings_text(diagnostics, isatty(STDERR_FILENO) != 0));
}

}  // namespace kpu::cli
