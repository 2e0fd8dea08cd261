// Passes on small networks as texts: each file of texts/ says in its first line which pass runs, with which options in
// brackets, and has the graph before and, behind a line ---, after it. What a graph computes stays the same. The page of the
// passes shows them (page_test.cpp).
//
// With KPU_UPDATE_TEXTS set, files get what passes make now: look at the difference before you keep it.
#include "tests/compiler/passes/texts.hpp"

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

const Pass& pass_named(const std::string& name) {
    const std::vector<Pass>& table = pass_table();
    return *std::find_if(table.begin(), table.end(), [&](const Pass& pass) { return pass.name == name; });
}

Options options_in(const std::string& title) {
    const size_t bracket = title.find('['), equals = title.find('=');
    Options how = options();
    if (bracket == std::string::npos || bracket > title.find(':')) return how;
    const std::string option = title.substr(bracket + 1, equals - bracket - 1),
                      value = title.substr(equals + 1, title.find(']') - equals - 1);
    if (option == "array") return options_of_array(std::stoull(value));
    if (option == "precision")
        how.precision = parse_elem_type(value).value();
    else if (option == "l1_bytes")
        how.l1_bytes = std::stoull(value);
    else
        ADD_FAILURE() << title << ": there is no such option";
    return how;
}

/// Returns by how much the outputs may differ.
double allowed_by(Exactness exactness) {
    return exactness == Exactness::bits ? 0 : exactness == Exactness::rounding ? 1e-6 : 1e-3;
}

class PassTexts : public ::testing::TestWithParam<std::string> {};

TEST_P(PassTexts, AfterIsWhatThePassMakesOfBefore) {
    const std::string content = read_file(GetParam());
    const size_t middle = content.find(separator);
    const std::string before = content.substr(0, middle);
    ASSERT_EQ(before.rfind("# ", 0), 0u);
    const std::string name = pass_of(title_of(before));
    ASSERT_TRUE(is_pass(name)) << name;

    Graph graph = graph::from_text(before, GetParam()).graph;
    const std::string title = before.substr(0, before.find('\n') + 1);
    EXPECT_EQ(title + to_text(graph), before) << "it is not written as graphs are";
    Random random(11);
    const auto inputs = random_inputs(graph, random);
    const auto expected = outputs_of(graph, inputs);
    const Pass& pass = pass_named(name);
    pass.run(graph, options_in(title_of(before)));
    graph::check(graph);
    EXPECT_LE(difference(expected, outputs_of(graph, inputs)), allowed_by(pass.exactness));
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
