// Exports made by hand: what they compute, and what is wrong with bad ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "compiler/pallas/lower.hpp"
#include "tests/compiler/pallas/draft.hpp"

namespace kpu::compiler::pallas {
namespace {

TEST(Pallas, OneBlock) {
    Ints expected = counted(16);
    for (int32_t& value : expected) value += 7;
    EXPECT_EQ(Draft().run(), expected);
}

TEST(Pallas, BlocksFollowTheGrid) {
    for (const int buffers : {1, 2, 3}) {
        // six blocks of two rows; both maps are linear in the step, so that each block goes to its place
        Draft draft = gridded(R"([11, ["i32", 0]])", R"([13, ["i32", 0]])");
        draft.grid = "[1, 6]";
        draft.rows = draft.out_rows = 12;
        draft.buffers = buffers;
        Ints expected = counted(48);
        for (int32_t& value : expected) value += 7;
        EXPECT_EQ(draft.run(), expected) << buffers;
    }
}

TEST(Pallas, ConsecutiveStepsAccumulateInOneOutputBlock) {
    Draft draft = gridded(R"([11, ["i32", 0]])", R"([12, ["i32", 0]])");
    draft.rows = 6;
    draft.equations = R"({"op": "program_id", "axis": 1, "out": [14], "line": 0},
        {"op": "eq", "in": [14, ["i32", 0]], "out": [15], "line": 0},
        {"op": "convert_element_type", "in": [15], "out": [16], "line": 0},
        {"op": "get", "refs": [{"ref": 0}], "out": [2], "line": 0},
        {"op": "cond", "in": [16], "out": [3], "line": 0, "blocks": [
          {"inputs": [], "equations": [{"op": "get", "refs": [{"ref": 1}], "out": [4], "line": 0}, {"op": "add", "in": [2, 4], "out": [5], "line": 0}], "results": [5]},
          {"inputs": [], "equations": [], "results": [2]}]},
        {"op": "swap", "in": [3], "refs": [{"ref": 1}], "line": 0})";
    Ints expected;
    for (int step = 0; step < 2; ++step)
        for (int i = 0; i < 8; ++i) expected.push_back(3 * i + 8 + 16);
    EXPECT_EQ(draft.run(), expected);
}

TEST(Pallas, RaggedBlocksAreCut) {
    Draft draft = gridded(R"([11, ["i32", 0]])", R"([13, ["i32", 0]])");
    draft.grid = "[1, 3]";
    draft.rows = draft.out_rows = 5;
    Ints expected = counted(20);
    for (int32_t& value : expected) value += 7;
    EXPECT_EQ(draft.run(), expected);
}

TEST(Pallas, RevisitedOutputBlocksAreRefused) {
    Draft draft = gridded(R"([11, ["i32", 0]])", R"([13, ["i32", 0]])");
    draft.rows = draft.out_rows = 6;
    EXPECT_THAT(draft.error(),
                testing::HasSubstr("Revisited block: its place in `a_y` was written back before. Fix:"));
}

TEST(Pallas, EmptyGridsWriteNothing) {
    Draft draft = gridded(R"([11, ["i32", 0]])", R"([13, ["i32", 0]])");
    draft.grid = "[0, 3]";
    EXPECT_THAT(draft.error(),
                testing::HasSubstr("does not write all of output `a_y`: element 0 is the first"));
}

TEST(Pallas, LoopsCarryValues) {
    Draft draft;
    draft.equations = R"({"op": "get", "refs": [{"ref": 0}], "out": [2], "line": 0},
        {"op": "scan", "length": 3, "reverse": false, "carries": 2, "in": [["i32", 0], 2], "out": [10, 4], "line": 0, "blocks": [
          {"inputs": [11, 5], "equations": [{"op": "add", "in": [11, ["i32", 1]], "out": [12], "line": 0}, {"op": "mul", "in": [5, 12], "out": [6], "line": 0}], "results": [12, 6]}]},
        {"op": "while", "in": [10], "out": [13], "line": 0, "blocks": [
          {"inputs": [14], "equations": [{"op": "lt", "in": [14, ["i32", 10]], "out": [15], "line": 0}], "results": [15]},
          {"inputs": [16], "equations": [{"op": "mul", "in": [16, ["i32", 2]], "out": [17], "line": 0}], "results": [17]}]},
        {"op": "add", "in": [4, 13], "out": [7], "line": 0},
        {"op": "swap", "in": [7], "refs": [{"ref": 1}], "line": 0})";
    Ints expected = counted(16);
    for (int32_t& value : expected) value = value * 6 + 12;
    EXPECT_EQ(draft.run(), expected);
}

