#include "isa/container.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/digest.hpp"
#include "isa/bound_program.hpp"
#include "isa/verify.hpp"
#include "tests/isa/sample_programs.hpp"

namespace kpu {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string refusal(const std::string& bytes) {
    try {
        parse_container(bytes, "file.kpu");
    } catch (const UserError& e) {
        return e.what();
    }
    return "accepted";
}

std::string structure_refusal(const KPUProgram& program) {
    try {
        check_structure(program, "p");
    } catch (const UserError& e) {
        return e.what();
    }
    return "accepted";
}

class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string name = (fs::temp_directory_path() / "kpusim_isa_XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~TemporaryFolder() { fs::remove_all(path_); }
    fs::path operator/(const std::string& name) const { return path_ / name; }

  private:
    fs::path path_;
};

TEST(Digest, KnownAnswers) {
    // Check values of RFC 3720 appendix and FIPS 180; a seed continues an earlier checksum.
    EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
    EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
    EXPECT_EQ(crc32c("56789", crc32c("1234")), 0xe3069283u);
    EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Module, IsNotAssignedOnceItWasMoved) {
    Module first;
    first.program.set_name("p");
    const Module second = std::move(first);
    EXPECT_EQ(second.program.name(), "p");
    EXPECT_THROW(first = second, InternalError);  // NOLINT(bugprone-use-after-move): that is the point
    Module third;
    EXPECT_THROW(third = first, InternalError);
}

TEST(Container, RoundTripKeepsProgramAndData) {
    // A written container is read back, and written again gives the same bytes.
    const Module module = test::relu_rows();
    const std::string bytes = serialize_container(module);
    const Module back = parse_container(bytes, "file.kpu");
    EXPECT_EQ(back.program.SerializeAsString(), module.program.SerializeAsString());
    ASSERT_EQ(back.data.size(), 1u);
    EXPECT_EQ(back.data[0].bytes(), std::string_view("\x01\x02\x03\x04", 4));
    EXPECT_EQ(serialize_container(back), bytes);
}

TEST(Container, FileRoundTripLeavesNoTemporaryFile) {
    // A written file reads back through the memory map, and only that file is left in the folder.
    const TemporaryFolder folder;
    const std::string path = folder / "p.kpu";
    write_container(test::relu_rows(), path);
    const Module back = read_container(path);
    EXPECT_EQ(back.data[0].bytes(), std::string_view("\x01\x02\x03\x04", 4));
    EXPECT_EQ(back.origin, path);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / ""), fs::directory_iterator()), 1);
}

TEST(Container, MappedDataIsCheckedWhenFirstRead) {
    // A damaged data section of a file stops who reads its bytes, not who only needs the program; the digest of the
    // program is the recorded one.
    const TemporaryFolder folder;
    const std::string path = folder / "p.kpu", bytes = serialize_container(test::relu_rows());
    std::ofstream(path) << bytes;
    const std::string digest = program_digest(read_container(path));
    EXPECT_EQ(digest, program_digest(test::relu_rows()));
    std::string damaged = bytes;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    std::ofstream(path) << damaged;
    const Module module = read_container(path);
    EXPECT_EQ(program_digest(module), digest);
    EXPECT_THAT([&] { module.data[0].bytes(); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("section 1 is damaged")));
    EXPECT_THAT([&] { module.data[0].read_once([](uint64_t, std::string_view) { FAIL(); }); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("section 1 is damaged")));
}

TEST(Container, BlocksOfLargeDataAreItsBytes) {
    // 9 MiB and a bit go in blocks whose pages are given back; they are read again whole, of a file and of memory.
    std::string data(9 << 20, '\0');
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
    data += "end";
    Module module = test::relu_rows();
    module.program.mutable_data(0)->set_size(data.size());
    module.data[0] = DataSection::of(data);
    const TemporaryFolder folder;
    write_container(module, folder / "p.kpu");
    const Module mapped = read_container(folder / "p.kpu");
    for (const Module* from : {&mapped, static_cast<const Module*>(&module)}) {
        std::string joined;
        from->data[0].read_once([&](uint64_t at, std::string_view block) {
            EXPECT_EQ(at, joined.size());
            joined += block;
        });
        EXPECT_TRUE(joined == data);
        EXPECT_TRUE(from->data[0].bytes() == data);
    }
}

