#include "isa/program_message.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "base/digest.hpp"
#include "isa/container.hpp"
#include "isa/wire_fault.hpp"
#include "tests/isa/sample_programs.hpp"
#include "tests/temp_folder.hpp"

namespace kpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Returns the sample, whose data stand beside it or nowhere.
KPUProgram sample() {
    KPUProgram program = test::relu_rows().program;
    program.clear_data();
    return program;
}

std::string text_of(const KPUProgram& program) {
    std::string text;
    google::protobuf::TextFormat::PrintToString(program, &text);
    return text;
}

std::string message_refusal(const std::string& bytes) {
    try {
        read_message(bytes, "file");
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ProgramMessage, IsToldByItsContent) {
    const std::string bytes = sample().SerializeAsString(), text = text_of(sample());
    EXPECT_EQ(message_form(bytes), MessageForm::serialized);
    EXPECT_EQ(message_form(text), MessageForm::text);
    EXPECT_EQ(message_form("\xEF\xBB\xBF# proto-message: KPUProgram\r\n\r\n" + text), MessageForm::text);
    EXPECT_EQ(message_form("buffer{name: \"x\""), MessageForm::text);
    EXPECT_EQ(message_form("statement <"), MessageForm::text);
    KPUProgram backward = sample();  // fields may stand in any order
    backward.clear_name();
    EXPECT_EQ(message_form(backward.SerializeAsString() + sample().SerializeAsString()),
              MessageForm::serialized);
    const std::string others[] = {
        "",
        "# comments alone\n",
        "program x:\n",
        "buffer x : DDR (size = 64)\n",
        "device npm {\n",
        "name = relu.async in a out b\n",
        "engine { }\n",
        "\nprogram "
        "rows_of_a_program_whose_name_is_long_enough_to_be_taken_for_the_text_of_a_field_by_its_first_bytes:"
        "\n",
        serialize_container(test::relu_rows()),
        std::string("\x0a\x16kpusim.tile_schedule/1\x12\x09\x08\x20\x12\x03"
                    "f32\x1a\x00",
                    35),
        std::string("\x08\x07\x12\x07pytorch", 11),                  // ONNX
        std::string("\x12\x07pytorch\x3a\x04\x0a\x02\x08\x01", 15),  // ONNX, its fields in another order
        std::string("\x80\x04\x95"),                                 // a pickle
    };
    for (const std::string& other : others) EXPECT_EQ(message_form(other), std::nullopt) << other;
}

TEST(ProgramMessage, BothFormsAreTheProgram) {
    // Read, written as a container and read again, either form gives the message that was written.
    const KPUProgram program = sample();
    for (const std::string& form : {program.SerializeAsString(), text_of(program)}) {
        const Module module = read_message(form, "file");
        EXPECT_EQ(module.program.SerializeAsString(), program.SerializeAsString());
        EXPECT_EQ(module.origin, "file");
        EXPECT_EQ(parse_container(serialize_container(module), "again").program.SerializeAsString(),
                  program.SerializeAsString());
    }
}

TEST(ProgramMessage, TruncationsSayTheByte) {
    // Cut within a field, the byte is said. Between two fields a message has no end of its own: what is left is a shorter
    // program, good or refused for what it lacks.
    const std::string good = sample().SerializeAsString();
    int said = 0;
    for (size_t size = 1; size < good.size(); ++size) {
        const std::string text = message_refusal(good.substr(0, size));
        const bool between = KPUProgram().ParseFromString(good.substr(0, size));
        if (between) continue;
        EXPECT_THAT(text, AllOf(StartsWith("file: error: no valid KPUProgram message at byte "),
                                HasSubstr("truncated")));
        ++said;
    }
    EXPECT_GT(said, static_cast<int>(good.size() * 8 / 10));
}

TEST(ProgramMessage, FaultsOfTheFormHaveTheirPlace) {
    // Uses the wire format of protobuf: 0x0a is field 1 with a length, 0xba 0x01 is 23, 0xc2 0x01 is 24
    // (statement), within it 0x0a is the task, of which 0x12 is the name and 0x18 is `sync`.
    const std::string name("\x0a\x01p", 3);
    const std::pair<std::string, const char*> cases[] = {
        {std::string("\xc2\x01\x04\x0a\x02\x12\x05", 7),
         "at byte 8 (KPUProgram.statement[0].task): truncated: field "
         "`name` has 5 bytes, 0 follow"},
        {std::string("\xc2\x01\x02\x0a\x00\xc2\x01\x04\x0a\x02\x1a\x00", 12),
         "at byte 13 (KPUProgram.statement[1].task): field `sync` is written as wire type 2, it is of type "
         "0"},
        {std::string("\xc2\x01\x05\x0a\x03\x12\x01\xff", 8),
         "at byte 8 (KPUProgram.statement[0].task): field `name` is not UTF-8"},
        {std::string("\xc2\x01\x05\x0a\x03\xa8\x06\x01", 8),
         "at byte 8 (KPUProgram.statement[0].task): message Task has field 101, which this version does not "
         "know"},
        {std::string("\x80\x08\x01", 3), "at byte 3 (KPUProgram): message KPUProgram has field 128, which"},
        {std::string("\xc0\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13),
         "at byte 3 (KPUProgram): message KPUProgram has field 72, which"},
        {std::string("\xe0\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13),
         "at byte 3 (KPUProgram): a number has more than 10 bytes"},
        {std::string("\x8a\x80\x80\x80\x80\x00\x00", 7),
         "at byte 3 (KPUProgram): a number has more than 5 bytes"},
        {std::string("\x12\x80\x80\x80\x80\x80\x00", 7),
         "at byte 3 (KPUProgram): a number has more than 5 bytes"},
        {std::string("\x00\x00", 2), "at byte 3 (KPUProgram): no field begins like this"},
    };
    for (const auto& [bytes, message] : cases) {
        EXPECT_THAT(message_refusal(name + bytes), AllOf(HasSubstr(message), HasSubstr("Fix:"))) << message;
        EXPECT_EQ(message_refusal(name + bytes).find('\n'), std::string::npos);
    }
}

/// True if no part of a message has fields that its type does not have.
bool all_known(const google::protobuf::Message& message) {
    const google::protobuf::Reflection& reflection = *message.GetReflection();
    if (!reflection.GetUnknownFields(message).empty()) return false;
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const auto* field : fields) {
        if (field->message_type() == nullptr) continue;
        if (!field->is_repeated() && !all_known(reflection.GetMessage(message, field))) return false;
        for (int i = 0; field->is_repeated() && i < reflection.FieldSize(message, field); ++i)
            if (!all_known(reflection.GetRepeatedMessage(message, field, i))) return false;
    }
    return true;
}

TEST(ProgramMessage, FaultsAreWhatTheParserRefuses) {
    // Any byte changed: what the library parses without unknown fields has no fault, and the other way round.
    const std::string good = sample().SerializeAsString();
    const google::protobuf::LogSilencer silence;
    int faults = 0;
    for (size_t i = 0; i < good.size(); ++i) {
        for (const int mask : {0x01, 0x02, 0x08, 0x40, 0x80, 0xff}) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ mask);
            KPUProgram program;
            const bool fault = find_wire_fault(bad, *KPUProgram::descriptor()).has_value();
            faults += fault;
            EXPECT_EQ(!fault, parse_message(bad, Packing::none, program) && all_known(program))
                << i << " " << mask;
        }
    }
    EXPECT_GT(faults, 100);
}

