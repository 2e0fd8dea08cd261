#include "traces/run_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/diagnostics.hpp"
#include "base/digest.hpp"
#include "base/npy.hpp"
#include "base/read_file.hpp"
#include "sample.hpp"

namespace kpu::traces {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

void write_run(const std::string& path, bool force, const std::string& output) {
    RunFolder folder(path, force);
    folder.begin();
    folder.write_stats("{}");
    folder.write_ops("op\n");
    folder.write_platform("name: \"p\"\n");
    folder.write_output(output, "|u1", {3}, "abc");
    Manifest manifest;
    manifest.tool_version = "0.1.0";
    manifest.command_line = {"kpusim", "run", "a b.nem"};
    manifest.seed = 7;
    manifest.time = utc_now();
    manifest.program = {"p", "a b.nem", std::string(64, '0')};
    manifest.inputs = {{"X", "x.npy", std::string(64, '1')}};
    folder.write_manifest(manifest);
}

std::set<std::string> files_below(const std::string& path) {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
        if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), path).string());
    }
    return names;
}

// A run leaves exactly the documented files, and the manifest says where they came from.
TEST(RunFolder, LeavesTheDocumentedFiles) {
    const test::TempFolder temp;
    const std::string path = temp.file("deep/run");
    write_run(path, false, "Y");
    EXPECT_THAT(files_below(path), testing::ElementsAre("manifest.json", "ops.csv", "outputs/Y.npy",
                                                        "platform.textproto", "stats.json"));
    const auto manifest = nlohmann::json::parse(read_file(path + "/manifest.json"));
    EXPECT_EQ(manifest["command_line"][2], "a b.nem");
    EXPECT_EQ(manifest["seed"], 7);
    EXPECT_EQ(manifest["version"], "0.1.0");
    EXPECT_EQ(manifest["program"]["sha256"], std::string(64, '0'));
    EXPECT_EQ(manifest["inputs"][0]["name"], "X");
    EXPECT_EQ(manifest["outputs"][0]["file"], "outputs/Y.npy");
    EXPECT_EQ(manifest["outputs"][0]["sha256"], sha256_hex_of_file(path + "/outputs/Y.npy"));
    EXPECT_THAT(manifest["time"].get<std::string>(), testing::MatchesRegex("....-..-..T..:..:..Z"));
    EXPECT_EQ(read_npy(path + "/outputs/Y.npy").data, "abc");
}

// A folder with content is refused without force, and nothing in it changes.
TEST(RunFolder, RefusesAFolderWithContent) {
    const test::TempFolder temp;
    write_file(temp.file("notes.txt"), "mine");
    EXPECT_THAT([&] { RunFolder(temp.file(""), false); },
                ThrowsMessage<UserError>(testing::AllOf(HasSubstr("not empty"), HasSubstr("--force"))));
    EXPECT_THROW(RunFolder::check(temp.file(""), false, {}), UserError);
    EXPECT_THAT(files_below(temp.file("")), testing::ElementsAre("notes.txt"));
    EXPECT_NO_THROW(RunFolder::check(temp.file("new"), false, {}));
    EXPECT_FALSE(fs::exists(temp.file("new")));
    EXPECT_THAT([&] { RunFolder::check(temp.file("notes.txt"), true, {}); },
                ThrowsMessage<UserError>(HasSubstr("not a folder")));
}

