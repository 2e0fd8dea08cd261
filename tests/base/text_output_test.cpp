// Files are replaced whole, what is no file is written in place, and nothing temporary stays.
#include "base/text_output.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/diagnostics.hpp"
#include "base/read_file.hpp"

namespace kpu {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TextOutput : public testing::Test {
  protected:
    TextOutput() {
        std::string name = (fs::temp_directory_path() / "kpusim_output_XXXXXX").string();
        folder_ = mkdtemp(name.data());
    }
    ~TextOutput() override { fs::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : fs::recursive_directory_iterator(folder_))
            found.push_back(entry.path().filename().string());
        std::sort(found.begin(), found.end());
        return found;
    }
    static std::string error_of(const std::string& path) {
        try {
            write_file(path, "x");
        } catch (const UserError& error) {
            return error.what();
        }
        return "no error";
    }

  private:
    fs::path folder_;
};

TEST_F(TextOutput, ReplacesAFileAndKeepsItsMode) {
    write_file(path("a"), "one");
    EXPECT_EQ(fs::status(path("a")).permissions() & fs::perms::others_write, fs::perms::none);
    fs::permissions(path("a"), fs::perms::owner_read | fs::perms::owner_write);
    write_file(path("a"), "two");
    EXPECT_EQ(read_file(path("a")), "two");
    EXPECT_EQ(fs::status(path("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_THAT(names(), testing::ElementsAre("a"));
}

TEST_F(TextOutput, AnUnfinishedOneLeavesWhatWasThere) {
    write_file(path("a"), "one");
    {
        Output output = Output::to_file(path("a"));
        output.write("half");
        const Output moved = std::move(output);
        EXPECT_EQ(names().size(), 2U);
        EXPECT_EQ(read_file(path("a")), "one");
    }
    EXPECT_EQ(read_file(path("a")), "one");
    EXPECT_THAT(names(), testing::ElementsAre("a"));
}

TEST_F(TextOutput, FollowsLinks) {
    write_file(path("target"), "old");
    fs::create_symlink("target", path("link"));
    fs::create_symlink("link", path("far"));
    write_file(path("far"), "new");
    EXPECT_TRUE(fs::is_symlink(path("far")) && fs::is_symlink(path("link")));
    EXPECT_EQ(read_file(path("target")), "new");
    fs::create_symlink("made", path("dangling"));
    write_file(path("dangling"), "there");
    EXPECT_TRUE(fs::is_symlink(path("dangling")));
    EXPECT_EQ(read_file(path("made")), "there");
    EXPECT_THAT(names(), testing::ElementsAre("dangling", "far", "link", "made", "target"));
}

TEST_F(TextOutput, WritesDevicesAndPipesInPlace) {
    fs::create_symlink("/dev/null", path("null"));
    write_file(path("null"), "x");
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
    EXPECT_TRUE(fs::is_symlink(path("null")));
    EXPECT_THAT(error_of("/dev/full"), HasSubstr("/dev/full: cannot write: No space left on device. Fix:"));
    ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    Output::check(path("pipe"));  // would wait for a reader, and be its end
    std::string seen;
    std::thread reader([&] { seen = read_file(path("pipe")); });
    write_file(path("pipe"), "through");
    reader.join();
    EXPECT_EQ(seen, "through");
    EXPECT_TRUE(fs::is_fifo(path("pipe")));
    EXPECT_THAT(names(), testing::ElementsAre("null", "pipe"));
}

TEST_F(TextOutput, GoesOnWhereAnOpenDescriptorIs) {
    const int file = open(path("log").c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_TRUE(write_all(file, "head "));
    for (const char* form : {"/dev/fd/{}", "/proc/self/fd/{}"})
        write_file(fmt::format(fmt::runtime(form), file), "x");
    ASSERT_TRUE(write_all(file, " tail"));
    close(file);
    EXPECT_EQ(read_file(path("log")), "head xx tail");
    EXPECT_THAT(error_of(fmt::format("/dev/fd/{}", file)), HasSubstr("cannot create"));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    std::signal(SIGPIPE, SIG_IGN);
    EXPECT_THAT(error_of(fmt::format("/dev/fd/{}", ends[1])), HasSubstr("cannot write: Broken pipe"));
    close(ends[1]);
}

TEST_F(TextOutput, SaysWhyAPathCannotBeWritten) {
    fs::create_symlink("loop", path("loop"));
    EXPECT_THAT(error_of(path("loop")), HasSubstr("Too many levels of symbolic links"));
    EXPECT_THAT(error_of(path(std::string(256, 'n'))), HasSubstr("File name too long"));
    EXPECT_THAT(error_of(path("absent/a")), HasSubstr("No such file or directory"));
    EXPECT_THAT(error_of(path("")), HasSubstr("Is a directory"));
    EXPECT_THAT(error_of(""), HasSubstr("cannot create: No such file or directory"));
    write_file(path(std::string(255, 'n')), "as long as names go");
    EXPECT_THAT(names(), testing::ElementsAre("loop", std::string(255, 'n')));
}

TEST_F(TextOutput, AFullDiskLeavesWhatWasThere) {
    write_file(path("a"), "one");
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(write_file(path("a"), std::string(5000, 'x')), UserError);
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(read_file(path("a")), "one");
    EXPECT_THAT(names(), testing::ElementsAre("a"));
}

TEST_F(TextOutput, ASignalHandlerCanRemoveWhatIsTemporary) {
    Output first = Output::to_file(path("a"));
    Output second = std::move(first);
    const Output third = Output::to_file(path("b"));
    EXPECT_EQ(names().size(), 2U);
    remove_temporary_files();
    EXPECT_THAT(names(), testing::ElementsAre());
    EXPECT_THROW(second.finish(), UserError);
}

}  // namespace
}  // namespace kpu