TEST(ProgramMessage, DeepNestingIsTheParsers) {
    // Lists in lists, from few to more than protobuf's reader takes: it is said, wherever its limit is.
    for (int depth = 2; depth < 70; ++depth) {
        KPUProgram program;
        proto::Value* value = program.add_buffer()->add_decorator()->add_arg();
        for (int i = 0; i < depth; ++i) value = value->mutable_list()->add_item();
        value->set_text("x");
        const std::string bytes = program.SerializeAsString();
        KPUProgram parsed;
        EXPECT_EQ(find_wire_fault(bytes, *KPUProgram::descriptor()).has_value(),
                  !parse_message(bytes, Packing::none, parsed))
            << depth;
    }
}

TEST(ProgramMessage, OneFileHoldsOneForm) {
    const std::string bytes = sample().SerializeAsString(), text = text_of(sample());
    const std::string at =
        fmt::format("file: error: at byte {} the serialized program ends and ", bytes.size());
    EXPECT_THAT(message_refusal(bytes + text), AllOf(StartsWith(at + "a text begins"), HasSubstr("Fix:")));
    EXPECT_THAT(message_refusal(bytes + "# more\n" + text), StartsWith(at + "a text begins"));
    EXPECT_THAT(message_refusal(bytes + serialize_container(Module())),
                StartsWith(at + "a container begins"));
    const auto lines =
        std::count(text.begin(), text.end(), '\n');  // the first byte of a message begins another line
    EXPECT_THAT(message_refusal(text + bytes),
                AllOf(StartsWith(fmt::format("file:{}:", lines + 2)),
                      HasSubstr("error: here are bytes that are not text. Fix:")));
    EXPECT_EQ(message_refusal(text + bytes).find('\n'), std::string::npos);
    EXPECT_THAT(message_refusal(text + std::string("\0\1", 2)),
                HasSubstr(fmt::format("file:{}:1: error: here are bytes", lines + 1)));
}

