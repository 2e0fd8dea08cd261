// The four forms carry the same schedule; what is wrong with a file is named with its place.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "tests/compiler/plain_machine.hpp"
#include "tests/compiler/schedule_test.hpp"

namespace kpu::tile_schedule {
namespace {

using testing::HasSubstr;

constexpr Form all_forms[] = {Form::text, Form::packed, Form::protobuf, Form::json};

std::string message_of(const std::string& bytes) {
    try {
        read_schedule(bytes, "f.sched");
    } catch (const UserError& error) {
        return error.what();
    }
    return "accepted";
}

// Every form reads back as the same ops and header, whichever form it came through; the packed form has no
// header, and takes one beside it.
TEST(ScheduleForms, ConvertBothWays) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
        const Schedule schedule = plain::random_schedule(seed).schedule;
        for (const Form first : all_forms) {
            for (const Form second : all_forms) {
                SCOPED_TRACE(fmt::format("{} {} {}", seed, name_of(first), name_of(second)));
                Schedule once = read_schedule(write_schedule(schedule, first), "once");
                if (first == Form::packed) set_header(once, schedule.header);
                const std::string bytes = write_schedule(once, second);
                EXPECT_EQ(form_of(bytes), second);
                Schedule twice = read_schedule(bytes, "twice");
                EXPECT_EQ(twice.ops, schedule.ops);
                EXPECT_EQ(twice.has_header, second != Form::packed);
                if (!twice.has_header) set_header(twice, once.header);
                EXPECT_EQ(header_text(twice.header), header_text(schedule.header));
            }
        }
    }
}

// The packed form is the original's structures, byte for byte: type and padding, then the fields.
TEST(ScheduleForms, PackedBytes) {
    Schedule schedule;
    schedule.ops = {Load{1, 2, 3, 4096, 4096, -1}, Execute{1, 2, 3, 4, 5, 6, 7},
                    Store{8, 1, 2, 64, 4096, Activation::relu, -1}};
    const std::string bytes = write_schedule(schedule, Form::packed);
    ASSERT_EQ(bytes.size(), 28u + 32 + 28);
    const auto word = [&](size_t at) {
        uint32_t value = 0;
        for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
        return value;
    };
    const std::vector<uint32_t> expected = {0, 1, 2, 3, 4096, 4096, 0xffffffff, 1, 1,  2,    3,
                                            4, 5, 6, 7, 2,    8,    1,          2, 64, 4096, 1};
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(word(4 * i), expected[i]) << i;
}

// Mistakes in text are named with their line and a fix; several at once.
TEST(ScheduleForms, TextErrorsNameTheLine) {
    const std::map<std::string, std::string> cases{
        {"tile 32 f32\nL 0 0 0\n",
         "f.sched:2:1: error: an op of 4 words. Fix: write it as `L tensor row col dst`"},
        {"L 0 0 0 -4\n", "f.sched:1:1: error: dst is `-4`"},
        {"L 0 0 0 4294967296\n", "dst is `4294967296`"},
        {"L 0 0 0 0 buffer=x\n", "`buffer=x` is not a word of this op"},
        {"S 0 0 0 0 2\n", "relu is 2"},
        {"L 0 0 0 0\nX 1 2\n", "f.sched:2:1: error: `X` begins no line"},
        {"L 0 0 0 0\ntile 32 f32\n", "a line of the header after an op"},
        {"tile 0 f32\n", "the tile size is 0"},
        {"tile 32 f64\n", "`f64` is not an element type"},
        {"tile 32 i32\n", "the tile type is i32"},
        {"tile 32 f32\ntile 32 f32\n", "a second `tile` line"},
        {"tensor 0 x 32 32 input\n", "a tensor before the `tile` line"},
        {"tile 32 f32\ntensor 0 x 32 32\n", "a tensor of 5 words"},
        {"tile 32 f32\ntensor 0 x 32 0 input\n", "tensor `x` has 32 rows and 0 columns"},
        {"tile 32 f32\ntensor 0 x 16777216 16777216 input\n", "takes 1125899906842624 bytes"},
        {"tile 32 f32\ntensor 0 ../x 32 32 input\n", "no name that files can carry"},
        {"tile 32 f32\ntensor 0 x 32 32 sink\n", "`sink` is not a role"},
        {"tile 32 f32\ntensor 0 x 32 32 input i8\n", "tensor `x` is i8, its tiles are f32"},
        {"tile 32 i8\ntensor 0 x 32 32 input i8 scale=-1\n", "`scale=-1` is not a scale"},
        {"tile 32 f32\ntensor 0 x 32 32 input f32 scale=2\n", "has scale 2"},
        {"tile 32 f32\ntensor 0 x 8 8 input\ntensor 0 y 8 8 output\n", "tensor 0 is declared twice"},
        {"tile 32 f32\ntensor 0 x 8 8 input\ntensor 1 x 8 8 output\n", "the name `x` stands for two"},
        {"tile 32 f32\narena l3\n", "write the line as `arena l1` or `arena l2`"},
        {"arena l1 4096\nL 0 0 0 0\n", "the header has no line for tile size"}};
    for (const auto& [text, expected] : cases) {
        EXPECT_THAT(message_of(text), HasSubstr(expected)) << text;
    }
    const std::string two = message_of("L 0 a 0 0\nE 0\n");
    EXPECT_THAT(two, HasSubstr("f.sched:1:1"));
    EXPECT_THAT(two, HasSubstr("f.sched:2:1"));
}

