// Tokens of earlier iterations in NEM text.
#include <fmt/format.h>

#include "isa/builder.hpp"
#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view head = R"(#! requires kpusim
program p:
buffer B : L2 (size = 4096)
let a = region(B, 0, 64)
let b = region(B, 64, 64)
)";

/// Returns the carried tokens of a statement as "task/loop/distance".
std::vector<std::string> carried_of(const KPUProgram& program, int statement) {
    std::vector<std::string> result;
    for (const proto::Carried& c : program.statement(statement).task().carried())
        result.push_back(fmt::format("{}/{}/{}", c.task(), c.loop(), c.distance()));
    return result;
}

TEST(carried_tokens, name_tasks_of_any_loop_around_wherever_they_stand) {
    const std::string text = std::string(head) + R"(loop m in [0..3]:
    loop k in [0..3] @max_in_flight(2):
        #! deps late[k-1], self[m-2]
        #! deps st[m-1]
        self = transfer.async(dst=b, src=a)
        late = transfer.async(dst=a, src=b, deps=[self])
    endloop
    st = transfer.async(dst=a, src=b)
endloop
)";
    const KPUProgram program = parse_good(text);
    // statements: let a, let b, m, k, self, late, st
    const int first = program.statement_size() - 5;
    const auto at = [&](int n) { return std::to_string(first + n); };
    EXPECT_THAT(carried_of(program, first + 2),
                testing::ElementsAre(at(3) + "/" + at(1) + "/1", at(2) + "/" + at(0) + "/2",
                                     at(4) + "/" + at(0) + "/1"));
    EXPECT_TRUE(carried_of(program, first + 3).empty());
    Module module;
    module.program = program;
    const std::string printed = print(module);
    EXPECT_THAT(printed, testing::StartsWith("#! requires kpusim\n"));
    EXPECT_THAT(printed, HasSubstr("#! deps late[k-1], self[m-2], st[m-1]\n"));
    EXPECT_EQ(parse_good(printed).SerializeAsString(), program.SerializeAsString());
}

TEST(carried_tokens, tasks_without_a_name_get_one_when_they_are_needed) {
    builder::Program p("p");
    const builder::Region r =
        p.region("r", p.buffer("B", Level::l2, 64), 0, builder::tensor(ElemType::i8, {64}));
    const builder::Region s =
        p.region("s", p.buffer("X", Level::ddr, 64), 0, builder::tensor(ElemType::i8, {64}));
    p.loop("i", 0, 3, 2, [&](const builder::Expr& i) {
        builder::Task load = p.transfer("", r, s);
        load.after_previous(load, i);
    });
    const Module module = p.build();
    const std::string text = print(module);
    EXPECT_EQ(text.find("#! module"), std::string::npos) << text;
    EXPECT_EQ(parse_good(text).SerializeAsString(), module.program.SerializeAsString());
}

TEST(carried_tokens, mistakes_are_named) {
    const std::pair<const char*, const char*> cases[] = {
        {"#! deps t[k-0]\nt = transfer.async(dst=a, src=b)", "a distance of 0 iterations"},
        {"#! deps t[k-2147483649]\nt = transfer.async(dst=a, src=b)", "1 to 2147483648 are allowed"},
        {"#! deps t[k+1]\nt = transfer.async(dst=a, src=b)", "expected `-`"},
        {"#! deps t[j-1]\nt = transfer.async(dst=a, src=b)",
         "`j` is not a variable of a loop around this task. Fix: did you mean `k`?"},
        {"#! deps u[k-1]\nt = transfer.async(dst=a, src=b)", "unknown token `u`. Fix: did you mean `t`?"},
        {"#! deps before[k-1]\nt = transfer.async(dst=a, src=b)",
         "task `before` stands before the loop, which repeats nothing of it. Fix: name a task of the loop, "
         "or "
         "write deps=[before]"},
        {"#! deps t[k-1]\nwait(before)\nt = transfer.async(dst=a, src=b)", "but no task follows"},
        {"t = transfer.async(dst=a, src=b)\n#! deps t[k-1]", "but no task follows"},
        {"#! requires kpusim\nt = transfer.async(dst=a, src=b)", "move it to the head of the file"},
        {"u = transfer.async(dst=a, src=b, deps=[t])\nt = transfer.async(dst=b, src=a)",
         "unknown token `t`. Fix: declare it before its first use, or, for its task of an earlier iteration, "
         "write `#! "
         "deps t[k-1]` on the line before this task"},
        {"t = transfer.async(dst=a, src=b, deps=[t])", "write `#! deps t[k-1]`"},
        {"u = transfer.async(dst=a, src=b, deps=[t])\nloop i in [0..1]:\nt = transfer.async(dst=b, "
         "src=a)\nendloop",
         "write `#! deps t[k-1]`"},
        {"u = transfer.async(dst=a, src=b, deps=[t])\nendloop\nloop k in [0..3]:\nt = transfer.async(dst=b, "
         "src=a)",
         "unknown token `t`. Fix: did you mean `before`?"},
        {"wait(t)\nt = transfer.async(dst=b, src=a)", "unknown token `t`. Fix: did you mean `before`?"},
        {"#! deps t[k-1], \nt = transfer.async(dst=a, src=b)", "expected a token name"},
    };
    for (const auto& [text, message] : cases) {
        const Parsed parsed = parse_text(fmt::format(
            "{}before = transfer.async(dst=a, src=b)\nloop k in [0..3]:\n{}\nendloop\n", head, text));
        EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << text << "\n" << parsed.errors();
        EXPECT_THAT(parsed.errors(), HasSubstr(message));
        EXPECT_THAT(parsed.errors(), HasSubstr("t.nem:"));
    }
}

TEST(carried_tokens, other_readers_must_not_take_the_file) {
    const std::string body =
        std::string(head.substr(head.find('\n') + 1)) +
        "loop k in [0..3]:\n#! deps t[k-1]\nt = transfer.async(dst=a, src=b)\n#! deps t[k-2]\n"
        "u = transfer.async(dst=a, src=b)\nendloop\n";
    const Parsed parsed = parse_text(body);
    EXPECT_EQ(parsed.diagnostics.error_count(), 1u) << parsed.errors();
    EXPECT_THAT(parsed.errors(), HasSubstr("Fix: write `#! requires kpusim` at the head of the file"));
    EXPECT_THAT(parse_text("#! requires nemsim\n" + body).errors(), HasSubstr("this reader is not `nemsim`"));
}

}  // namespace
}  // namespace kpu::nem
