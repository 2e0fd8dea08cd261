// Programs: every construct of the grammar.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

std::string read_file(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

TEST(programs, every_example_parses) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(KPUSIM_SOURCE_DIR "/examples")) {
        if (entry.path().extension() != ".nem") continue;
        ++count;
        const Parsed parsed = parse_text(read_file(entry.path()));
        EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
        EXPECT_GT(parsed.program().statement_size(), 0);
    }
    EXPECT_GE(count, 4u);
}

}  // namespace
}  // namespace kpu::nem