TEST(ProgramMessage, TextIsRefusedByLineAndColumn) {
    const std::pair<std::string, const char*> cases[] = {
        {"name: \"p\"\nbufer { }\n",
         "file:2:7: error: unknown field `bufer` of KPUProgram. Fix: did you mean `buffer`?"},
        {"name: \"p\"\nbuffer {\n  level: L3\n}\n",
         "file:3:10: error: `L3` is not a value of `level`. Fix: give one of DDR, L2, L1."},
        {"name: \"p\"\nname: \"q\"\n", "`name` is given twice"},
        {"name: \"p\"\nbuffer {\n", "file:3:1: error:"},
        {"name: \"\\377\"\n", "file: error: KPUProgram: field `name` is not UTF-8"},
        {"buffer { level: 7 }\n", "Buffer.level has value 7"},
    };
    for (const auto& [text, message] : cases)
        EXPECT_THAT(message_refusal(text), AllOf(HasSubstr(message), HasSubstr("Fix:")));
    std::string deep = "statement { task { attribute { value { ";
    for (int i = 0; i < 100000; ++i) deep += "list { item { ";
    EXPECT_THAT(message_refusal(deep), HasSubstr("file:1:")) << "and no end of the stack";
    EXPECT_THAT(message_refusal(deep), HasSubstr("nested deeper than 16"));
}

TEST(ProgramMessage, PartsOfATextHaveTheirPlaces) {
    // A finding of the text of another compiler points at its line, whichever way its lists are written.
    const std::string expr = "{ token { } }", window = "offset " + expr + " extent " + expr;
    const Module module = read_message(
        "# of a compiler\n"
        "buffer: [ { name: 'a' size { token { value: 64 } } },\n"
        "    < name: 'b' size < token { value: 64 } > > ]\n"
        "  region { name: 'r' " +
            window + " } region { " + window +
            " layout: 'C' decorator { name: 'debug' arg { text: '}{' } } elem: I8 shape " + expr +
            " }\n"
            "constant { name: 'c' value " +
            expr +
            " }\n"
            "statement { let_region: 0 }\n"
            "statement { task { input { region: 0 }\n"
            "  output { region: 0 } } } statement { wait { dep: 1 } }\n"
            "device { name: 'npm_lite' }\n",
        "file");
    const auto at = [](const SourcePos& pos) {
        return fmt::format("{}:{}:{}", pos.file, pos.line, pos.column);
    };
    EXPECT_EQ(at(module.pos_of_buffer(0)), "file:2:1");
    EXPECT_EQ(at(module.pos_of_buffer(1)), "file:3:5");
    EXPECT_EQ(at(module.pos_of_region(0)), "file:4:3");
    EXPECT_EQ(module.pos_of_region(1).line, 4u);
    EXPECT_EQ(at(module.pos_of_constant(0)), "file:5:1");
    EXPECT_EQ(at(module.pos_of_statement(1)), "file:7:1");
    EXPECT_EQ(at(module.pos_of_statement(2)), "file:8:28");
    EXPECT_EQ(at(module.pos_of_device()), "file:9:1");
}

TEST(ProgramMessage, DataStandInSideFiles) {
    // Files are named by relative path, size and SHA-256; without a path there is nothing to take them from.
    const test::TempFolder folder;
    std::ofstream(folder.file("w.bin")) << "abcd";
    KPUProgram program = test::relu_rows().program;
    const std::string origin = folder.file("p.pb");
    EXPECT_THAT(
        [&] { read_message(program.SerializeAsString(), origin); },
        ::testing::ThrowsMessage<UserError>(HasSubstr("data[0] (`bias`, 4 bytes) has no path, and a program "
                                                      "without a container has no sections. Fix:")));
    program.mutable_data(0)->set_path("w.bin");
    program.mutable_data(0)->set_sha256(sha256_hex("abcd"));
    for (const std::string& form : {program.SerializeAsString(), text_of(program)})
        EXPECT_EQ(read_message(form, origin).data.at(0).bytes(), "abcd");
    std::ofstream(folder.file("w.bin")) << "abce";
    EXPECT_THAT([&] { read_message(program.SerializeAsString(), origin).data.at(0).bytes(); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("SHA-256 differs")));
    std::ofstream(folder.file("w.bin")) << "abc";
    EXPECT_THAT([&] { read_message(program.SerializeAsString(), origin); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("has 3 bytes, data `bias` expects 4")));
    program.mutable_data(0)->set_path("../w.bin");
    EXPECT_THAT([&] { read_message(program.SerializeAsString(), origin); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("not below the program's folder")));
}

}  // namespace
}  // namespace kpu
