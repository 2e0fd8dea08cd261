// Text -> program -> text -> program is the identity: on every program of the corpus, of the examples and of
// the language guide.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "isa/nem/nem.hpp"
#include "platforms/platform.hpp"

namespace kpu {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> programs() {
    std::vector<fs::path> list;
    const fs::path source = KPUSIM_SOURCE_DIR, binary = KPUSIM_BINARY_DIR;
    for (const fs::path& folder : {binary / "tests/conformance", source / "examples", source / "docs"}) {
        for (const auto& entry : fs::recursive_directory_iterator(folder)) {
            if (entry.path().extension() == ".nem") list.push_back(entry.path());
        }
    }
    std::sort(list.begin(), list.end());
    return list;
}

std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

nem::Document parsed(const std::string& text, const fs::path& path, Diagnostics& diagnostics) {
    const auto loader = platforms::file_loader({(path.parent_path() / "support").string()});
    return nem::parse(text, path.string(), loader, diagnostics);
}

TEST(RoundTrip, EveryProgramOfTheCorpus) {
    size_t count = 0, printed_as_module = 0;
    for (const fs::path& path : programs()) {
        Diagnostics diagnostics;
        const nem::Document first = parsed(text_of(path), path, diagnostics);
        if (diagnostics.has_errors() || !first.is_program) continue;
        ++count;
        const std::string text = nem::print(first.module);
        const nem::Document second = parsed(text, path, diagnostics);
        EXPECT_FALSE(diagnostics.has_errors()) << path << "\n" << diagnostics.to_string() << "\n" << text;
        EXPECT_EQ(first.module.program.SerializeAsString(), second.module.program.SerializeAsString())
            << path << "\n"
            << text;
        EXPECT_EQ(nem::print(second.module), text) << path;
        printed_as_module += text.find("#! module") != std::string::npos ? 1 : 0;
    }
    EXPECT_GT(count, 250u);
    EXPECT_EQ(printed_as_module, 0u) << "the printer has no words for what the text said";
}

}  // namespace
}  // namespace kpu
