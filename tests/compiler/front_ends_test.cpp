// The registry of front ends: what is recognised as what, what a program needs of its device, what is
// refused.
#include "compiler/front_ends.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/read_file.hpp"
#include "base/text_output.hpp"
#include "isa/builder.hpp"
#include "isa/container.hpp"

namespace kpu::compiler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string examples = std::string(KPUSIM_SOURCE_DIR) + "/examples/";
constexpr std::string_view png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);

std::string name_of(std::string bytes, const std::string& origin = "file") {
    try {
        return std::string(recognise(Source::of_bytes(std::move(bytes), origin)).name);
    } catch (const UserError& error) {
        return error.what();
    }
}

TEST(FrontEnds, AreToldByContent) {
    const std::string nem = read_file(examples + "gemm_relu/gemm_relu.nem");
    EXPECT_EQ(name_of(nem), "NEM text");
    EXPECT_EQ(name_of("\xEF\xBB\xBF# a comment\n\n  @profile(\"x\")\n"), "NEM text");
    EXPECT_EQ(name_of("# comments alone\n"), "NEM text");
    EXPECT_EQ(name_of("buffer x : DDR (size = 64, align = 64)\n", "program.txt"), "NEM text");
    EXPECT_EQ(name_of(serialize_container(builder::Program("empty").build())), ".kpu program");
    EXPECT_EQ(name_of(read_file(examples + "resnet18/resnet18.csv"), "no_name"), "SCALE-Sim topology");
    EXPECT_EQ(name_of("fc1, 33, 20, 7,\n"), "SCALE-Sim topology");
    EXPECT_EQ(name_of("tile 32 f32\ntensor 0 x 32 32 input\nL 0 0 0 0\n"), "tile schedule");
    EXPECT_EQ(name_of(" {\"format\": \"kpusim.tile_schedule/1\"}"), "tile schedule");
    EXPECT_EQ(name_of("\x80\x04\x95whatever"), ".kpu program");  // a pickle: refused by its reader
}

// The name decides only what the content leaves open.
TEST(FrontEnds, NameOfACsvFile) {
    EXPECT_EQ(name_of("name, M\nfc1, 33\n", "net.csv"), "SCALE-Sim topology");
    EXPECT_EQ(name_of("name, M\nfc1, 33\n", "net.txt"), "NEM text");
    EXPECT_EQ(name_of("layer (all), of it, \"quoted\"\nfc1(a), 33, 20, 7,\n", "net.csv"),
              "SCALE-Sim topology");
    EXPECT_THAT(name_of(std::string(png), "net.csv"), HasSubstr("none of"));
    EXPECT_EQ(name_of(read_file(examples + "gemm_relu/gemm_relu.nem"), "net.csv"), "NEM text");
}

TEST(FrontEnds, WhatIsNoneSaysWithWhatItWasCompared) {
    const auto compared = AllOf(HasSubstr("NEM text"), HasSubstr(".kpu program"), HasSubstr("tile schedule"),
                                HasSubstr("SCALE-Sim topology"), HasSubstr("Fix:"));
    for (const std::string& bytes :
         {std::string(png), std::string("GIF89a\x01\0\x01\0", 10), std::string("PK\x03\x04\x14\0", 6),
          std::string("\x7f"
                      "ELF\x02\x01"),
          std::string("%PDF-1.7\n%\xe2\xe3"), std::string("<svg/>"), std::string("KPUEVNT\0\x02\0\0\0", 12),
          std::string("\xff\xfep\0r\0", 6)})
        EXPECT_THAT(name_of(bytes, "x.bin"), AllOf(HasSubstr("x.bin: error: this is none of:"), compared))
            << bytes;
    EXPECT_THAT(name_of("", "x.nem"), AllOf(HasSubstr("x.nem: error: this is empty"), compared));
    const std::string folder = ::testing::TempDir();
    try {
        recognise(Source::of_file(folder));
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("this is a folder"), compared));
    }
    EXPECT_THROW(Source::of_file("/nowhere/x.nem"), UserError);
}

