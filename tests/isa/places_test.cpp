// Places that a program carries: what another compiler says of each statement comes back in every message.
#include "tests/isa/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isa/bound_module.hpp"
#include "isa/container.hpp"
#include "isa/verify.hpp"
#include "tests/isa/sample_programs.hpp"

namespace kpu {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<Module> read_back(const Module& module) {
    return std::make_shared<Module>(parse_container(serialize_container(module), "net.kpu"));
}

std::string findings_of(const Module& module) {
    Diagnostics diagnostics;
    verify(read_back(module), {}, {}, diagnostics);
    return diagnostics.to_string();
}

proto::Task& task_of(Module& module, int statement) {
    return *module.program.mutable_statement(statement)->mutable_task();
}

TEST(Places, EveryStatementOfAContainerHasItsPlace) {
    Module module = test::relu_rows();
    test::add_places(module.program);
    const auto read = read_back(module);
    EXPECT_EQ(read->program.SerializeAsString(), module.program.SerializeAsString());
    const BoundProgram bound = bind(read, {}, {});
    for (uint32_t s = 0; s < bound.statements.size(); ++s)
        EXPECT_TRUE(test::same_place(bound.pos_of(s), test::emitter_pos(s))) << s;
}

TEST(Places, StatementsWithoutOneStandInTheFile) {
    Module module = test::relu_rows();
    test::add_places(module.program);
    module.program.mutable_statement(0)->clear_place();
    const BoundProgram bound = bind(read_back(module), {}, {});
    EXPECT_TRUE(test::same_place(bound.pos_of(0), {"net.kpu", 0, 0, 0}));
    EXPECT_TRUE(test::same_place(bound.pos_of(1), test::emitter_pos(1)));
}

TEST(Places, ProgramsWithoutPlacesHaveNone) {
    const auto read = read_back(test::relu_rows());
    EXPECT_TRUE(read->source.statements.empty());
    EXPECT_TRUE(bind(read, {}, {}).pos_of(0).file.empty());
}

TEST(Places, TasksKeepTheirNames) {
    // Tasks that a compiler unrolled from one line are not all called after it.
    Module module = test::relu_rows();
    const BoundProgram without = bind(read_back(module), {}, {});
    test::add_places(module.program);
    const BoundProgram with = bind(read_back(module), {}, {});
    for (size_t t = 0; t < without.tasks.size(); ++t) EXPECT_EQ(with.tasks[t].name, without.tasks[t].name);
}

TEST(Places, AnUnknownOpcodeIsAtItsStatement) {
    Module module = test::relu_rows();
    int statement = 0;
    while (module.program.statement(statement).task().opcode() != "relu") ++statement;
    task_of(module, statement).set_opcode("rellu");
    const std::string message = "unknown opcode `rellu` of task `work` (statement " +
                                std::to_string(statement) + "). Fix: did you mean `relu`?";
    EXPECT_THAT(findings_of(module), HasSubstr("net.kpu: error: " + message));
    test::add_places(module.program);
    const SourcePos pos = test::emitter_pos(static_cast<uint32_t>(statement));
    EXPECT_THAT(findings_of(module), HasSubstr(to_string(Diagnostic{Severity::error, message, pos, {}})));
}

TEST(Places, ARegionIsAtItsLetOrTheTaskThatItStandsIn) {
    Module module = test::relu_rows();
    test::add_places(module.program);
    const auto read = read_back(module);
    for (int s = 0; s < read->program.statement_size(); ++s) {
        const proto::Statement& statement = read->program.statement(s);
        if (!statement.has_let_region()) continue;
        const SourcePos pos = read->pos_of_region(statement.let_region());
        EXPECT_EQ(pos.line, test::emitter_pos(static_cast<uint32_t>(s)).line);
    }
    const int last = read->program.statement_size() - 1;  // the store
    proto::Region inline_region =
        module.program.region(static_cast<int>(task_of(module, last).output(0).region()));
    inline_region.clear_name();
    inline_region.mutable_offset()->mutable_token(0)->set_kind(proto::ExprToken::INT);
    inline_region.mutable_offset()->mutable_token(0)->set_value(1 << 20);
    *module.program.add_region() = inline_region;
    task_of(module, last)
        .mutable_output(0)
        ->set_region(static_cast<uint32_t>(module.program.region_size() - 1));
    const SourcePos pos = test::emitter_pos(static_cast<uint32_t>(last));
    EXPECT_THAT(findings_of(module), HasSubstr(pos.file + ":" + std::to_string(pos.line)));
}

TEST(Places, ATableThatContradictsItselfIsRefusedByTheField) {
    struct Case {
        const char* name;
        void (*change)(KPUProgram&);
        const char* message;
    };
    const Case cases[] = {
        {"place_index", [](KPUProgram& p) { p.mutable_statement(1)->set_place(1); },
         "statement[1].place is 1, but there are 0 places"},
        {"place_file", [](KPUProgram& p) { p.add_place()->set_line(1); },
         "place[0].file is 0, but there are 0 source files"},
        {"place_line", [](KPUProgram& p) { p.add_source_file("a.py"), p.add_place(); },
         "place[0].line is 0; 1 to 2147483647 are allowed. Fix:"},
        {"place_column",
         [](KPUProgram& p) {
             p.add_source_file("a.py");
             proto::Place& place = *p.add_place();
             place.set_line(1);
             place.set_column(UINT32_MAX);
         },
         "place[0].column is 4294967295; 0 to 2147483647 are allowed"},
        {"no_source_file", [](KPUProgram& p) { p.add_source_file(""); }, "source_file[0] is ``. Fix:"},
        {"control_source_file", [](KPUProgram& p) { p.add_source_file("a\n.py"); },
         "source_file[0] is `a\\x0a.py`"},
        {"long_source_file", [](KPUProgram& p) { p.add_source_file(std::string(4097, 'a')); },
         "1 to 4096 bytes"},
        {"source_files",
         [](KPUProgram& p) {
             for (int i = 0; i <= 65536; ++i) p.add_source_file("a");
         },
         "source_file has 65537 entries; 65536 are allowed"},
    };
    for (const Case& each : cases) {
        Module module = test::relu_rows();
        each.change(module.program);
        try {
            check_structure(module.program, "p");
            ADD_FAILURE() << each.name << " was accepted";
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), HasSubstr(each.message)) << each.name;
        }
    }
}

TEST(Places, AreNotKeptTwice) {
    // Text of a long program goes once it is bound; the places of its statements stay.
    builder::Program p("long");
    const builder::Buffer b = p.buffer("B", Level::ddr, 64, 64), c = p.buffer("C", Level::l2, 64, 64);
    const builder::TensorType row = builder::tensor(ElemType::i8, {64});
    const builder::Region from = p.region("from", b, 0, row), to = p.region("to", c, 0, row);
    for (int i = 0; i < 10'000; ++i) p.transfer("", to, from);
    Module module = p.build();
    test::add_places(module.program);
    std::shared_ptr<const Module> read = read_back(module);
    BoundProgram bound = bind(read, {}, {});
    shed_text(bound, read);
    EXPECT_EQ(read->program.place_size(), 0);
    EXPECT_EQ(read->program.statement_size(), 0);
    EXPECT_TRUE(test::same_place(bound.pos_of(5000), test::emitter_pos(5000)));
}

}  // namespace
}  // namespace kpu