TEST(Container, LargeProgramsArePacked) {
    // 20,000 like buffers shrink to less than a tenth, come back equal, and each flipped byte is found.
    Module module = test::relu_rows();
    for (int i = 0; i < 20000; ++i) {
        proto::Buffer& buffer = *module.program.add_buffer();
        buffer = module.program.buffer(0);
        buffer.set_name(fmt::format("buffer_{}", i));
    }
    const std::string bytes = serialize_container(module), plain = module.program.SerializeAsString();
    EXPECT_LT(bytes.size(), plain.size() / 5);
    const Module back = parse_container(bytes, "file.kpu");
    EXPECT_EQ(back.program.SerializeAsString(), plain);
    EXPECT_EQ(serialize_container(back), bytes);
    for (size_t i = 0; i < bytes.size(); i += 101) {
        std::string bad = bytes;
        bad[i] = static_cast<char>(bad[i] ^ 4);
        EXPECT_NE(refusal(bad), "accepted") << "byte " << i;
    }
}

/// Returns a container with this program section of kind 3, its checksums right.
std::string with_packed_section(const std::string& section) {
    const auto put = [](std::string& out, uint64_t value, int count) {
        for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
    };
    std::string out("KPUPROG\0\1\0\0\0\1\0\0\0", 16);
    put(out, 3, 4);
    put(out, 0, 4);
    put(out, 52, 8);
    put(out, section.size(), 8);
    put(out, crc32c(section), 4);
    put(out, 0, 4);
    put(out, crc32c(out), 4);
    return out + section;
}

std::string zipped(const std::string& bytes) {
    std::string result;
    google::protobuf::io::StringOutputStream stream(&result);
    google::protobuf::io::GzipOutputStream::Options options;
    options.format = google::protobuf::io::GzipOutputStream::ZLIB;
    google::protobuf::io::GzipOutputStream gzip(&stream, options);
    google::protobuf::io::CodedOutputStream(&gzip).WriteRaw(bytes.data(), static_cast<int>(bytes.size()));
    gzip.Close();
    return result;
}

TEST(Container, AnEmptyProgramIsNoBytes) {
    // A program of defaults alone; found by fuzzing.
    const std::string bytes = serialize_container(Module());
    EXPECT_EQ(serialize_container(parse_container(bytes, "file.kpu")), bytes);
}

TEST(Container, PackedBytesThatAreNoProgramAreRefused) {
    // Sections that unpack to a thousand times their size, are no stream, are cut, or go on after the
    // program.
    KPUProgram program;
    program.set_name("p");
    const std::string good = zipped(program.SerializeAsString());
    EXPECT_EQ(refusal(with_packed_section(good)), "accepted");
    KPUProgram bomb;
    bomb.set_name(std::string(64 << 20, 'a'));
    for (const std::string& bad : {zipped(bomb.SerializeAsString()), std::string("no stream"), std::string(),
                                   good.substr(0, good.size() / 2), zipped("\xff\xff\xff\xff")})
        EXPECT_THAT(refusal(with_packed_section(bad)), HasSubstr("not a valid KPUProgram")) << bad.size();
}

TEST(Container, EveryFlippedBitIsRefused) {
    // Every bit of a container matters: each single flip ends in a UserError.
    const std::string good = serialize_container(test::relu_rows());
    for (size_t i = 0; i < good.size(); ++i) {
        for (int bit = 0; bit < 8; bit += 3) {
            std::string bad = good;
            bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
            EXPECT_NE(refusal(bad), "accepted") << "byte " << i;
        }
    }
}

TEST(Container, EveryTruncationIsRefused) {
    // A file cut at any length is refused.
    const std::string good = serialize_container(test::relu_rows());
    for (size_t size = 0; size < good.size(); ++size) {
        EXPECT_NE(refusal(good.substr(0, size)), "accepted") << size;
    }
    EXPECT_THAT(refusal(good + "x"), HasSubstr("follow the last section"));
}

TEST(Container, NumbersThatTextCannotKeepAreRefused) {
    // NaN has many bit patterns but one text, and an estimate is a finite number of at least 0.
    const auto refused = [](const auto& change) {
        Module module = test::relu_rows();
        change(module.program);
        return refusal(serialize_container(module));
    };
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 inf = std::numeric_limits<double>::infinity();
    for (const double value : {nan, inf, -1.0, -0.0}) {
        EXPECT_THAT(refused([&](auto& p) { p.set_estimated_total_energy_uj(value); }),
                    HasSubstr("estimated_total_energy_uj is"));
        EXPECT_THAT(refused([&](auto& p) { p.add_op()->set_estimated_energy_pj(value); }),
                    HasSubstr("estimated_energy_pj is"));
    }
    EXPECT_THAT(refused([&](auto& p) { p.add_op()->add_attribute()->add_floats(nan); }),
                HasSubstr("op[0].attribute[0].floats is not a number"));
    EXPECT_THAT(refused([&](auto& p) {
                    auto& quant = *p.add_tensor()->mutable_quant();
                    quant.set_kind(proto::Quant::PER_TENSOR);
                    quant.add_scale(nan);
                    quant.add_zero_point(0);
                }),
                HasSubstr("quant.scale is not a number"));
}