// Rows that the command and Python make options of.
TEST(FrontEnds, OptionsOfOneNameAreOfOneKind) {
    std::map<std::string_view, ValueKind> kinds;
    std::set<std::string_view> names;
    for (const FrontEnd* front_end : front_ends()) {
        EXPECT_TRUE(names.insert(front_end->name).second) << front_end->name;
        for (const OptionRow& row : front_end->options)
            EXPECT_EQ(kinds.emplace(row.name, row.kind).first->second, row.kind) << row.name;
    }
    EXPECT_EQ(front_end_options().size(), kinds.size());
}

TEST(FrontEnds, OptionOfAnotherFrontEndIsRefused) {
    Diagnostics notes;
    const auto source = Source::of_bytes("program p:\n", "p.nem");
    EXPECT_THAT(
        [&] {
            load_program(source, {{"header", "h"}}, {}, notes);
        },
        ::testing::ThrowsMessage<UserError>(
            HasSubstr("p.nem: error: --header is for: tile schedule; this is: NEM text")));
    EXPECT_THAT(
        [&] {
            load_program(source, {{"haeder", "h"}}, {}, notes);
        },
        ::testing::ThrowsMessage<UserError>(HasSubstr("--haeder is an option of no front end")));
}

constexpr const char* topology = "Layer, M, N, K,\nfc1, 1024, 1024, 1024,\n";

// 1 MiB for each of A and B, 4 MiB for the i32 results: more than an npm_lite has.
TEST(FrontEnds, TopologyEnlargesL1UnlessItsSizeIsChosen) {
    const auto source = Source::of_bytes(topology, "net");
    Diagnostics notes;
    const Input input = load_for_device(source, {}, {"npm_lite", {}, {}}, notes);
    ASSERT_TRUE(input.platform && input.module);
    EXPECT_FALSE(input.front_end->has_values);
    EXPECT_EQ(input.platform->engine(0).l1().size_bytes(), 6u << 20);
    EXPECT_THAT(notes.to_string(), HasSubstr("needs 6291456 bytes of SRAM, npm_lite has"));

    Diagnostics none;
    const Input chosen =
        load_for_device(source, {}, {"npm_lite", {{"engine.l1.size_bytes", "524288"}}, {}}, none);
    EXPECT_EQ(chosen.platform->engine(0).l1().size_bytes(), 524288u);
    EXPECT_EQ(none.to_string(), "");
    EXPECT_FALSE(load_for_device(source, {}, {}, none).platform) << "no platform of its own";
}

TEST(FrontEnds, ScheduleTakesItsDefaultPlatform) {
    const auto source = Source::of_bytes(
        "tile 32 f32\ntensor 0 x 32 32 input\ntensor 1 w 32 32 weight\ntensor 2 y 32 32 output\n"
        "L 0 0 0 0\nL 1 0 0 4096\nE 0 0 0 0 4096 8192\nS 2 0 0 8192 0\n",
        "one");
    Diagnostics notes;
    EXPECT_EQ(load_for_device(source, {}, {}, notes).platform->name(), "tile32");
    EXPECT_EQ(load_for_device(source, {}, {"core128-hbm2", {}, {}}, notes).platform->name(), "core128-hbm2");
    // an arena of 256 KiB holds the tiles, one of 8 KiB does not; without a device there is no limit
    EXPECT_THROW(load_for_device(source, {}, {"tile32", {{"engine.l1.size_bytes", "8192"}}, {}}, notes),
                 UserError);
    EXPECT_EQ(load_program(source, {}, {}, notes)->program.device().name(), "tile32");
}

// One import gives the program and the rows of `check`; a refusal later on does not take the rows away.
TEST(FrontEnds, NodesOfANetworkAreToldWhereItIsLoaded) {
    const auto source = Source::of_file(examples + "networks/digits_cnn.onnx");
    Diagnostics notes;
    std::vector<NodeSupport> nodes;
    EXPECT_NE(load_for_device(source, {}, {"tile32", {}, {}}, notes, &nodes).module, nullptr);
    ASSERT_EQ(nodes.size(), 8u);
    EXPECT_EQ(nodes[0].type, "Conv");
    nodes.clear();
    EXPECT_THROW(load_for_device(source, {{"precision", {"int8"}}}, {"tile32", {}, {}}, notes, &nodes),
                 UserError)
        << "without samples";
    EXPECT_EQ(nodes.size(), 8u);
    nodes.clear();
    load_for_device(Source::of_bytes(topology, "net"), {}, {"npm_lite", {}, {}}, notes, &nodes);
    EXPECT_TRUE(nodes.empty()) << "no network";
}

