// Programs: every construct of the grammar, and its ambiguities.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/nem/support.hpp"

namespace kpu::nem {
namespace {

using proto::ExprToken;
using ::testing::ElementsAre;

/// Returns the postfix text of an expression: "2 i * c0 +".
std::string postfix(const proto::Expr& expr) {
    std::string text;
    for (const ExprToken& token : expr.token()) {
        constexpr const char* operators[] = {"", "c", "p", "l", "+", "-", "*", "/", "mod", "neg"};
        if (!text.empty()) text += ' ';
        text += operators[token.kind()];
        if (token.kind() <= ExprToken::LOOP) text += std::to_string(token.value());
    }
    return text;
}

constexpr std::string_view prelude = R"(
const N = 16
buffer D : DDR (size = 4096)
buffer S : L1[0] (size = 4096, align = 64)
let a = region(D, 0, 16) elem=i8, shape=[N], layout=C
let b = region(S, 0, 16) elem=i8, shape=[N], layout=C
let c = region(S, 64, 16) elem=i8, shape=[N], layout=C
t0 = transfer.async(dst=b, src=a)
)";

KPUProgram after_prelude(std::string_view text) { return parse_good(fmt::format("{}{}", prelude, text)); }

const proto::Task& last_task(const KPUProgram& program) {
    return program.statement(program.statement_size() - 1).task();
}

TEST(programs, every_example_parses) {
    size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(KPUSIM_SOURCE_DIR "/examples")) {
        if (entry.path().extension() != ".nem") continue;
        ++count;
        std::ostringstream text;
        text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
        const Parsed parsed = parse_text(text.str());
        EXPECT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
        EXPECT_GT(parsed.program().statement_size(), 0);
    }
    EXPECT_GE(count, 4u);
}

TEST(programs, a_device_directive_has_three_forms_and_includes_are_kept) {
    EXPECT_EQ(parse_good("device \"npm lite.cfg\" program p: const N = 1").device().path(), "npm lite.cfg");
    EXPECT_EQ(parse_good("device npm_lite program p: const N = 1").device().name(), "npm_lite");
    const Parsed parsed = parse_text(
        "include \"x.nem\" device d { spec_version = \"1\" opcode.mandatory { } } program p: const N = 1",
        {{"x.nem", ""}});
    EXPECT_TRUE(parsed.document.is_program);
    EXPECT_EQ(parsed.program().device().body(), "device d { spec_version = \"1\" opcode.mandatory { } }");
    EXPECT_THAT(parsed.program().device().include(), ElementsAre("x.nem"));
    EXPECT_EQ(parsed.document.devices.size(), 1u);
    EXPECT_EQ(parsed.program().name(), "p");
}

TEST(programs, constants_alone_and_nothing_at_all_are_programs) {
    EXPECT_EQ(parse_good("const A = 1 const B = A").constant_size(), 2);
    EXPECT_TRUE(parse_text("").document.is_program);
    EXPECT_TRUE(parse_text("# a comment with \xE2\x94\x80 and \xFF bytes").document.is_program);
    EXPECT_FALSE(parse_text("").diagnostics.has_errors());
}

TEST(expressions, precedence_association_and_unary_minus) {
    const KPUProgram p = parse_good(
        "const A = 1 + 2 * 3 - 4 / 5 mod 6 const B = -(A + 1) * -2 const C = 7 - 6 - 5 const D = 2 * (A - "
        "-B)");
    EXPECT_EQ(postfix(p.constant(0).value()), "1 2 3 * + 4 5 / 6 mod -");
    EXPECT_EQ(postfix(p.constant(1).value()), "c0 1 + neg -2 *");
    EXPECT_EQ(postfix(p.constant(2).value()), "7 6 - 5 -");
    EXPECT_EQ(postfix(p.constant(3).value()), "2 c0 c1 neg - *");
}