TEST(Container, DamagedProgramsNeverCrash) {
    // After the checksums come the message parser, the structure checks and the binder: with any byte of the
    // program changed, each refuses with a UserError or accepts; no other exception, no crash.
    const Module module = test::relu_rows();
    const std::string program = module.program.SerializeAsString();
    const google::protobuf::LogSilencer silence;
    int accepted = 0, refused = 0;
    for (size_t i = 0; i < program.size(); ++i) {
        for (const int mask : {0x01, 0x08, 0x40, 0x80, 0xff}) {
            std::string bad = program;
            bad[i] = static_cast<char>(bad[i] ^ mask);
            auto damaged = std::make_shared<Module>(module);
            if (!damaged->program.ParseFromString(bad)) continue;
            Diagnostics findings;
            verify(damaged, {}, {}, findings);
            try {
                bind(damaged, {}, {});
                ++accepted;
            } catch (const UserError&) {
                ++refused;
            }
        }
    }
    EXPECT_GT(accepted, 0);
    EXPECT_GT(refused, 0);
}

TEST(Container, ForeignFilesAreRefusedByName) {
    // Empty files, pickles of every protocol, text and newer versions are each told apart.
    EXPECT_THAT(refusal(""), HasSubstr("empty"));
    for (char protocol = 2; protocol <= 5; ++protocol) {
        EXPECT_THAT(refusal(std::string("\x80") + protocol + "rest"), HasSubstr("Python pickle"));
    }
    EXPECT_THAT(refusal("program x:"), HasSubstr("not a KPU program"));
    std::string newer = serialize_container(test::relu_rows());
    newer[8] = 2;
    EXPECT_THAT(refusal(newer), HasSubstr("version 2"));
    EXPECT_THROW(read_container("/no/such/file.kpu"), UserError);
    EXPECT_THROW(read_container("/"), UserError);
}

/// With a field of the table of sections changed, its checksum right.
std::string with_table_field(std::string bytes, size_t section, size_t field, uint32_t value) {
    const auto put = [&](size_t at, uint32_t number) {
        for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i) & 0xff);
    };
    put(16 + section * 32 + field, value);
    const size_t table_end = 16 + 32 * static_cast<size_t>(bytes[12]);
    put(table_end, crc32c(bytes.substr(0, table_end)));
    return bytes;
}

TEST(Container, MisplacedSectionsSayWhereTheyBelong) {
    // Two sections: a table of 16 + 2 * 32 + 4 bytes, the program right after it, the data at the next
    // multiple of 64.
    const Module module = test::relu_rows();
    const std::string good = serialize_container(module);
    const size_t end = 84 + module.program.ByteSizeLong(), data = (end + 63) / 64 * 64;
    ASSERT_EQ(good.size(), data + 4);
    EXPECT_EQ(refusal(with_table_field(good, 0, 8, 96)),
              "file.kpu: error: section 0 is misplaced: the table says byte 96, it belongs at byte 84, right "
              "after the "
              "table's CRC-32C. Fix: write the sections in the order of the table, without gaps.");
    EXPECT_THAT(refusal(with_table_field(good, 1, 8, static_cast<uint32_t>(end))),
                HasSubstr(fmt::format(
                    "section 1 is misplaced: the table says byte {}, it belongs at byte {}, the first "
                    "multiple of 64 after section 0, which ends at byte {}. Fix:",
                    end, data, end)));
    EXPECT_THAT(refusal(with_table_field(good, 1, 28, 7)),
                HasSubstr("the reserved word of section 1 is 7. Fix: write 0."));
    EXPECT_THAT(refusal(with_table_field(good, 1, 0, 1)), HasSubstr("section 1 has the kind 1"));
}

