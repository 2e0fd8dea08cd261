#include "base/read_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/diagnostics.hpp"

namespace kpu {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& path) {
    try {
        read_file(path);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(ReadFile, GivesAllBytesOrTheFirst) {
    const std::string path = testing::TempDir() + "read_file_test";
    std::string bytes(200000, 'x');
    bytes[70000] = '\0';
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_EQ(read_file(path), bytes);
    EXPECT_EQ(read_file(path, 100000), bytes.substr(0, 100000));
    EXPECT_EQ(read_file(path, 0), "");
    std::remove(path.c_str());
}

TEST(ReadFile, SaysWhichFileAndWhy) {
    EXPECT_THAT(error_of("/nonexistent/a"), HasSubstr("/nonexistent/a: error: cannot read: No such file"));
    EXPECT_THAT(error_of(testing::TempDir()), HasSubstr("Is a directory"));
}

TEST(ReadFile, RefusesWhatIsTooLargeForATextBeforeReadingIt) {
    const std::string path = testing::TempDir() + "read_file_sparse";
    std::ofstream(path, std::ios::binary).close();
    std::filesystem::resize_file(path, uint64_t{200} << 30);
    EXPECT_THAT(error_of(path), HasSubstr("has more than 1073741824 bytes"));
    EXPECT_EQ(read_file(path, 10), std::string(10, '\0'));
    std::remove(path.c_str());
}

}  // namespace
}  // namespace kpu