TEST(expressions, the_least_and_largest_integers_can_be_written) {
    const KPUProgram p = parse_good("const A = -9223372036854775808 const B = 9223372036854775807");
    EXPECT_EQ(p.constant(0).value().token(0).value(), INT64_MIN);
    EXPECT_EQ(p.constant(1).value().token(0).value(), INT64_MAX);
}

TEST(buffers, levels_engines_and_properties_in_any_order) {
    const KPUProgram p = parse_good(
        "#! param T = 8 in [1..64]\nconst K = 2 buffer a : DDR (size = T * K) buffer b : L2 (align = 64, "
        "size = 1) "
        "buffer c : L1[K - 1] (size = 1) @debug(x) buffer d : L1 (size = 4)");
    EXPECT_EQ(postfix(p.buffer(0).size()), "p0 c0 *");
    EXPECT_FALSE(p.buffer(0).has_align());
    EXPECT_EQ(p.buffer(1).level(), proto::L2);
    EXPECT_EQ(postfix(p.buffer(1).align()), "64");
    EXPECT_EQ(postfix(p.buffer(2).engine()), "c0 1 -");
    EXPECT_EQ(p.buffer(2).decorator(0).arg(0).word(), "x");
    EXPECT_EQ(p.buffer(3).level(), proto::L1);
    EXPECT_FALSE(p.buffer(3).has_engine());
}

TEST(regions, attributes_layout_strides_quantization_and_decorators) {
    const KPUProgram p = after_prelude(R"(
let r = region(D, N * 2, 64)
    elem=i4, shape=[2, N, 3], layout=L2,
    quant=per_group(axis=-1, group_size=32, scales=[0.5, 1.0e-3, 2], zero_points=[0, -8, N]) @readonly @materialized
s = region(D, 0, 64) elem=bf16, shape=[2, 4], strides=[N, 1]
let q = region(D, 0, 64) elem=u8, shape=[2], layout=C, quant=per_tensor(scale=1.0 / 256, zero_point=128)
let w = region(D, 0, 64) elem=u8, shape=[2], layout=C, quant=per_channel(axis=0, scales=[0.1, 0.2], zero_points=[0, 0])
let bytes = region(S, 0, 8) @writeonly
)");
    ASSERT_EQ(p.region_size(), 8);
    const proto::Region& r = p.region(3);
    EXPECT_EQ(r.name(), "r");
    EXPECT_EQ(r.elem(), proto::I4);
    EXPECT_EQ(r.shape_size(), 3);
    EXPECT_EQ(r.layout(), "L2");
    EXPECT_EQ(postfix(r.offset()), "c0 2 *");
    EXPECT_EQ(r.quant().kind(), proto::Quant::PER_GROUP);
    EXPECT_EQ(r.quant().axis(), -1);
    EXPECT_EQ(r.quant().group_size(), 32u);
    EXPECT_THAT(r.quant().scale(), ElementsAre(0.5, 1e-3, 2.0));
    EXPECT_THAT(r.quant().zero_point(), ElementsAre(0, -8, 16));
    EXPECT_EQ(r.decorator(1).name(), "materialized");
    EXPECT_EQ(p.region(4).name(), "s");
    EXPECT_EQ(p.region(4).stride_size(), 2);
    EXPECT_EQ(p.region(5).quant().scale(0), 1.0 / 256);
    EXPECT_EQ(p.region(6).quant().kind(), proto::Quant::PER_CHANNEL);
    EXPECT_EQ(p.region(7).elem(), proto::ELEM_NONE);
    EXPECT_EQ(p.region(7).decorator(0).name(), "writeonly");
    EXPECT_EQ(p.statement(p.statement_size() - 1).let_region(), 7u);
}

