// The page of the passes shows each of them before and after. With KPU_UPDATE_TEXTS set, it gets what the files have.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "base/read_file.hpp"
#include "compiler/passes/passes.hpp"
#include "tests/compiler/passes/texts.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

/// The page has a section for each pass, in their order: what the table says of it, and files of it as they are.
TEST(PassPage, ShowsEachPassBeforeAndAfter) {
    const std::string path = std::string(KPUSIM_SOURCE_DIR) + "/compiler/passes/passes.md";
    const std::string page = read_file(path);
    constexpr std::string_view begin = "<!-- passes -->\n", end = "<!-- end of passes -->\n";
    const size_t from = page.find(begin) + begin.size(), to = page.find(end);
    ASSERT_LE(from, to);
    std::string sections;
    std::set<std::string_view> shown;
    for (const Pass& pass : pass_table()) {
        if (!shown.insert(pass.name).second) continue;
        std::string text(pass.description);
        text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
        sections += fmt::format("### {}\n\n{}.\n", pass.name, text);
        const size_t empty = sections.size();
        for (const std::string& file : files()) {
            const std::string content = read_file(file);
            if (pass_of(title_of(content)) == pass.name)
                sections += fmt::format("\n```text\n{}```\n", content);
        }
        EXPECT_GT(sections.size(), empty) << pass.name << " has no example. Fix: add a file to texts/";
        sections += "\n";
    }
    if (std::getenv("KPU_UPDATE_TEXTS") != nullptr)
        std::ofstream(path) << page.substr(0, from) << "\n" << sections << page.substr(to);
    else
        EXPECT_EQ(page.substr(from, to - from), "\n" + sections);
}

}  // namespace
}  // namespace kpu::passes