TEST(Container, ADepOnALaterTaskMentionsCarriedTokens) {
    // The first task of the sample's loop stands before the others.
    KPUProgram program = test::relu_rows().program;
    int first = 0;
    while (!program.statement(first).has_task()) ++first;
    const auto refused = [&](uint32_t dep) {
        program.mutable_statement(first)->mutable_task()->clear_dep();
        program.mutable_statement(first)->mutable_task()->add_dep(dep);
        return structure_refusal(program);
    };
    for (const int later : {first, program.statement_size() - 1})
        EXPECT_THAT(refused(static_cast<uint32_t>(later)),
                    HasSubstr(fmt::format(
                        "statement[{}].task.dep[0] is {}, which is not an earlier task. Fix: put that "
                        "task first; its token of an earlier iteration of a loop around both goes "
                        "into `carried` (task, loop, distance).",
                        first, later)));
    EXPECT_THAT(refused(99), HasSubstr("not an earlier task. Fix: give the statement index"));
}

TEST(Container, UnknownFieldsAndEnumValuesAreNamed) {
    // Messages or fields that this version does not know are refused by name.
    Module module = test::relu_rows();
    proto::Buffer& buffer = *module.program.mutable_buffer(0);
    buffer.GetReflection()->MutableUnknownFields(&buffer)->AddVarint(99, 1);
    EXPECT_THAT(structure_refusal(module.program), HasSubstr("message Buffer has field 99"));
    module = test::relu_rows();
    module.program.mutable_buffer(0)->set_level(static_cast<proto::Level>(7));
    EXPECT_THAT(structure_refusal(module.program), HasSubstr("Buffer.level has value 7"));
}

TEST(Container, SideFilesAreChecked) {
    // A side file must lie below the folder and have the size and SHA-256 that the program states.
    const TemporaryFolder folder;
    std::ofstream(folder / "w.bin") << "abc";
    Module module = test::relu_rows();
    proto::Data& data = *module.program.mutable_data(0);
    data.set_path("w.bin");
    data.set_size(3);
    data.set_sha256(sha256_hex("abc"));
    const std::string path = folder / "p.kpu";
    write_container(module, path);
    EXPECT_EQ(read_container(path).data[0].bytes(), "abc");
    std::ofstream(folder / "w.bin") << "abd";
    const Module changed = read_container(path);
    EXPECT_THROW(changed.data[0].bytes(), UserError);
    EXPECT_THROW(changed.data[0].bytes(), UserError) << "the second reader too";
    std::ofstream(folder / "w.bin") << "abcd";
    EXPECT_THROW(read_container(path), UserError);
    data.set_path("../w.bin");
    EXPECT_THROW(load_side_file(data, folder / ""), UserError);
    data.set_path("/etc/hostname");
    EXPECT_THROW(load_side_file(data, folder / ""), UserError);
}

/// The sample with one change, and the words its refusal must hold.
struct StructureCase {
    const char* name;
    void (*change)(KPUProgram&);
    const char* message;
};

proto::Task& first_task(KPUProgram& program) {
    for (proto::Statement& statement : *program.mutable_statement()) {
        if (statement.has_task()) return *statement.mutable_task();
    }
    throw InternalError("no task");
}

void set_carried(proto::Task& task, uint32_t from, uint32_t loop, uint32_t distance) {
    proto::Carried& carried = *task.add_carried();
    carried.set_task(from);
    carried.set_loop(loop);
    carried.set_distance(distance);
}