// Paths that could not be written after the run are refused before it: names too long, paths through loops
// and files.
TEST(RunFolder, RefusesWhatCannotBeWritten) {
    const test::TempFolder temp;
    const auto error_of = [&](const std::string& path, const std::vector<std::string>& outputs) {
        try {
            RunFolder::check(path, false, outputs);
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string("no error");
    };
    EXPECT_EQ(error_of(temp.file("new"), {std::string(251, 'n')}), "no error");
    EXPECT_THAT(error_of(temp.file("new"), {"y", std::string(252, 'n')}),
                HasSubstr("too long for a file: 256"));
    EXPECT_THAT(error_of(temp.file("new"), {std::string(90, '/')}), HasSubstr("274 characters"));  // %2F each
    EXPECT_THAT(error_of(temp.file(std::string(300, 'd')), {}), HasSubstr("File name too long"));
    fs::create_symlink("loop", temp.file("loop"));
    EXPECT_THAT(error_of(temp.file("loop"), {}), HasSubstr("Too many levels of symbolic links"));
    write_file(temp.file("file"), "x");
    EXPECT_THAT(error_of(temp.file("file/run"), {}),
                testing::AnyOf(HasSubstr("is not a folder"), HasSubstr("Not a directory")));
}

// Force replaces what an earlier run left and keeps every other file, also arrays that are not of that run.
TEST(RunFolder, ForceKeepsWhatIsNotOurs) {
    const test::TempFolder temp;
    const std::string path = temp.file("run");
    write_run(path, false, "old");
    write_file(path + "/notes.txt", "mine");
    write_file(path + "/outputs/mine.npy", "mine");
    write_run(path, true, "new");
    EXPECT_THAT(files_below(path),
                testing::ElementsAre("manifest.json", "notes.txt", "ops.csv", "outputs/mine.npy",
                                     "outputs/new.npy", "platform.textproto", "stats.json"));
    EXPECT_EQ(read_file(path + "/notes.txt"), "mine");
}

// A forged manifest cannot make force delete files elsewhere.
TEST(RunFolder, ForgedManifestDeletesNothingElse) {
    const test::TempFolder temp;
    write_file(temp.file("victim.npy"), "x");
    fs::create_directories(temp.file("run/outputs"));
    write_file(temp.file("run/outputs/notes.txt"), "x");
    write_file(
        temp.file("run/manifest.json"),
        R"({"outputs":[{"file":"../victim.npy"},{"file":"outputs/../../victim.npy"},{"file":"outputs/notes.txt"},7,{}]})");
    RunFolder(temp.file("run"), true).begin();
    EXPECT_TRUE(fs::exists(temp.file("victim.npy")));
    EXPECT_TRUE(fs::exists(temp.file("run/outputs/notes.txt")));
    write_file(temp.file("run/manifest.json"), "not json");
    EXPECT_NO_THROW(RunFolder(temp.file("run"), true).begin());
}

// One run at a time: the folder is locked until the run is over; a folder that got nothing goes.
TEST(RunFolder, OneRunAtATime) {
    const test::TempFolder temp;
    {
        const RunFolder first(temp.file("run"), false);
        EXPECT_THAT([&] { RunFolder(temp.file("run"), true); },
                    ThrowsMessage<UserError>(HasSubstr("another run writes")));
    }
    EXPECT_FALSE(fs::exists(temp.file("run")));
    write_run(temp.file("run"), false, "Y");
    EXPECT_NO_THROW(RunFolder(temp.file("run"), true));
    EXPECT_TRUE(fs::exists(temp.file("run/outputs/Y.npy"))) << "nothing is replaced before it begins";
}

// Outputs through a link would land elsewhere; a file in their place is told before the run.
TEST(RunFolder, OutputsMustBeAFolder) {
    const test::TempFolder temp;
    fs::create_directories(temp.file("elsewhere"));
    fs::create_directories(temp.file("run"));
    fs::create_symlink(temp.file("elsewhere"), temp.file("run/outputs"));
    for (const bool force : {false, true}) {
        EXPECT_THAT([&] { RunFolder(temp.file("run"), force); },
                    ThrowsMessage<UserError>(HasSubstr("outputs: is a link")));
        EXPECT_THROW(RunFolder::check(temp.file("run"), force, {}), UserError);
    }
    fs::remove(temp.file("run/outputs"));
    write_file(temp.file("run/outputs"), "x");
    EXPECT_THAT([&] { RunFolder::check(temp.file("run"), true, {}); },
                ThrowsMessage<UserError>(HasSubstr("outputs: is not a folder")));
}

// Names of tensors that are no file names stay inside the folder, and apart from each other.
TEST(RunFolder, NamesOfOutputsStayInside) {
    const test::TempFolder temp;
    RunFolder folder(temp.file("run"), false);
    folder.begin();
    folder.write_output("../../up", "|u1", {1}, "a");
    folder.write_output("layer/1:0", "|u1", {1}, "b");
    folder.write_output("layer_1_0", "|u1", {1}, "c");
    EXPECT_THAT(files_below(temp.file("")),
                testing::ElementsAre("run/outputs/%2E.%2F..%2Fup.npy", "run/outputs/layer%2F1%3A0.npy",
                                     "run/outputs/layer_1_0.npy"));
}

// The hash of a file is the published one of its content, for an empty file too.
TEST(Sha256, OfFiles) {
    const test::TempFolder temp;
    write_file(temp.file("abc"), "abc");
    write_file(temp.file("empty"), "");
    EXPECT_EQ(sha256_hex_of_file(temp.file("abc")),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_hex_of_file(temp.file("empty")),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_THROW(sha256_hex_of_file(temp.file("none")), UserError);
}

}  // namespace
}  // namespace kpu::traces