TEST(regions, operands_may_be_written_inline) {
    const KPUProgram p = after_prelude(
        "x = add.async in region(S, 0, 16) elem=i8, shape=[N], layout=C, region(S, 16, 16) elem=i8, "
        "shape=[16], "
        "strides=[1] @materialized out region(S, 32, 16) elem=i8, shape=[16], layout=C,\n "
        "quant=per_tensor(scale=1.0, "
        "zero_point=0) deps=[t0]\n"
        "transfer.sync(src=region(D, 0, 4), dst=region(S, 0, 4), deps=[x])");
    ASSERT_EQ(p.region_size(), 8);
    const proto::Task& add = p.statement(4).task();
    EXPECT_EQ(add.input(0).region(), 3u);
    EXPECT_EQ(add.input(1).region(), 4u);
    EXPECT_EQ(add.input(1).decorator(0).name(), "materialized");
    EXPECT_EQ(add.output(0).region(), 5u);
    EXPECT_TRUE(p.region(5).has_quant());
    EXPECT_THAT(add.dep(), ElementsAre(3u));
    EXPECT_EQ(p.region(3).name(), "");
    const proto::Task& transfer = last_task(p);
    EXPECT_TRUE(transfer.sync());
    EXPECT_EQ(transfer.name(), "");
    EXPECT_EQ(transfer.input(0).region(), 6u);
    EXPECT_EQ(transfer.output(0).region(), 7u);
}

TEST(lets, scalars_are_substituted_and_values_used_as_attributes) {
    const KPUProgram p = after_prelude(
        "let alpha = 0.125 let word = i32 let list = [1, N] let two = 1 + 1\n"
        "let r = region(D, two * two, 8)\n"
        "x = leaky_relu.async in b out c alpha=alpha\n y = gemm.async in b, b out c accum_type=word "
        "pads=list k=two");
    EXPECT_EQ(postfix(p.region(3).offset()), "1 1 + 1 1 + *");
    EXPECT_EQ(p.statement(5).task().attribute(0).value().real(), 0.125);
    EXPECT_EQ(p.statement(6).task().attribute(1).value().list().item_size(), 2);
    EXPECT_EQ(postfix(p.statement(6).task().attribute(2).value().expr()), "1 1 +");
}

TEST(loops, nest_and_their_variables_are_numbered_from_outside) {
    const KPUProgram p = after_prelude(R"(
loop i in [0..N - 1] @max_in_flight(2):
    loop j in [i..i * 2]:
        let r = region(D, i * N + j, 1)
    endloop
    t1 = transfer.async(dst=b, src=a) @memmove
endloop
loop i in [0..1]:
endloop
wait(t0, t1)
)");
    const proto::Loop& outer = p.statement(4).loop();
    EXPECT_EQ(outer.variable(), "i");
    EXPECT_EQ(outer.body_end(), 8u);
    EXPECT_EQ(outer.decorator(0).name(), "max_in_flight");
    EXPECT_EQ(postfix(outer.decorator(0).arg(0).expr()), "2");
    EXPECT_EQ(p.statement(5).loop().body_end(), 7u);
    EXPECT_EQ(postfix(p.statement(5).loop().last()), "l0 2 *");
    EXPECT_EQ(postfix(p.region(3).offset()), "l0 c0 * l1 +");
    EXPECT_EQ(p.statement(8).loop().body_end(), 9u);
    EXPECT_THAT(p.statement(9).wait().dep(), ElementsAre(3u, 7u));
}

TEST(loops, a_token_of_a_loop_is_visible_after_it_and_may_be_declared_again) {
    const KPUProgram p = after_prelude(
        "loop i in [0..1]: t = transfer.async(dst=b, src=a) endloop\n"
        "loop i in [0..1]: t = transfer.async(dst=b, src=a) u = relu.async in b out c deps=[t] endloop\n"
        "wait(t)");
    EXPECT_THAT(p.statement(8).task().dep(), ElementsAre(7u));
    EXPECT_THAT(p.statement(9).wait().dep(), ElementsAre(7u));
}