const StructureCase structure_cases[] = {
    {"region_index", [](KPUProgram& p) { first_task(p).mutable_input(0)->set_region(99); },
     "there are 3 regions"},
    {"buffer_index", [](KPUProgram& p) { p.mutable_region(0)->set_buffer(99); }, "there are 4 buffers"},
    {"later_dep", [](KPUProgram& p) { first_task(p).add_dep(6); }, "not an earlier task"},
    {"dep_on_loop", [](KPUProgram& p) { first_task(p).add_dep(0); }, "not an earlier task"},
    {"carried_task", [](KPUProgram& p) { set_carried(first_task(p), 0, 0, 1); }, "not a task"},
    {"carried_task_index", [](KPUProgram& p) { set_carried(first_task(p), 99, 0, 1); }, "not a task"},
    {"carried_loop", [](KPUProgram& p) { set_carried(first_task(p), 3, 1, 1); }, "not a loop"},
    {"carried_loop_index", [](KPUProgram& p) { set_carried(first_task(p), 3, 99, 1); }, "not a loop"},
    {"carried_loop_elsewhere",
     [](KPUProgram& p) {
         const auto last = static_cast<uint32_t>(p.statement_size());
         proto::Loop& loop = *p.add_statement()->mutable_loop();
         loop = p.statement(0).loop();
         loop.set_body_end(last + 1);
         set_carried(first_task(p), 3, last, 1);
     },
     "does not enclose both tasks"},
    {"carried_distance", [](KPUProgram& p) { set_carried(first_task(p), 3, 0, 0); }, "1 to 2147483648"},
    {"body_end", [](KPUProgram& p) { p.mutable_statement(0)->mutable_loop()->set_body_end(99); }, "body_end"},
    {"empty_body_end", [](KPUProgram& p) { p.mutable_statement(0)->mutable_loop()->set_body_end(0); },
     "body_end"},
    {"kernel", [](KPUProgram& p) { first_task(p).set_kind(proto::Task::KERNEL); }, "kernel is missing"},
    {"two_sources", [](KPUProgram& p) { *first_task(p).add_input() = first_task(p).input(0); },
     "one of each"},
    {"no_kind", [](KPUProgram& p) { p.add_statement(); }, "has no kind"},
    {"underflow",
     [](KPUProgram& p) { p.mutable_buffer(0)->mutable_size()->add_token()->set_kind(proto::ExprToken::ADD); },
     "well-formed"},
    {"two_values", [](KPUProgram& p) { p.mutable_buffer(0)->mutable_size()->add_token()->set_value(1); },
     "well-formed"},
    {"loop_outside",
     [](KPUProgram& p) {
         p.mutable_buffer(0)->mutable_size()->mutable_token(0)->set_kind(proto::ExprToken::LOOP);
     },
     "LOOP"},
    {"constant_of_itself",
     [](KPUProgram& p) {
         p.mutable_constant(0)->mutable_value()->mutable_token(0)->set_kind(proto::ExprToken::CONST);
     },
     "CONST"},
    {"bad_name", [](KPUProgram& p) { p.mutable_buffer(0)->set_name("a b"); }, "not an identifier"},
    {"control_name", [](KPUProgram& p) { p.mutable_buffer(0)->set_name("a\n"); }, "\\x0a"},
    {"op_index", [](KPUProgram& p) { first_task(p).set_op(1); }, "there are 0 ops"},
    {"data_buffer", [](KPUProgram& p) { p.mutable_data(0)->set_buffer("NO"); }, "not a buffer"},
    {"param_default", [](KPUProgram& p) { p.mutable_param(0)->set_default_value(9); }, "outside [1..8]"},
    {"rank",
     [](KPUProgram& p) {
         for (int i = 0; i < 6; ++i) *p.mutable_region(0)->add_shape() = p.region(0).shape(0);
     },
     "1 to 6"},
    {"stride_count",
     [](KPUProgram& p) {
         for (int i = 0; i < 2; ++i) *p.mutable_region(0)->add_stride() = p.region(0).shape(0);
     },
     "stride"},
    {"nested_list",
     [](KPUProgram& p) {
         first_task(p).set_kind(proto::Task::COMPUTE);
         first_task(p).set_opcode("relu");
         proto::Attribute& a = *first_task(p).add_attribute();
         a.set_name("x");
         a.mutable_value()->mutable_list()->add_item()->mutable_list()->add_item();
     },
     "list within a list"},
    {"deep_stack",
     [](KPUProgram& p) {
         proto::Expr& size = *p.mutable_buffer(0)->mutable_size();
         size.clear_token();
         for (int i = 0; i < 65; ++i) size.add_token()->set_value(1);
         for (int i = 0; i < 64; ++i) size.add_token()->set_kind(proto::ExprToken::ADD);
     },
     "more than 64 operands"},
    {"deep_loops",
     [](KPUProgram& p) {
         p.clear_statement();
         for (int i = 0; i < 65; ++i) {
             proto::Loop& loop = *p.add_statement()->mutable_loop();
             loop.set_variable("v" + std::to_string(i));
             loop.set_body_end(65);
             loop.mutable_first()->add_token();
             loop.mutable_last()->add_token();
         }
     },
     "deeper than 64"},
    {"used_before_declared", [](KPUProgram& p) { p.mutable_statement()->SwapElements(1, 3); },
     "before its declaration"},
};

class StructureTest : public ::testing::TestWithParam<StructureCase> {};

TEST_P(StructureTest, IsRefusedByName) {
    // Each broken index, count or expression of an otherwise good program is refused with the field that is
    // wrong.
    Module module = test::relu_rows();
    ASSERT_EQ(structure_refusal(module.program), "accepted");
    GetParam().change(module.program);
    EXPECT_THAT(structure_refusal(module.program), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, StructureTest, ::testing::ValuesIn(structure_cases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace kpu
