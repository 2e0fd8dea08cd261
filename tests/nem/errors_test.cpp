// Mistakes: each message, its place, and that one mistake gives one message.
#include <fmt/format.h>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view relu_first =
    "buffer D : DDR (size = 64) let a = region(D, 0, 4) elem=i8, shape=[4], layout=C t0 = relu.async in a "
    "out a\n";

struct Bad {
    const char* text;
    const char* message;
};

void expect_one_error(const std::string& text, const char* message) {
    const Parsed parsed = parse_text(text);
    EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << text << "\n" << parsed.errors();
    EXPECT_THAT(parsed.errors(), HasSubstr(message)) << text;
    EXPECT_THAT(parsed.errors(), HasSubstr("Fix: ")) << text;
}

TEST(messages, pinned_texts_of_the_language_definition) {
    const Bad cases[] = {
        {"const A = B + 1", "t.nem:1:11: error: forward reference to undeclared constant B"},
        {"const A = A", "forward reference to undeclared constant A"},
        {"const A = 1 const A = 2", "t.nem:1:19: error: duplicate constant declaration A"},
        {"loop i in [0..1]: const A = 1 endloop", "const declaration not permitted inside loop body"},
        {"buffer A : DDR (size = 4) const A = 1", "name conflict - A already declared as buffer"},
        {"const A = 1 buffer A : DDR (size = 4)", "name conflict - A already declared as const"},
        {"buffer A : DDR (size = 1.5)", "buffer sizes must be integer"},
        {"const A = 1.5", "const declarations must be integer"},
        {"loop i in [0..1.5]: endloop", "loop bounds must be integer"},
        {"loop i in [0.5..1]: endloop", "loop bounds must be integer"},
        {"buffer D : DDR (size = 4) let r = region(D, 0, 4) elem=i4, shape=[4], layout=C, "
         "quant=per_group(axis=0, "
         "group_size=0, scales=[1.0], zero_points=[0])",
         "group_size must be positive"},
    };
    for (const Bad& bad : cases) expect_one_error(bad.text, bad.message);
}

TEST(messages, unknown_names_come_with_the_nearest) {
    const Bad cases[] = {
        {"x = relu.async in b out a", "unknown region `b`. Fix: did you mean `a`?"},
        {"x = relu.async in a out a deps=[t00]", "unknown token `t00`. Fix: did you mean `t0`?"},
        {"let r = region(DD, 0, 4)", "unknown buffer `DD`. Fix: did you mean `D`?"},
        {"loop idx in [0..3]: let r = region(D, idy, 4) endloop",
         "unknown name `idy` in an expression. Fix: did you mean `idx`?"},
        {"wait(a)", "`a` is a region, not a token"},
        {"x = relu.async in D out a", "`D` is a buffer, not a region. Fix: name the bytes with region(D, "},
        {"x = relu.async in t0 out a", "`t0` is a token, not a region"},
        {"let r = region(D, D, 4)", "`D` is a buffer, not a number"},
        {"let r = region(a, 0, 4)", "`a` is a region, not a buffer"},
        {"x = relu.async in a out a deps=[x]", "unknown token `x`"},
        {"loop i in [0..1]: let q = region(D, 0, 4) endloop y = relu.async in q out a", "unknown region `q`"},
        {"loop i in [0..1]: endloop let r = region(D, i, 4)", "unknown name `i`"},
    };
    for (const Bad& bad : cases) expect_one_error(fmt::format("{}{}", relu_first, bad.text), bad.message);
}

