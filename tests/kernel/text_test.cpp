// Text to kernel and back; no input makes the reader fall over.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

#include "isa/container.hpp"
#include "isa/kernel/form.hpp"
#include "tests/kernel/random_kernel.hpp"
#include "tests/kernel/support.hpp"

namespace kpu::kernel_test {
namespace {

using kpu::kernel::parse;
using kpu::kernel::print;

std::vector<kpu::kernel::Source> read_text(const std::string& text) {
    Diagnostics diagnostics;
    auto kernels = parse(text, "t.kern", diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << text << diagnostics.to_string();
    return kernels;
}

void expect_stable(const std::string& canonical) {
    const auto kernels = read_text(canonical);
    ASSERT_EQ(kernels.size(), 1u);
    EXPECT_EQ(print(*kernels[0].body), canonical);
    kpu::kernel::check_form(*kernels[0].body, "t.kern");
}

TEST(KernelText, EveryConstructIsWrittenAsItIsRead) {
    expect_stable(
        "kernel all rules(xla) workgroup(4, 2) (x: read f32[],\n"
        "        y: read_write f32[8],\n"
        "        a: uniform f32[1],\n"
        "        t: workgroup u32[4],\n"
        "        o: output bf16[16] bytes(0, 8),\n"
        "        n: u32,\n"
        "        b: bool):\n"
        "    let i = gid.x + wgid.y * lid.z\n"
        "    let neg = -3i32 + -1i32 - 2i32\n"
        "    let bits = bits(0x7fc00000) + -1.5 + 1e+20 + 0.1\n"
        "    let wide = 18446744073709551615u64\n"
        "    if i < len(y) && !(b || false):\n"
        "        y[i] = fma(a[0], x[i], y[i])\n"
        "    else:\n"
        "        i = (i + 1) * 2 - (3 - (4 - 5))\n"
        "        loop j in 0..n:\n"
        "            while ~j != 7:\n"
        "                block:\n"
        "                    return\n"
        "                endblock\n"
        "            endwhile\n"
        "        endloop\n"
        "    endif\n"
        "    region \"inner part\":\n"
        "        barrier\n"
        "        barrier relaxed\n"
        "    endregion\n"
        "    if b:\n"
        "    else:\n"
        "    endif\n"
        "    async_load(x, y, 0, 4, \"t\")\n"
        "    async_store(x, y, i * 4, 4, \"t\")\n"
        "    async_wait(\"t\")\n"
        "    async_copy(x, y, window{8, 4}(2i32), window{8}(), t[1i32])\n"
        "    signal(t, 0, 1)\n"
        "    wait(t, 0, 1)\n"
        "    trap(i, \"bad\")\n"
        "    resume(\"bad\")\n"
        "    all_reduce(y, \"add\", 1)\n"
        "    all_gather(x, y, 1)\n"
        "    reduce_scatter(x, y, \"add\", 1)\n"
        "    broadcast(y, 0, 1)\n"
        "    indirect_dispatch(t, 0)\n"
        "    opaque(\"kind\", name)\n"
        "    let c = atomic_compare_exchange(t[0], 1, 2) + atomic_add(t[1], 1)\n"
        "    let d = f32(select(b, 1, 2)) + shuffle(1.0, 2) + subgroup_add(f32(ballot(b)))\n"
        "    let e = subgroup_id() + subgroup_size() + x[1, 2]\n"
        "    let f = reduce_sum{1}(iota{8, 128}()) + dot{f32, 0}(d, e) + pow(d, e)\n"
        "    let g = min(abs_diff(1, 2), rotate_left(3, 4)) << 2 >> 1 & 7 | 8 ^ 9\n"
        "endkernel\n");
}

TEST(KernelText, LineEndsMeanNothing) {
    const auto one = read_text(
        "kernel k workgroup(1) (o: output u32[1]): if true: o[0] = 1 else: o[0] = 2 endif endkernel");
    const auto many = read_text(
        "kernel k # a kernel\n workgroup\n(\n1\n)\n(o:\noutput u32\n[1])\n:\nif\ntrue:\no[0]\n=\n1 else :\no "
        "[ 0 ] = 2 "
        "endif\n\n\nendkernel\n# end");
    EXPECT_EQ(print(*one[0].body), print(*many[0].body));
}

TEST(KernelText, WordsOfStatementsMayBeNames) {
    const auto kernels = read_text(
        "kernel k workgroup(1) (wait: output u32[1]): let store = 1 store = 2 wait[0] = store endkernel");
    EXPECT_EQ(print(*kernels[0].body),
              "kernel k workgroup(1) (wait: output u32[1]):\n    let store = 1\n    store = 2\n    wait[0] = "
              "store\nendkernel\n");
}

TEST(KernelText, EveryOperationIsReadByItsName) {
    for (const kpu::kernel::Operation& row : kpu::kernel::operations()) {
        EXPECT_FALSE(row.name.empty());
        EXPECT_FALSE(row.pascal.empty()) << row.name;
        EXPECT_EQ(kpu::kernel::find_operation(row.name), &row) << row.name << " is there twice";
        if (row.syntax != kpu::kernel::Syntax::function) continue;
        std::string call = std::string(row.name) + "(";
        for (int i = 0; i < row.operands; ++i) call += i == 0 ? "1" : ", 1";
        expect_stable("kernel k rules(xla) workgroup(1) ():\n    let a = " + call + ")\nendkernel\n");
    }
    for (const kpu::kernel::StatementKind& row : kpu::kernel::statement_kinds())
        EXPECT_EQ(kpu::kernel::find_statement_kind(row.name), &row);
}

TEST(KernelText, BodiesThatTextCannotHoldAreRefused) {
    const auto kernels =
        read_text("kernel k workgroup(1) (o: output u32[1]): if true: o[0] = 1 endif endkernel");
    const proto::KernelBody good = *kernels[0].body;
    const std::pair<const char*, void (*)(proto::KernelBody&)> wrong[] = {
        {"unused field", [](proto::KernelBody& b) { b.mutable_statement(1)->set_number(3); }},
        {"unused bits",
         [](proto::KernelBody& b) {
             b.mutable_statement(1)->mutable_expression(0)->mutable_token(0)->set_name("x");
         }},
        {"kind", [](proto::KernelBody& b) { b.mutable_statement(1)->set_kind("jump"); }},
        {"operation",
         [](proto::KernelBody& b) {
             b.mutable_statement(1)->mutable_expression(0)->mutable_token(0)->set_op("nop");
         }},
        {"block", [](proto::KernelBody& b) { b.mutable_statement(0)->set_body_end(9); }},
        {"block backwards", [](proto::KernelBody& b) { b.mutable_statement(0)->set_body_end(0); }},
        {"else", [](proto::KernelBody& b) { b.mutable_statement(0)->set_else_begin(3); }},
        {"no value",
         [](proto::KernelBody& b) { b.mutable_statement(1)->mutable_expression(0)->clear_token(); }},
        {"two values",
         [](proto::KernelBody& b) {
             *b.mutable_statement(1)->mutable_expression(0)->add_token() =
                 b.statement(1).expression(0).token(0);
         }},
        {"operands",
         [](proto::KernelBody& b) {
             b.mutable_statement(1)->mutable_expression(0)->mutable_token(0)->set_op("add");
         }},
        {"count of operands",
         [](proto::KernelBody& b) {
             b.mutable_statement(1)->mutable_expression(0)->mutable_token(0)->set_op("dot");
             b.mutable_statement(1)->mutable_expression(0)->mutable_token(0)->set_bits(UINT64_MAX);
         }},
        {"expressions", [](proto::KernelBody& b) { b.mutable_statement(1)->clear_expression(); }},
        {"workgroup", [](proto::KernelBody& b) { b.clear_workgroup(); }},
        {"name", [](proto::KernelBody& b) { b.set_name("a b"); }},
        {"rules", [](proto::KernelBody& b) { b.set_rules("cuda"); }},
        {"type", [](proto::KernelBody& b) { b.mutable_buffer(0)->set_type("f33"); }},
    };
    const auto check = [](const proto::KernelBody& body) {
        kpu::kernel::check_form(body, "f");
        kpu::kernel::check_text(body, "f");
    };
    check(good);
    proto::KPUProgram program;
    program.set_name("p");
    proto::KernelFile& file = *program.add_kernel_file();
    file.set_path("p.kern");
    *file.add_kernel() = good;
    kpu::check_structure(program, "f");
    for (const auto& [name, change] : wrong) {
        proto::KernelBody body = good;
        change(body);
        EXPECT_THROW(check(body), UserError) << name;
        *file.mutable_kernel(0) = body;  // as it comes in a container
        EXPECT_THROW(kpu::check_structure(program, "f"), UserError) << name;
    }
}

TEST(KernelText, RandomKernelsGoThereAndBack) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const std::string text = random_kernel(seed).text;
        const auto kernels = read_text(text);
        const std::string printed = print(*kernels[0].body);
        const auto again = read_text(printed);
        EXPECT_EQ(again[0].body->SerializeAsString(), kernels[0].body->SerializeAsString()) << text;
        EXPECT_EQ(print(*again[0].body), printed);
    }
}

/// The places of a kernel that was read from no text are those of its text.
/// However an operation is written, 128 of them in one another are read, and what is printed of them.
TEST(KernelText, TheDeepestExpressionsReadBack) {
    const std::array<std::pair<std::string, std::string>, 10> around = {{
        {"-", ""},
        {"~", ""},
        {"neg(", ")"},
        {"u32(", ")"},
        {"x[", "]"},
        {"min(1, ", ")"},
        {"select(p, 1, ", ")"},
        {"(", " + 1)"},
        {"atomic_add(y[", "], 1)"},
        {"1 + (", ")"},
    }};
    for (const auto& [before, after] : around) {
        const auto nested = [&](int operations) {
            std::string text = "1";
            for (int i = 0; i < operations; ++i) text = before + text + after;
            return "kernel k workgroup(1) (x: read u32[], y: read_write u32[]):\n    let v = " + text +
                   "\nendkernel\n";
        };
        const auto kernels = read_text(nested(127));
        const auto again = read_text(print(*kernels[0].body));
        EXPECT_EQ(again[0].body->SerializeAsString(), kernels[0].body->SerializeAsString()) << before;
        Diagnostics diagnostics;
        parse(nested(128), "k.kern", diagnostics);
        EXPECT_THAT(diagnostics.to_string(), ::testing::HasSubstr("nesting depth 129 exceeds max 128"))
            << before;
    }
}

TEST(KernelText, PrintedKernelsHaveTheirPlaces) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
        const auto kernel = read_text(random_kernel(seed).text)[0];
        const std::string above = seed % 2 == 0 ? "" : "\n\n\n", text = above + print(*kernel.body);
        const auto read = read_text(text)[0];
        uint32_t line = static_cast<uint32_t>(above.size()) + 1;
        const auto printed = kpu::kernel::printed(kernel.body, "p.kern", line);
        EXPECT_EQ(printed.path, "p.kern");
        EXPECT_EQ(printed.start.line, read.start.line);
        EXPECT_EQ(printed.start.column, read.start.column);
        ASSERT_EQ(printed.statements.size(), read.statements.size());
        for (size_t i = 0; i < read.statements.size(); ++i) {
            EXPECT_EQ(printed.statements[i].line, read.statements[i].line) << text;
            EXPECT_EQ(printed.statements[i].column, read.statements[i].column) << text;
        }
        EXPECT_EQ(line, 1 + std::count(text.begin(), text.end(), '\n'));
    }
}

TEST(KernelText, DamagedTextIsReportedNeverMore) {
    std::mt19937_64 random(1);
    const std::string pieces = "()[]{}:=,.+-*/%<>!&|^~\"#0x1.5i32 gid if else endif loop let \n\xff";
    for (uint64_t seed = 0; seed < 3000; ++seed) {
        std::string text = random_kernel(seed % 50).text;
        for (int edits = 0; edits < 3; ++edits) {
            const size_t at = random() % text.size(), count = random() % 6;
            if (random() % 2 == 0)
                text.erase(at, count);
            else
                text.insert(at, pieces.substr(random() % (pieces.size() - 5), count));
        }
        Diagnostics diagnostics;
        for (const auto& source : parse(text, "t.kern", diagnostics)) {
            if (diagnostics.has_errors()) break;
            kpu::kernel::check_form(*source.body, "t.kern");
            kpu::kernel::analyse(source, diagnostics);
        }
        for (const Diagnostic& d : diagnostics.all()) {
            if (d.severity != Severity::error) continue;
            EXPECT_TRUE(d.message.find("Fix: ") != std::string::npos ||
                        d.message.find("Choose one") != std::string::npos)
                << d.message;
        }
    }
}

}  // namespace
}  // namespace kpu::kernel_test
