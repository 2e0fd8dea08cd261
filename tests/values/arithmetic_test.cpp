// The tables of arithmetic and the opcode table agree, so that a missing row fails here and not for a user.
#include "values/arithmetic.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "isa/opcodes.hpp"
#include "values/views.hpp"

namespace kpu::values {
namespace {

std::set<std::string> opcodes_that(bool (*holds)(const OpcodeSpec&)) {
    std::set<std::string> names;
    for (const OpcodeSpec& spec : opcode_table()) {
        if (holds(spec)) names.emplace(spec.name);
    }
    return names;
}

template <class Table>
std::set<std::string> names_of(const Table& table) {
    std::set<std::string> names;
    for (const auto& row : table) EXPECT_TRUE(names.emplace(row.opcode).second) << row.opcode << " twice";
    return names;
}

// Every opcode that tasks may name has arithmetic, types and a shape rule; nothing else has.
TEST(Arithmetic, EveryOpcodeIsComplete) {
    const auto executed = opcodes_that([](const OpcodeSpec& s) { return !s.movement && !s.refused; });
    EXPECT_EQ(names_of(arithmetic_table()), executed);
    EXPECT_EQ(opcodes_that([](const OpcodeSpec& s) { return s.types != nullptr; }), executed);
    EXPECT_EQ(opcodes_that([](const OpcodeSpec& s) { return s.shapes != nullptr; }), executed);
}

// The tables of single families hold exactly the opcodes of their class.
TEST(Arithmetic, TablesHoldTheirClass) {
    EXPECT_EQ(names_of(elementwise_table()), opcodes_that([](const OpcodeSpec& s) {
                  return s.op_class == OpcodeClass::elementwise && !s.refused;
              }));
    EXPECT_EQ(names_of(view_table()), opcodes_that([](const OpcodeSpec& s) {
                  return s.op_class == OpcodeClass::view && !s.movement;
              }));
    EXPECT_EQ(names_of(reduction_table()),
              opcodes_that([](const OpcodeSpec& s) { return s.family == "reduce"; }));
    EXPECT_EQ(names_of(search_table()),
              opcodes_that([](const OpcodeSpec& s) { return s.family == "arg_reduce"; }));
}

// An element has three operands, vector forms two lines of attributes.
TEST(Arithmetic, ElementwiseOpcodesFitTheirForm) {
    for (const OpcodeSpec& spec : opcode_table()) {
        if (spec.op_class != OpcodeClass::elementwise || spec.refused) continue;
        EXPECT_LE(spec.inputs.size(), 3u) << spec.name;
        EXPECT_LE(spec.attributes.size(), most_lines) << spec.name;
    }
}

/// Files below a folder whose code, comments aside, has a string literal that is one of the words.
std::map<std::string, std::set<std::string>> files_with(const std::vector<std::string>& folders,
                                                        const std::set<std::string>& words) {
    namespace fs = std::filesystem;
    std::map<std::string, std::set<std::string>> found;
    const fs::path root = KPUSIM_SOURCE_DIR;
    for (const std::string& folder : folders) {
        for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
            const std::string kind = entry.path().extension().string();
            if (kind != ".cpp" && kind != ".hpp" && kind != ".inl") continue;
            const std::string path = fs::relative(entry.path(), root).generic_string();
            if (path.rfind("isa/kernel/", 0) == 0) continue;  // kernels have operations of their own
            std::ifstream file(entry.path());
            for (std::string line; std::getline(file, line);) {
                line.resize(std::min(line.find("//"), line.size()));
                for (size_t at = line.find('"'); at != std::string::npos; at = line.find('"', at + 1)) {
                    const std::string word = line.substr(at + 1, line.find('"', at + 1) - at - 1);
                    if (words.count(word) > 0) found[word].insert(path);
                }
            }
        }
    }
    return found;
}

// A new opcode is its row and its arithmetic: below the front ends, no other source names one.
TEST(Arithmetic, OpcodesAreNamedByTheirRowsAlone) {
    const auto executed = opcodes_that([](const OpcodeSpec& s) { return !s.movement && !s.refused; });
    auto found = files_with(
        {"base", "isa", "values", "execution", "model", "traces", "platforms", "analysis", "explain"},
        executed);
    found["equal"].erase("traces/diff/diff_text.cpp");         // a key of its JSON
    found["gemm"].erase("values/kernel/tiles/tile_sort.cpp");  // tiles are multiplied with it
    for (const char* mode : {"floor", "ceil"}) {               // ways to round, of resize
        found[mode].erase("isa/opcodes/pools_and_norms.cpp");
        found[mode].erase("values/resize.cpp");
    }
    for (const char* function : {"min", "max", "floor", "ceil", "round", "sqrt"})  // of formulas in platforms
        found[function].erase("platforms/formula.cpp");
    for (const auto& [name, files] : found) {
        const OpcodeClass op_class = opcode(find_opcode(name).value()).op_class;
        if (op_class == OpcodeClass::elementwise) {
            EXPECT_THAT(files,
                        ::testing::ElementsAre("isa/opcodes/elementwise.cpp", "values/elementwise.cpp"))
                << name;
        } else {
            EXPECT_EQ(files.size(), 2u) << name << ": " << ::testing::PrintToString(files);
            EXPECT_THAT(files, ::testing::Contains(::testing::StartsWith("isa/opcodes/"))) << name;
            EXPECT_THAT(files, ::testing::Contains(::testing::StartsWith("values/"))) << name;
        }
    }
    EXPECT_EQ(found.size(), executed.size());
}

}  // namespace
}  // namespace kpu::values