TEST(Pallas, CopiesByHand) {
    Draft draft;
    draft.space = "any";
    draft.scratch = "[20, 21]";
    const std::string copy = R"("refs": [{"ref": 0}, {"ref": 21}, {"ref": 20}], )",
                      load = R"({"op": "get", "refs": [{"ref": 21}], "out": [2], "line": 3},
        {"op": "swap", "in": [2], "refs": [{"ref": 1}], "line": 3})";
    const std::string start = R"({"op": "dma_start", )" + copy + R"("line": 1})",
                      wait = R"({"op": "dma_wait", )" + copy + R"("line": 2})";
    draft.equations = start + "," + wait + "," + load;
    EXPECT_EQ(draft.run(), counted(16));
    draft.equations = start + "," + load + "," + wait;
    EXPECT_THAT(draft.error(),
                testing::MatchesRegex("k.py:6 .*touches `scratch_1.0.`, which the copy of k.py:4 .*"));
    draft.equations = wait + "," + load;
    EXPECT_THAT(draft.error(), testing::MatchesRegex("k.py:5 .*deadlock: .*"));
    draft.equations = start + "," + wait + "," + wait;
    EXPECT_THAT(draft.error(),
                testing::MatchesRegex("k.py:5 .*deadlock: .*; last that counted was k.py:4 .*"));
    draft.equations = start;
    EXPECT_THAT(draft.error(), testing::MatchesRegex(".*k.py:4 .*: nobody waits for this copy. Fix: .*"));
    draft.equations = start + "," + load;
    EXPECT_THAT(draft.error(), testing::MatchesRegex(
                                   "k.py:6 .*, which the copy of k.py:4 .*; then k.py:4 .*nobody waits.*"));
    draft.equations = R"({"op": "get", "refs": [{"ref": 0}], "out": [2], "line": 0})";
    EXPECT_THAT(
        draft.error(),
        testing::HasSubstr(
            "k.py:3 (k): `get`: Buffers with a memory space of HBM or ANY cannot be referenced directly"));
}

TEST(Pallas, MovesAgainstTheOrderOfElements) {
    std::string text = Draft().text();
    const size_t at = text.find("\"steps\": [") + 10;
    text.insert(at, R"({"move": {"from": 0, "to": 1, "from_offset": 12, "to_offset": 0, "size": [4, 2, 2],
        "from_stride": [-4, 0, 1], "to_stride": [4, 2, 1], "line": 0}}, )");
    const Export moved = read_export(text, "p");
    Export only = moved;
    only.steps.resize(1);
    EXPECT_EQ(ints(run_export(only, {blob(counted(16))})[0]),
              (Ints{12, 13, 12, 13, 8, 9, 8, 9, 4, 5, 4, 5, 0, 1, 0, 1}));
    const Module module = lower(only, "p");
    EXPECT_EQ(module.program.kernel_file(0).kernel(0).name(), "move_0");
    only.steps[0].move->from_offset = 4;
    EXPECT_THROW(lower(only, "p"), UserError);
}