TEST(messages, names_are_declared_once_in_a_scope) {
    const Bad cases[] = {
        {"buffer D : L2 (size = 4)", "duplicate buffer declaration D"},
        {"t0 = relu.async in a out a", "duplicate token declaration t0"},
        {"let a = 4", "name conflict - a already declared as region"},
        {"loop D in [0..1]: endloop", "name conflict - D already declared as buffer"},
        {"loop i in [0..1]: loop i in [0..1]: endloop endloop", "duplicate loop variable declaration i"},
        {"loop i in [0..1]: let a = region(D, i, 1) endloop", "duplicate region declaration a"},
        {"#! param D = 1 in [0..1]\n;", "name conflict - D already declared as buffer"},
        {"let in = 4", "`in` is a reserved word"},
        {"const f16 = 4", "`f16` is a reserved word"},
    };
    for (const Bad& bad : cases) expect_one_error(fmt::format("{}{}", relu_first, bad.text), bad.message);
}

TEST(messages, form_of_statements) {
    const Bad cases[] = {
        {"x = relu.asnc in a out a",
         "t.nem:2:15: error: expected .async or .sync after relu.asnc, found `in`"},
        {"x = relu in a out a", "`in` without an opcode"},
        {"x = transfer.later(dst=a, src=a)", "expected async or sync, found `later`"},
        {"x = transfer.async(dst=a)", "transfer needs both dst and src. Fix: add src="},
        {"x = transfer.async(dst=a, dst=a, src=a)", "second dst of a transfer"},
        {"x = transfer.async(dest=a, src=a)", "expected dst, src or deps, found `dest`"},
        {"x = wait(t0)", "wait produces no token"},
        {"wait t0", "expected `(` after wait"},
        {"wait [t0]", "expected `(` after wait"},
        {"x = relu.async in a", "expected `out` before the output operands"},
        {"x = relu.async out a", "expected `in` before the input operands"},
        {"x = relu.async in a out a axis=1 axis=2", "second attribute axis"},
        {"x = relu.async in a out a deps=[]", "expected a token name, found `]`"},
        {"x = relu.async in a out a v=[[1]]", "lists of lists"},
        {"buffer E : DDR (align = 4)", "buffer E has no size"},
        {"buffer E : L3 (size = 4)", "expected DDR, L2 or L1, found `L3`"},
        {"buffer E : DDR (size = 4, size = 5)", "second size of buffer E"},
        {"let r = region(D, 0)", "expected `,` after the offset"},
        {"let r = region(D, 0, 4.5)", "region extents must be integer"},
        {"let r = region(D, 0, 4, elem=i8)", "expected `)` after the extent"},
        {"let r = region(D, 0, 4) elem=i8, shape=[4]", "layout or strides is missing"},
        {"let r = region(D, 0, 4) shape=[4], layout=C", "elem is missing"},
        {"let r = region(D, 0, 4) elem=f64, shape=[4], layout=C", "unknown element type `f64`"},
        {"let r = region(D, 0, 4) elem=i8, shape=[1,1,1,1,1,1,1], layout=C", "at most 6 dimensions"},
        {"let r = region(D, 0, 4) elem=i8, shape=[1, 2], strides=[1]", "1 strides for 2 dimensions"},
        {"let r = region(D, 0, 4) elem=i8, shape=[1], layout=C, quant=per_channel(axis=0, scales=[1.0], "
         "zero_points=[0, 1])",
         "1 scales but 2 zero points"},
        {"loop i in [0..4]\nx = relu.async in a out a\nendloop",
         "expected `:` before the loop body, found `x`"},
        {"loop i in [0,4]:\nx = relu.async in a out a\nendloop", "expected `..` between the loop bounds"},
        {"loop i in [0..4]: x = relu.async in a out a", "t.nem:2:1: error: loop without endloop"},
        {"endloop", "endloop without a loop"},
        {"buffer E : DDR (size = 99999999999999999999)", "does not fit in 64 bits"},
        {"const E = 9223372036854775808", "does not fit in 64 bits"},
        {"const E = 0x10", "`0x10` is not a number"},
        {"x = relu.async in a out a eps=1e-5", "`1e` is not a number"},
        {"const E = 1 +", "expected an expression, found the end of the file"},
        {"const E = (1", "expected `)` to close the parenthesis"},
        {"device other", "`device` must stand before the first statement"},
        {"frobnicate", "expected a statement, found `frobnicate`"},
        {"loop i in [0..3]: buffer E : DDR (size = i) endloop", "buffer E depends on a loop variable"},
        {"x = relu.async in a out a t=\"abc", "unterminated string"},
        {"x = relu.async in a out a t=\"a\\qc\"", "unknown escape"},
        {"x = relu.async in a out a t=\"a\xFF\"", "string is not valid UTF-8"},
        {"x = relu.async in \xC3\xA9 out a", "unexpected byte 0xc3 outside a comment"},
        {"x = relu.async in $ out a", "unexpected character `$`"},
    };
    for (const Bad& bad : cases) expect_one_error(fmt::format("{}{}", relu_first, bad.text), bad.message);
    // comments may hold any byte, but the program keeps those of its device
    EXPECT_FALSE(parse_text("# caf\xE9\nconst A = 1").diagnostics.has_errors());
    EXPECT_THAT(parse_text("device d {\n  # caf\xE9\n};\nprogram p:\n").errors(),
                HasSubstr("t.nem:2:1: error: the device declaration is not valid UTF-8 here. Fix: save"));
    expect_one_error(std::string("const A = \0 1", 13), "NUL byte outside a comment");
    expect_one_error(std::string("const A = 1 \0\0\0\0", 16), "NUL byte outside a comment");
}

