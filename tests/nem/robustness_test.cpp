// Hostile input: bounded time and memory, a message, never a crash.
#include <fmt/format.h>

#include <random>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using ::testing::HasSubstr;

std::string repeat(std::string_view part, size_t count) {
    std::string text;
    text.reserve(part.size() * count);
    for (size_t i = 0; i < count; ++i) text += part;
    return text;
}

TEST(robustness, deep_nesting_ends_with_an_error) {
    EXPECT_THAT(parse_text("const A = " + repeat("(", 100000)).errors(),
                HasSubstr("nested deeper than 256 levels"));
    EXPECT_THAT(parse_text("const A = " + repeat("-", 100000) + "1").errors(),
                HasSubstr("nested deeper than 256"));
    EXPECT_THAT(parse_text("const B = 1 const A = " + repeat("-(", 100000) + "B").errors(),
                HasSubstr("nested deeper"));
    EXPECT_THAT(parse_text("x = relu.async in a out a v=" + repeat("[", 100000)).errors(),
                HasSubstr("error"));
    EXPECT_EQ(parse_good("const A = " + repeat("(", 200) + "1" + repeat(")", 200)).constant_size(), 1);
}

TEST(robustness, ten_thousand_nested_loops_give_one_error) {
    std::string text;
    for (int i = 0; i < 10000; ++i) text += fmt::format("loop v{} in [0..1]:\n", i);
    const Parsed parsed = parse_text(text + repeat("endloop\n", 10000));
    EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << parsed.errors();
    EXPECT_THAT(parsed.errors(), HasSubstr("loops nested deeper than 64"));
    std::string deepest;
    for (int i = 0; i < 64; ++i) deepest += fmt::format("loop v{} in [0..1]:\n", i);
    EXPECT_EQ(parse_good(deepest + repeat("endloop\n", 64)).statement_size(), 64);
}

TEST(robustness, expressions_are_bounded) {
    EXPECT_THAT(parse_text("const A = 1" + repeat(" + 1", 1000000)).errors(),
                HasSubstr("more than 4096 terms"));
    EXPECT_THAT(parse_text("const A = " + repeat("1 + (", 200) + "1" + repeat(")", 200)).errors(),
                HasSubstr("more than 64 operands at once"));
    // each let doubles the one before: 2^60 terms if written out
    std::string doubling = "let x0 = 1 + 1\n";
    for (int i = 1; i < 60; ++i) doubling += fmt::format("let x{} = x{} + x{}\n", i, i - 1, i - 1);
    const Parsed parsed = parse_text(doubling);
    EXPECT_TRUE(parsed.diagnostics.has_errors());
    // many uses of a large let
    std::string uses = "let y = 1" + repeat(" + 1", 2000) + "\n";
    for (int i = 0; i < 5000; ++i) uses += fmt::format("let z{} = y\n", i);
    EXPECT_THAT(parse_text(uses).errors(), HasSubstr("expand to too many terms"));
}

TEST(robustness, binary_files_give_few_messages) {
    std::mt19937 random(7);
    std::string noise(200000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const Parsed parsed = parse_text(noise);
    EXPECT_TRUE(parsed.diagnostics.has_errors());
    EXPECT_LE(parsed.diagnostics.error_count(), 20u);
}

TEST(robustness, comments_may_hold_any_bytes) {
    const std::string comment("# \0 \xFF \xC3 \xED\xA0\x80\r\n", 13);
    EXPECT_EQ(
        parse_good("\xEF\xBB\xBF" + comment + "const A = 1" + comment + "const B = A\r\n").constant_size(),
        2);
}

TEST(robustness, a_10_megabyte_program_is_read) {
    std::string text = "buffer D : DDR (size = 64)\nlet a = region(D, 0, 4) elem=i8, shape=[4], layout=C\n";
    const size_t statements = 160000;
    for (size_t i = 0; i < statements; ++i)
        text +=
            fmt::format("t{} = relu.async in a out region(D, {}, 4) elem=i8, shape=[4], layout=C\n", i, i);
    EXPECT_GT(text.size(), 10000000u);
    EXPECT_EQ(static_cast<size_t>(parse_good(text).statement_size()), statements + 1);
}

/// Every prefix and many mutations of a program that uses the whole grammar: an error or not, but never a
/// crash.
TEST(robustness, mutations_of_a_good_program_do_no_harm) {
    const std::string good =
        R"(include "x" device d { spec_version = "1" topology { num_engines = 1 l2_size_bytes = 4
per_engine { NMU = 1 l1_size_bytes = 2 } } unit_characteristics { NMU { a = 1 } } opcode.mandatory { gemm.float<f16>.x } }
program p: #! param T = 8 in [1..64]
#! op {"id": "o"}
#! program {"source_file": ["a"]}
#! place {"line": 1}
const N = -(T0 + 2) * 3 mod 4 buffer D : L1[0] (size = N, align = 64) @debug(x)
let r = region(D, T, 4) elem=i8, shape=[N], strides=[1], quant=per_channel(axis=0, scales=[0.5], zero_points=[1])
loop i in [0..N - 1] @max_in_flight(2):
#! {"op": 0, "place": 0}
t = gemm.acc.async in r, region(D, i, 4) out r @resource(NMU[0]) accum_type=i32 v=[1, "s"] deps=[t] u = relu.sync in r out r
x = transfer.async(dst=r, src=r, deps=[t]) endloop wait(t, x)
type_family f<T: {i8}> { X: T quant = required on X variants: d: { Y: absent } conformance: { MUST<i8> MAY<i8> } })";
    for (size_t length = 0; length <= good.size(); ++length) parse_text(good.substr(0, length), {{"x", ""}});
    std::mt19937 random(11);
    const std::string bytes = "()[]{}<>=,:;.@#!\"-+*/ \n0i\\" + std::string(1, '\0') + "\xFF";
    for (int round = 0; round < 1500; ++round) {
        std::string text = good;
        for (int k = 0; k < 3; ++k) {
            const size_t at = random() % text.size();
            switch (random() % 3) {
                case 0:
                    text[at] = bytes[random() % bytes.size()];
                    break;
                case 1:
                    text.erase(at, 1 + random() % 12);
                    break;
                default:
                    text.insert(at, text.substr(random() % text.size(), random() % 20));
            }
        }
        const Parsed parsed = parse_text(text, {{"x", ""}});
        if (!parsed.diagnostics.has_errors() && parsed.document.is_program) print(parsed.document.module);
    }
}

}  // namespace
}  // namespace kpu::nem