TEST(tasks, attributes_of_every_kind_in_any_order) {
    const KPUProgram p = after_prelude(
        "const constant = 3\n"
        "x = conv2d.acc.async in b, c out c pads=[1, 1, N, -1,] deps=[t0] mode=reflect value=-1.5 "
        "text=\"a\\\"b\\n\" "
        "accum_type=i32 keepdims=true axis=-1 words=[a1, f16] big=1.5e+3 sum=N + 1 empty=[]");
    const proto::Task& task = last_task(p);
    EXPECT_EQ(task.opcode(), "conv2d.acc");
    ASSERT_EQ(task.attribute_size(), 11);
    const auto value = [&](int i) { return task.attribute(i).value(); };
    EXPECT_EQ(value(0).list().item_size(), 4);
    EXPECT_EQ(postfix(value(0).list().item(2).expr()), "c0");
    EXPECT_EQ(value(1).word(), "reflect");
    EXPECT_EQ(value(2).real(), -1.5);
    EXPECT_EQ(value(3).text(), "a\"b\n");
    EXPECT_EQ(value(4).word(), "i32");
    EXPECT_EQ(value(5).word(), "true");
    EXPECT_EQ(postfix(value(6).expr()), "-1");
    EXPECT_EQ(value(7).list().item(1).word(), "f16");
    EXPECT_EQ(value(8).real(), 1500.0);
    EXPECT_EQ(postfix(value(9).expr()), "c0 1 +");
    EXPECT_TRUE(value(10).has_list());
    EXPECT_THAT(task.dep(), ElementsAre(3u));
}

TEST(ambiguities, an_attribute_is_told_from_the_next_statement) {
    const KPUProgram p = after_prelude(
        "x = gemm.async in b, b out c accum_type=i32 tR = relu.async in c out c deps=[x]\n"
        "y = gemm.async in b, b out c accum_type=i32 z = gemm.acc.sync in b, b out c accum_type=i32 r = "
        "region(D, 0, 4)\n"
        "s = store.async(dst=a, src=c)");
    ASSERT_EQ(p.statement_size(), 10);
    EXPECT_EQ(p.statement(5).task().name(), "tR");
    EXPECT_EQ(p.statement(7).task().opcode(), "gemm.acc");
    EXPECT_TRUE(p.statement(7).task().sync());
    EXPECT_EQ(p.region(static_cast<int>(p.statement(8).let_region())).name(), "r");
    EXPECT_EQ(p.statement(9).task().kind(), proto::Task::STORE);
}

TEST(ambiguities, decorators_of_a_task_are_lifted_from_its_last_operand) {
    const KPUProgram p = after_prelude(
        "x = relu.async in b @materialized out c @materialized @resource(CSTL[N - 15]) @debug(here) alpha=1 "
        "@deterministic @seq_engine(1)");
    const proto::Task& task = last_task(p);
    ASSERT_EQ(task.decorator_size(), 4);
    EXPECT_EQ(task.decorator(0).name(), "resource");
    EXPECT_EQ(task.decorator(0).unit(), "CSTL");
    EXPECT_EQ(postfix(task.decorator(0).index()), "c0 15 -");
    EXPECT_EQ(task.decorator(1).arg(0).word(), "here");
    EXPECT_EQ(task.decorator(2).name(), "deterministic");
    EXPECT_EQ(task.decorator(3).name(), "seq_engine");
    ASSERT_EQ(task.output(0).decorator_size(), 1);
    EXPECT_EQ(task.output(0).decorator(0).name(), "materialized");
    EXPECT_EQ(task.input(0).decorator_size(), 1);
}

TEST(names, contextual_words_opcodes_and_layouts_are_ordinary_names) {
    const KPUProgram p = parse_good(
        "const size = 4 const C = 2 buffer min : DDR (size = size) let shape = region(min, 0, C) elem=i8, "
        "shape=[C], "
        "layout=C\nasync = relu.async in shape out shape\nwait(async);;");
    EXPECT_EQ(p.statement(1).task().name(), "async");
    EXPECT_EQ(p.region(0).layout(), "C");
}

