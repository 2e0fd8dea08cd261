// Passes on small networks as texts: each file of texts/ says in its first line which pass runs, and has the
// graph before and, below a line ---, after it. What a graph computes stays the same.
//
// With KPU_UPDATE_TEXTS set, files get what passes make now: look at the difference before you keep it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/read_file.hpp"
#include "compiler/graph/text.hpp"
#include "tests/compiler/passes/random_graphs.hpp"

namespace kpu::passes {
namespace {

using namespace testing;

constexpr std::string_view separator = "---\n";

std::vector<std::string> files() {
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(KPUSIM_SOURCE_DIR) + "/tests/compiler/passes/texts"))
        paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
}

const Pass& pass_named(const std::string& name) {
    const std::vector<Pass>& table = pass_table();
    return *std::find_if(table.begin(), table.end(), [&](const Pass& pass) { return pass.name == name; });
}

class PassTexts : public ::testing::TestWithParam<std::string> {};

TEST_P(PassTexts, AfterIsWhatThePassMakesOfBefore) {
    const std::string content = read_file(GetParam());
    const size_t middle = content.find(separator);
    const std::string before = content.substr(0, middle);
    ASSERT_EQ(before.rfind("# ", 0), 0u);
    const std::string name = before.substr(2, before.find(':') - 2);
    ASSERT_TRUE(is_pass(name)) << name;

    Graph graph = graph::from_text(before, GetParam()).graph;
    const std::string title = before.substr(0, before.find('\n') + 1);
    EXPECT_EQ(title + to_text(graph), before) << "it is not written as graphs are";
    Random random(11);
    const auto inputs = random_inputs(graph, random);
    const auto expected = outputs_of(graph, inputs);
    const Pass& pass = pass_named(name);
    pass.run(graph, options());
    graph::check(graph);
    EXPECT_LE(difference(expected, outputs_of(graph, inputs)), pass.exactness == Exactness::bits ? 0 : 1e-6);
    const std::string after = to_text(graph);
    if (std::getenv("KPU_UPDATE_TEXTS") != nullptr)
        std::ofstream(GetParam()) << before << separator << after;
    else
        EXPECT_EQ(after, middle == std::string::npos ? "" : content.substr(middle + separator.size()));
}

INSTANTIATE_TEST_SUITE_P(Files, PassTexts, ::testing::ValuesIn(files()), [](const auto& given) {
    return std::filesystem::path(given.param).stem().string();
});

}  // namespace
}  // namespace kpu::passes