// Where nobody reads their bytes: the program is the same in all but the hash of what is not there.
TEST(FrontEnds, WeightsOfANetworkNeedNotBePacked) {
    const auto source = Source::of_file(examples + "networks/digits_cnn.onnx");
    Diagnostics notes;
    DeviceChoice device{"tile32", {}, {}};
    for (const char* const inferences : {"1", "2"}) {
        const GivenOptions options = {{"effort", "1"}, {"inferences", inferences}};
        device.values = true;
        const Input with = load_for_device(source, options, device, notes);
        device.values = false;
        const Input without = load_for_device(source, options, device, notes);
        ASSERT_EQ(with.module->data.size(), 1u);
        ASSERT_EQ(without.module->data.size(), 1u);
        EXPECT_EQ(without.module->data[0].size(), with.module->data[0].bytes().size());
        EXPECT_THROW(without.module->data[0].bytes(), InternalError);
        EXPECT_TRUE(without.has_values());
        Module same(*with.module);
        same.program.mutable_data(0)->clear_sha256();
        EXPECT_EQ(same.program.SerializeAsString(), without.module->program.SerializeAsString());
    }
}

TEST(FrontEnds, TextOfDevicesIsNoProgram) {
    const auto source =
        Source::of_bytes("include \"npm_lite.nem\"\ndevice mine extends npm_lite { }\n", "d.nem");
    Diagnostics notes;
    const Input input = load_for_device(source, {}, {}, notes);
    EXPECT_EQ(input.module, nullptr);
    EXPECT_FALSE(notes.has_errors()) << notes.to_string();
    EXPECT_THAT([&] { load_program(source, {}, {}, notes); },
                ::testing::ThrowsMessage<UserError>(HasSubstr("d.nem: this file declares devices")));
}

/// True if a file is mapped into this process.
bool is_mapped(const std::string& path) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find(path) != std::string::npos) return true;
    }
    return false;
}

// Gigabytes of weights cost nothing to open: only the head is read, the rest is mapped.
TEST(FrontEnds, ContainerIsMappedNotRead) {
    builder::Program program("weights");
    constexpr size_t size = 1u << 20;
    program.buffer("w", Level::ddr, size);
    program.data("w", "w", std::string(size, 'w'));
    const std::string path = std::filesystem::path(::testing::TempDir()) / "mapped.kpu";
    write_container(program.build(), path);
    const Source source = Source::of_file(path);
    EXPECT_TRUE(source.is_file());
    EXPECT_EQ(source.head().size(), Source::head_bytes);
    Diagnostics notes;
    const auto module = load_program(source, {}, {}, notes);
    EXPECT_TRUE(is_mapped(path));
    EXPECT_EQ(module->data.at(0).bytes(), std::string(size, 'w'));
    // what is not a file of the disk is read once, and parsed from memory
    const auto again = load_program(Source::of_bytes(read_file(path), "<stdin>"), {}, {}, notes);
    EXPECT_EQ(serialize_container(*again), serialize_container(*module));
    std::filesystem::remove(path);
}

// A file longer than its head is read whole when it is asked for.
TEST(FrontEnds, LongTextIsReadWhole) {
    std::string text = "program p:\n";
    while (text.size() < 3 * Source::head_bytes) text += "# a line of a long file\n";
    text += "buffer last : DDR (size = 64)\n";
    const std::string path = std::filesystem::path(::testing::TempDir()) / "long.nem";
    write_file(path, text);
    EXPECT_EQ(Source::of_file(path).bytes(), text);
    Diagnostics notes;
    EXPECT_EQ(load_program(path, {}, notes)->program.buffer(0).name(), "last");
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace kpu::compiler