// Damaged files of the other forms are refused with the op or byte at which they are wrong.
TEST(ScheduleForms, OtherErrorsNameTheOp) {
    Schedule schedule = reference_mlp();
    const std::string packed = write_schedule(schedule, Form::packed);
    EXPECT_THAT(message_of(packed.substr(0, packed.size() - 1)), HasSubstr("op 98, at byte"));
    EXPECT_THAT(message_of(packed + std::string("\2\0\0", 3)), HasSubstr("op 99"));
    std::string wrong = packed;
    wrong[28] = 3;
    EXPECT_THAT(message_of(wrong), HasSubstr("op 1, at byte 29: its type is 3"));
    const std::string message = write_schedule(schedule, Form::protobuf);
    EXPECT_THAT(message_of(message.substr(0, message.size() - 1)), HasSubstr("damaged"));
    const std::string json = write_schedule(schedule, Form::json);
    EXPECT_THAT(message_of(json.substr(0, json.size() / 2)), HasSubstr("this is not JSON"));
    EXPECT_THAT(message_of(R"({"format": 4E777})"), HasSubstr("a number is larger"));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = json;
        return text.replace(text.find(from), from.size(), to);
    };
    EXPECT_THAT(message_of(with("\"dst_addr\": 0,", "\"dst_addr\": 0, \"x\": 1,")),
                HasSubstr("op 0: `x` is not known"));
    EXPECT_THAT(message_of(with("\"dst_addr\": 0,", "\"dst_addr\": -1,")),
                HasSubstr("`dst_addr` is not a whole number"));
    EXPECT_THAT(message_of(with("\"load\"", "\"lode\"")), HasSubstr("op 0: `lode` is not an op"));
    EXPECT_THAT(message_of(with("schedule/1", "schedule/9")), HasSubstr("this version reads"));
}

// NEM texts, containers and devices are not taken for schedules; headers and comments alone are.
TEST(ScheduleForms, KindIsKnownByContent) {
    EXPECT_EQ(form_of("# a comment\n\ntile 32 f32\n"), Form::text);
    EXPECT_EQ(form_of("L 0 0 0 0\n"), Form::text);
    for (const char* other :
         {"program p:\nbuffer x : DDR (size = 4)\n", "device tile32\nprogram p:\n", "KPUPROG", "",
          "# only a comment\n", "let E = 3\n", "E = transfer.async(dst=a, src=b)\n"})
        EXPECT_EQ(form_of(other), std::nullopt) << other;
}

}  // namespace
}  // namespace kpu::tile_schedule