TEST(Pallas, MistakesAreNamed) {
    Draft draft;
    draft.equations = R"({"op": "frobnicate", "line": 0})";
    EXPECT_THAT(draft.error(),
                testing::HasSubstr("k.py:3 (k): `frobnicate`: kernels have no such operation. Fix:"));
    draft.equations =
        R"({"op": "get", "refs": [{"ref": 0, "at": [["index", [["slice", ["i32", 3], 2, 1], ["slice", ["i32", 0], 4, 1]]]]}], "out": [2], "line": 0})";
    EXPECT_THAT(draft.error(), testing::HasSubstr("is outside of the buffer's shape [4, 4]. Fix:"));
    Draft far = gridded(R"([["i32", 9], 11])", R"([13, ["i32", 0]])");
    EXPECT_THAT(far.error(), testing::HasSubstr("index 18 of dimension 0, 2 elements, is outside"));
    const std::string good = Draft().text();
    const auto changed = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
        try {
            read_export(text, "p.json");
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_THAT(changed("\"version\": 1", "\"version\": 2"),
                testing::HasSubstr("p.json: error: version 2 of the form. Fix:"));
    EXPECT_THAT(changed("\"scratch\": []", "\"scratch\": [99]"), testing::HasSubstr("99 is out of range"));
    EXPECT_THAT(changed("\"shape\": [4, 4]", "\"shape\": [4, -4]"),
                testing::HasSubstr("size -4 must be 0 to 2^31 - 1"));
    EXPECT_THAT(changed("\"shape\": [4, 4]", "\"shape\": [2000000000, 2000000000]"),
                testing::HasSubstr("more than 2^31 elements"));
    EXPECT_THAT(changed("\"aliases\"", "\"alias\""), testing::HasSubstr("`aliases` is missing"));
    EXPECT_THAT(changed("\"role\": \"input\"", "\"role\": \"imput\""),
                testing::HasSubstr("`imput` is not a role"));
    for (size_t length = 0; length < good.size(); length += 7)
        EXPECT_THROW(read_export(good.substr(0, length), "p.json"), UserError) << length;
}

/// Whatever an equation lacks, it is refused by name.
TEST(Pallas, EquationsWithoutTheirPartsAreRefused) {
    for (const char* op : {"add",
                           "select_n",
                           "not",
                           "integer_pow",
                           "round",
                           "convert_element_type",
                           "iota",
                           "broadcast_in_dim",
                           "reshape",
                           "transpose",
                           "slice",
                           "bitcast",
                           "bitcast_convert_type",
                           "pad",
                           "concatenate",
                           "dynamic_slice",
                           "roll",
                           "gather",
                           "program_id",
                           "cumsum",
                           "reduce_sum",
                           "reduce_max",
                           "argmax",
                           "sort",
                           "top_k",
                           "dot_general",
                           "get",
                           "swap",
                           "addupdate",
                           "masked_load",
                           "masked_swap",
                           "dma_start",
                           "dma_wait",
                           "semaphore_signal",
                           "semaphore_wait",
                           "semaphore_read",
                           "cond",
                           "scan",
                           "while",
                           "run_scoped",
                           "threefry2x32"}) {
        for (const char* rest :
             {"", R"(, "refs": [{"ref": 0}])", R"(, "axis": 0, "out": [], "even": true)",
              R"(, "in": [["i32", 0]], "refs": [{"ref": 0}, {"ref": 1}, {"ref": 0}], "k": 1)"}) {
            Draft draft;
            draft.equations = fmt::format(R"({{"op": "{}", "line": 0{}}})", op, rest);
            try {
                lower(read_export(draft.text(), "p"), "p");
            } catch (const UserError& error) {
                EXPECT_THAT(error.what(), testing::HasSubstr("Fix:"));
            }
        }
    }
    Draft draft;
    for (const char* numbers : {"[0]", "[0, 0]", "[0, 2]", "[0, 1, 2]"}) {
        draft.equations = fmt::format(
            R"({{"op": "get", "refs": [{{"ref": 0, "at": [["transpose", {}]]}}], "out": [2], "line": 0}})",
            numbers);
        EXPECT_THAT(draft.error(), testing::HasSubstr("no permutation of the dimensions")) << numbers;
    }
}

/// Any change of a file's characters is refused, or leaves a program of good form.
TEST(Pallas, ChangedFilesAreRefusedOrRead) {
    const std::string good = gridded("[[\"i32\", 0], 11]", "[13, [\"i32\", 0]]").text();
    std::mt19937 random(3);
    for (int i = 0; i < 4000; ++i) {
        std::string text = good;
        for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
            const size_t at = random() % text.size();
            if (random() % 2 == 0)
                text[at] = "0123456789[]{},:\"-inopv"[random() % 24];
            else
                text.erase(at, 1 + random() % 12);
        }
        try {
            lower(read_export(text, "p"), "p");
        } catch (const UserError&) {  // said what is wrong
        }
    }
}

TEST(Pallas, ProgramsAreWellFormed) {
    const Module module = lower(read_export(Draft().text(), "p"), "p");
    ASSERT_EQ(module.program.kernel_file_size(), 1);
    EXPECT_EQ(module.program.kernel_file(0).kernel(0).name(), "k_0");
    EXPECT_EQ(module.program.input_id(0), "x");
    EXPECT_EQ(module.program.output_id(0), "y");
}

}  // namespace
}  // namespace kpu::compiler::pallas
