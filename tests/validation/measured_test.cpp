#include "runtime/validation/measured.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support.hpp"

namespace kpu::validation {
namespace {

using testing::HasSubstr;

constexpr const char* header =
    "net,kind,index,C,K,in_dim,out_dim,kernel,stride,pad,pool,pool_stride,a_load,b_load,a_rows,b_rows,outer_"
    "a,tiles,"
    "min,median,max,flag\n";

TEST(Measured, Layers) {
    const auto rows = read(std::string("# where it is from\n") + header +
                           "n,conv,2,64,128,14,7,3,2,1,,,30,40,10,10,2,8,90,100,130,\n"
                           "n,conv,3,3,16,8,8,3,1,1,2,2,,,,,,,,50,,\n"
                           "n,conv,4,64,32,14,14,1,1,0,1,1,,,,,,,,50,,\n"
                           "n,matmul,1,512,1000,1,1,1,1,0,,,,,,,,,,50,,\n"
                           "n,resadd,1,,,,,,,,,,100,,,,,,,50,,\n"
                           "n,pool,1,,,,,,,,,,,,,,,,,50,,\n"
                           "GoogLeNet,conv,1,64,64,14,14,1,1,0,,,,,,,,,,50,,\n"
                           "n,conv,5,64,64,14,9,1,1,0,,,,,,,,,,50,,\"dims, unsure\"\n");
    ASSERT_EQ(rows.size(), 8u);
    EXPECT_EQ(rows[0].name(), "n conv 2");
    EXPECT_EQ(rows[0].line, 3u);
    EXPECT_EQ(rows[0].layer_class, LayerClass::window);
    EXPECT_EQ(rows[0].tiles.total, 8);
    EXPECT_EQ(rows[0].tiles.over_filters, 2);
    EXPECT_EQ(rows[0].tiles.over_pixels, 4);
    EXPECT_DOUBLE_EQ(rows[0].noise(), 0.4);
    EXPECT_EQ(rows[1].layer_class, LayerClass::first_layer);
    EXPECT_EQ(rows[1].work.pool, 2);
    EXPECT_EQ(rows[2].layer_class, LayerClass::pointwise);
    EXPECT_EQ(rows[2].work.kind, Work::Kind::product);
    EXPECT_EQ(rows[2].work.out_width, 14 * 14);
    EXPECT_EQ(rows[3].layer_class, LayerClass::fully_connected);
    EXPECT_EQ(rows[4].layer_class, LayerClass::element_wise);
    EXPECT_EQ(rows[4].work.elements, 1600);
    EXPECT_EQ(rows[5].work.kind, Work::Kind::unknown);
    EXPECT_THAT(rows[5].not_counted, HasSubstr("no shape"));
    EXPECT_THAT(rows[6].not_counted, HasSubstr("unsure"));
    EXPECT_EQ(rows[7].not_counted, "dims, unsure");
    const auto odd = read(header + std::string("n,conv,1,64,64,14,9,1,1,0,,,,,,,,,,50.5,,\n"
                                               "n,conv,2,64,64,14,7,3,2,0,,,,,,,,,,50,,\n"));
    EXPECT_THAT(odd[0].not_counted, HasSubstr("out_dim is 9; in_dim, kernel, stride and pad make 14"));
    EXPECT_EQ(odd[0].work.kind, Work::Kind::unknown);
    EXPECT_EQ(odd[0].cycles, 50.5);
    EXPECT_EQ(odd[1].work.kind, Work::Kind::convolution);  // padded on one side
    EXPECT_EQ(rows[7].work.kind, Work::Kind::unknown);
}

TEST(Measured, Refusals) {
    const std::string good = "n,matmul,1,512,1000,1,1,1,1,0,,,,,,,,,,50,,\n";
    EXPECT_EQ(error_of(header + good), "no error");
    EXPECT_THAT(error_of(""), HasSubstr("no header"));
    EXPECT_THAT(error_of(header), HasSubstr("no rows"));
    EXPECT_THAT(error_of("net,kind,latency_us\nn,conv,1\n"), HasSubstr("unknown column `latency_us`"));
    EXPECT_THAT(error_of("net,kind\nn,conv\n"), HasSubstr("there is no column `median`"));
    EXPECT_THAT(error_of(header + std::string("n,matmul,1,512,1000,1,1,1,1,0,,,,,,,,,,50us,,\n")),
                HasSubstr("rows.csv:2:1: error: column `median` has `50us`"));
    EXPECT_THAT(error_of(header + std::string("n,matmul,1,512,,1,1,1,1,0,,,,,,,,,,50,,\n")),
                HasSubstr("column `K` is empty"));
    EXPECT_THAT(error_of(header + std::string("n,matmul,1,512,1000,1,1,1,1,0\n")), HasSubstr("10 fields"));
    EXPECT_THAT(error_of(header + std::string("n,lstm,1,512,1000,1,1,1,1,0,,,,,,,,,,50,,\n")),
                HasSubstr("use conv, matmul, resadd, or"));
    EXPECT_THAT(error_of(header + std::string("n,matmul,1,512,1000,1,1,1,1,0,,,,,,,,,60,50,70,\n")),
                HasSubstr("not between `min` and `max`"));
}

}  // namespace
}  // namespace kpu::validation