TEST(messages, one_bad_metadata_line_among_good_ones_is_the_one_named) {
    // Lists of metadata lines are read at once; a mistake in one still names its line, and costs no other
    // one.
    const std::string first = "#! tensor {\"id\":\"x\"}\n",
                      last = "#! op {\"id\":\"o\"}\n#! tensor {\"id\":\"y\"}\n";
    const char* bad_lines[] = {"#! tensor {\"id\":\"a\"},{\"id\":\"b\"}\n",
                               "#! tensor {\"identity\":\"a\"}\n",
                               "#! tensor {\"id\":\"a\"]\n",
                               "#! tensor {\"id\":\"a\"} {}\n",
                               "#! tensor [{\"id\":\"a\"}]\n",
                               "#! tensor\n",
                               "#! tensor {\"id\":\"a\n"};
    for (const char* bad : bad_lines) {
        const Parsed parsed = parse_text(first + bad + last + "const A = 1");
        EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << bad << parsed.errors();
        EXPECT_THAT(parsed.errors(), HasSubstr("t.nem:2:3: error: metadata is not JSON of Tensor")) << bad;
        EXPECT_EQ(parsed.program().tensor_size(), 2) << bad;
        EXPECT_EQ(parsed.program().op_size(), 1) << bad;
    }
    const std::string braces = "#! tensor {\"id\":\"}{\\\"][\"}\n";
    EXPECT_EQ(parse_good(first + braces + last).tensor(1).id(), "}{\"][");
}

