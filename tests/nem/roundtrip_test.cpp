// Printing and reading back: the same bytes.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

TEST(round_trip, every_example) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(KPUSIM_SOURCE_DIR "/examples")) {
        if (entry.path().extension() != ".nem") continue;
        std::ostringstream text;
        text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        const Parsed parsed = parse_text(text.str());
        const std::string printed = print(parsed.document.module);
        EXPECT_EQ(printed.find("#! module"), std::string::npos) << printed;
        EXPECT_EQ(parse_good(printed).SerializeAsString(), parsed.program().SerializeAsString());
    }
}

}  // namespace
}  // namespace kpu::nem