TEST(metadata, parameters_tensors_ops_data_and_fields_of_the_program) {
    const KPUProgram p = parse_good(R"(#!/usr/bin/env kpusim
#! param T = -8 in [-8..64]
#! program {"version": "2", "precision": "int8", "input_id": ["x"], "estimated_total_energy_uj": 1.5}
#! tensor {"id": "x", "elem": "I8", "shape": [4], "buffer": "D"}
#! op {"id": "first", "op_type": "Relu"}
#! op {"id": "second", "op_type": "Add"}
#! data {"name": "w", "size": "4", "buffer": "D"}
program p:
buffer D : DDR (size = 64)
let a = region(D, T, 4) elem=i8, shape=[4], layout=C
#! {"op": 1}
x = relu.async in a out a
y = relu.async in a out a
)");
    EXPECT_EQ(p.param(0).default_value(), -8);
    EXPECT_EQ(p.param(0).max(), 64);
    EXPECT_EQ(p.version(), "2");
    EXPECT_EQ(p.estimated_total_energy_uj(), 1.5);
    EXPECT_EQ(p.tensor(0).id(), "x");
    EXPECT_EQ(p.op(1).op_type(), "Add");
    EXPECT_EQ(p.data(0).size(), 4u);
    EXPECT_EQ(postfix(p.region(0).offset()), "p0");
    EXPECT_EQ(p.statement(1).task().op(), 2u);
    EXPECT_EQ(p.statement(2).task().op(), 0u);
}

TEST(source_map, every_part_knows_its_place) {
    const Parsed parsed = parse_text(
        "const N = 1\nbuffer D : DDR (size = 8)\nlet a = region(D, 0, 4)\n"
        "loop i in [0..1]:\n    x = transfer.async(dst=a,\n src=region(D, 4, 4))\nendloop");
    ASSERT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    const SourceMap& map = parsed.document.module.source;
    EXPECT_THAT(map.files, ElementsAre("t.nem"));
    ASSERT_EQ(map.statements.size(), 3u);
    EXPECT_EQ(map.statements[2].line, 5u);
    EXPECT_EQ(map.statements[2].column, 5u);
    ASSERT_EQ(map.regions.size(), 2u);
    EXPECT_EQ(map.regions[1].line, 6u);
    EXPECT_EQ(map.regions[1].column, 6u);
    EXPECT_EQ(map.buffers.at(0).column, 8u);
    EXPECT_EQ(map.constants.at(0).line, 1u);
}

TEST(source_map, places_of_another_compiler_come_first) {
    const Parsed parsed = parse_text(R"(#! program {"source_file": ["net.py"]}
#! place {"line": 70, "column": 9}
buffer D : DDR (size = 8)
let a = region(D, 0, 4)
#! {"place": 0}
transfer.async(dst=a, src=region(D, 4, 4))
#! {"place": 0}
let b = region(D, 4, 4)
)");
    ASSERT_FALSE(parsed.diagnostics.has_errors()) << parsed.errors();
    const Module& module = parsed.document.module;
    EXPECT_EQ(module.pos_of_statement(0).file, "t.nem");
    EXPECT_EQ(module.pos_of_statement(0).line, 4u);
    EXPECT_EQ(module.pos_of_statement(1).file, "net.py");
    EXPECT_EQ(module.pos_of_statement(1).line, 70u);
    EXPECT_EQ(module.pos_of_statement(1).column, 9u);
    EXPECT_EQ(module.pos_of_region(1).file, "net.py") << "written inline";
    EXPECT_EQ(module.pos_of_region(2).line, 70u);
    EXPECT_EQ(module.pos_of_region(0).file, "t.nem");
}

}  // namespace
}  // namespace kpu::nem
