#include "base/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/diagnostics.hpp"
#include "tests/temp_folder.hpp"

namespace kpu {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Returns the bytes that the format's specification asks for, put together by hand.
std::string npy_bytes(const std::string& dictionary, const std::string& data, int major = 1) {
    std::string header = dictionary;
    const size_t prefix = major == 1 ? 10 : 12;
    while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string out = "\x93NUMPY";
    out += static_cast<char>(major);
    out += '\0';
    for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
    return out + header + data;
}

// Arrays of both header versions are read, whatever the order of the keys and the quotes.
TEST(Npy, ReadsHandMadeBytes) {
    const std::string data("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\5\0\0\0\6\0\0\0", 24);
    for (const int major : {1, 2}) {
        const NpyArray array = parse_npy(
            npy_bytes("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", data, major), "x.npy");
        EXPECT_EQ(array.dtype, "<i4");
        EXPECT_THAT(array.shape, testing::ElementsAre(2, 3));
        EXPECT_EQ(array.data, data);
        EXPECT_EQ(array.elements(), 6u);
    }
    const NpyArray other =
        parse_npy(npy_bytes("{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<i1\"}", "abc"), "x.npy");
    EXPECT_EQ(other.dtype, "|i1");
    EXPECT_THAT(other.shape, testing::ElementsAre(3));
    const NpyArray scalar =
        parse_npy(npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "z"), "x.npy");
    EXPECT_TRUE(scalar.shape.empty());
    EXPECT_EQ(scalar.elements(), 1u);
}

// A written file is byte for byte what the specification of version 1.0 says.
TEST(Npy, WritesVersionOne) {
    EXPECT_EQ(format_npy(ElemType::f16, {2, 1}, "abcd"),
              npy_bytes("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1), }", "abcd"));
    EXPECT_EQ(format_npy(ElemType::u8, {3}, "abc"),
              npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "abc"));
    EXPECT_EQ(format_npy(ElemType::posit8, {0, 5}, ""),
              npy_bytes("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 5), }", ""));
    EXPECT_THROW(format_npy(ElemType::f32, {2}, "abc"), InternalError);
}

// Every element type survives a round trip through a file, under the dtype that the interface names.
TEST(Npy, RoundTripOfEveryType) {
    const test::TempFolder folder;
    const std::vector<std::pair<ElemType, std::string>> dtypes{
        {ElemType::i4, "|i1"},          {ElemType::i8, "|i1"},         {ElemType::i16, "<i2"},
        {ElemType::i32, "<i4"},         {ElemType::u8, "|u1"},         {ElemType::u16, "<u2"},
        {ElemType::u32, "<u4"},         {ElemType::f16, "<f2"},        {ElemType::bf16, "<u2"},
        {ElemType::f32, "<f4"},         {ElemType::posit8, "|u1"},     {ElemType::posit16, "<u2"},
        {ElemType::posit8_es1, "|u1"},  {ElemType::posit8_es2, "|u1"}, {ElemType::posit16_es0, "<u2"},
        {ElemType::posit16_es2, "<u2"}, {ElemType::f8e4m3, "|u1"},     {ElemType::f8e5m2, "|u1"},
        {ElemType::f6e2m3, "|u1"},      {ElemType::f6e3m2, "|u1"},     {ElemType::f4e2m1, "|u1"}};
    constexpr size_t unnamed = 1;  // none
    EXPECT_EQ(dtypes.size() + unnamed, static_cast<size_t>(elem_type_count));
    for (const auto& [type, dtype] : dtypes) {
        const std::string data(6 * static_cast<size_t>(dtype[2] - '0'), '\5');
        const std::string path = folder.file("a.npy");
        write_npy(path, type, {3, 2}, data);
        const NpyArray array = read_npy(path);
        EXPECT_EQ(array.dtype, dtype);
        EXPECT_EQ(array.data, data);
        EXPECT_NO_THROW(check_npy_type(array, type, path));
    }
}

// An input of another type, or an i4 value outside its range, is refused with the dtype to use.
TEST(Npy, ChecksTheElementType) {
    const NpyArray array = parse_npy(format_npy(ElemType::i8, {2}, "\7\x08"), "x.npy");
    EXPECT_THAT([&] { check_npy_type(array, ElemType::f32, "x.npy"); },
                ThrowsMessage<UserError>(HasSubstr("float32")));
    EXPECT_THAT([&] { check_npy_type(array, ElemType::i4, "x.npy"); },
                ThrowsMessage<UserError>(HasSubstr("element 1 is 8")));
}

// Malformed files are refused, each with its own reason.
TEST(Npy, RefusesMalformedFiles) {
    const auto refused = [](const std::string& bytes, const std::string& why) {
        EXPECT_THAT([&] { parse_npy(bytes, "x.npy"); }, ThrowsMessage<UserError>(HasSubstr(why))) << why;
    };
    const auto dict = [](const std::string& descr, const std::string& order, const std::string& shape) {
        return "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
    };
    refused("", "magic");
    refused("PK\3\4", "magic");
    refused(std::string("\x93NUMPY\1", 7), "truncated");
    refused(std::string("\x93NUMPY\7\0\1\0{}", 12), "version 7.0");
    refused(std::string("\x93NUMPY\1\0\xff\xff{}", 12), "truncated");
    refused(npy_bytes(dict("'<f4'", "True", "(1,)"), "abcd"), "Fortran order");
    refused(npy_bytes(dict("'>f4'", "False", "(1,)"), "abcd"), "big-endian");
    refused(npy_bytes(dict("'|O'", "False", "(1,)"), "abcd"), "dtype `|O`");
    refused(npy_bytes(dict("[('a', '<f4')]", "False", "(1,)"), "abcd"), "structured");
    refused(npy_bytes(dict("'<f4'", "Maybe", "(1,)"), "abcd"), "fortran_order");
    refused(npy_bytes(dict("'<f4'", "False", "(-1,)"), "abcd"), "sizes");
    refused(npy_bytes(dict("'<f4'", "False", "(2,)"), "abcd"), "truncated: shape and dtype ask for 8 bytes");
    refused(npy_bytes(dict("'<f4'", "False", "(1,)"), "abcde"), "5 follow");
    refused(npy_bytes(dict("'<f4'", "False", "(4611686018427387904, 4)"), "abcd"), "overflows");
    refused(npy_bytes(dict("'<f4'", "False", "(99999999999999999999,)"), "abcd"), "sizes");
    refused(npy_bytes(dict("'<f4'", "False", "(1,)") + "x", "abcd"), "after the header");
    refused(npy_bytes("{'descr': '<f4', 'shape': (1,)}", "abcd"), "lacks");
    refused(npy_bytes("{'descr': '<f4', 'shape': (1,), 'more': 1}", "abcd"), "unexpected key");
    refused(npy_bytes("{'descr: ", "abcd"), "string without end");
    EXPECT_THAT([] { read_npy("/nonexistent/x.npy"); },
                ThrowsMessage<UserError>(HasSubstr("/nonexistent/x.npy")));
}

// Truncating a valid file anywhere gives an error with its Fix, never a crash or an array.
TEST(Npy, RefusesEveryTruncation) {
    const std::string bytes = format_npy(ElemType::f32, {2, 2}, std::string(16, '\1'));
    for (size_t size = 0; size < bytes.size(); ++size)
        EXPECT_THAT([&] { parse_npy(bytes.substr(0, size), "x"); },
                    ThrowsMessage<UserError>(HasSubstr("Fix: ")));
}

}  // namespace
}  // namespace kpu