TEST(messages, metadata_lines) {
    const Bad cases[] = {
        {"#! parameter T = 4", "unknown metadata line `#! parameter`"},
        {"#! param T = 4", "t.nem:2:15: error: expected `in` before the range"},
        {"#! param T = 4 in [5..6]", "needs min <= default <= max"},
        {"#! param T = 4 in [0..6] extra", "expected the end of the line"},
        {"#! param T = 99999999999999999999 in [0..6]", "does not fit in 64 bits"},
        {"#! tensor {\"id\": ", "metadata is not JSON of Tensor: it is not a JSON object. Fix:"},
        {"#! tensor {\"identity\": \"x\"}", "metadata is not JSON of Tensor: there is no field `identity`"},
        {"#! tensor {\"offset\": \"x\"}", "metadata is not JSON of Tensor: \"x\" is not a value of `offset`"},
        {"#! tensor {\"id\": {}}", "a list or an object stands where a plain value belongs"},
        {"#! program {\"buffer\": [{}]}", "holds names, hashes"},
        {"#! module {}", "a `#! module` line is the whole program"},
        {"#! {\"op\": 0}\nx = relu.async in a out a", "there is no operation 0: the program declares 0"},
        {"#! {\"op\": -1}\nx = relu.async in a out a", "operation index out of range"},
        {"#! op {}\n#! {\"op\": 0}\nwait(t0)", "no task follows"},
        {"#! op {}\n#! {\"op\": 0}", "no task follows"},
        {"#! {\"oops\": 0}", "expected \"op\" or \"place\""},
        {"#! {\"op\": 0, \"op\": 0}", "expected \"place\""},
        {"#! {\"place\": 0}\nx = relu.async in a out a",
         "t.nem:2:3: error: there is no place 0: the program declares 0"},
        {"#! {\"place\": -1}\nx = relu.async in a out a", "place index out of range"},
        {"#! {\"place\": 0}", "a place was named, but no statement follows. Fix: remove this line"},
        {"#! {\"place\": 0}\nconst C = 1", "no statement follows. Fix: put this line right before a task"},
        {"#! place {\"line\": 1}", "place[0].file is 0, but there are 0 source files"},
        {"#! place {\"row\": 1}", "metadata is not JSON of Place: there is no field `row`"},
        {"#! tensor {\"id\": \"x\", \"buffer\": \"nowhere\"}", "nowhere"},
    };
    for (const Bad& bad : cases) {
        const Parsed parsed = parse_text(fmt::format("{}{}\n", relu_first, bad.text));
        EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << bad.text << "\n" << parsed.errors();
        EXPECT_THAT(parsed.errors(), HasSubstr(bad.message));
    }
}

TEST(recovery, several_mistakes_each_give_their_own_message_and_nothing_else) {
    const Parsed parsed = parse_text(R"(
const A = 4 4
const B = C
buffer D : DDR (size = A)
buffer E : DDR size = 4)
let a = region(D, 0, 4) elem=i8 shape=[4], layout=C
let b = region(E, 0, 4)
t = transfer.async(dst=a, src=b)
u = relu.async in a out a deps=[t]
loop i in 0..4]:
    v = relu.async in a out a deps=[u] axs==1
    w = relu.async in a out a deps=[v]
endloop
wait(w)
x = relu.async in nothing out a
)");
    std::vector<uint32_t> lines;
    for (const Diagnostic& d : parsed.diagnostics.all()) lines.push_back(d.pos.line);
    // a, b, t, u, v fail or depend on failures: only the first mistakes are reported
    EXPECT_THAT(lines, testing::ElementsAre(2u, 3u, 5u, 6u, 10u, 15u)) << parsed.errors();
}

TEST(recovery, a_mistake_in_the_head_costs_no_statement) {
    // the statement that stands where the colon should is read, so its uses are no mistakes
    const Parsed parsed = parse_text(R"(program p
buffer D : DDR (size = 64)
let a = region(D, 0, 4) elem=i8, shape=[4], layout=C
x = relu.async in a out a
y = relu.async in a a
wait x
z = relu.async in a out a deps=[x]
)");
    std::vector<uint32_t> lines;
    for (const Diagnostic& d : parsed.diagnostics.all()) lines.push_back(d.pos.line);
    EXPECT_THAT(lines, testing::ElementsAre(2u, 5u, 6u)) << parsed.errors();
    EXPECT_EQ(parsed.program().buffer_size(), 1);
}

TEST(recovery, after_20_errors_reading_stops) {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += fmt::format("const A{} = B{}\n", i, i);
    const Parsed parsed = parse_text(text);
    EXPECT_EQ(parsed.diagnostics.error_count(), 20u);
    EXPECT_THAT(parsed.errors(), HasSubstr("stopped after 20 errors"));
}

TEST(messages, several_dots_before_the_form_are_one_opcode) {
    // which opcodes exist is the verifier's business
    const KPUProgram p = parse_good(fmt::format("{}x = no.such.op.async in a out a", relu_first));
    EXPECT_EQ(p.statement(2).task().opcode(), "no.such.op");
}

}  // namespace
}  // namespace kpu::nem
