#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "runtime/validation/row_runner.hpp"
#include "support.hpp"

namespace kpu::validation {
namespace {

using testing::HasSubstr;

const char* const copies_text =
    "kernel,rows,cols,bytes,us,gb_per_s\nmatmul_1,512,1024,1048576,1.5,700\nmatmul_2,4096,4096,33554432,33.6,"
    "\n";
const char* const products_text =
    "set,M,N,K,fusion_us,fusion_min_us,fusion_max_us,fusion_sd_us,main_us,copy_done_us,scalesim_cycles\n"
    "small,128,192,256,1.5,1.4,1.7,0.1,1.6,0.08,2039\nlarge,1024,128,128,3,,,,,,\n";
const char* const vector_work_text =
    "op,shape,elements,us,sd_us\nadd,\"(16, 16, 32)\",8192,1.5,0.1\nlayer_norm,\"(6,640,512)\",,39,\n";
const char* const workloads_text =
    "workload,tpuv3,mnpusim,timeloop,maestro,scalesim_v3\ngemm_256x128x64,3101,2426,512,522,1020\nbert_base,"
    "305077,,,,\n";
const char* const mappings_text =
    "C,K,P,Q,R,S,stride,N,mapping,cycles\n"
    "32,16,4,4,1,1,1,1,L3[WIO] P4 - L2[WI] N1 K16X - L1[O] C2 Q4 C16X - L0[W] N1,900\n"
    "32,16,4,4,1,1,1,1,L3[WIO] P4 - L2[WI] N1 K16X - L1[O] Q4 C32X - L0[W] N1,900\n";
const char* const mapped_layers_text =
    "network,predictor,C,K,P,Q,R,S,stride,N,auto_tiling,auto_cycles,mapping,sp_kib,acc_kib,tiled_cycles,"
    "timeloop_cycles\n"
    "net,both,32,16,8,4,1,1,1,1,1_1,900.0,L3[WIO] P2 - L2[WI] N1 K16X - L1[O] C2 Q4 P4 C16X - L0[W] "
    "N1,1,1,800.5,1\n";
const char* const grids_text =
    "table,m,k,n,trace,grid,in0_sharded,out_sharded,in0_mem,in1_mem,out_mem,dtype,fidelity,ns,tflops,util_"
    "full_grid_pct\n"
    "tuned,512,256,128,True,8x8,True,True,L1,DRAM,L1,BFLOAT16,HiFi2,13051.0,0.7,0.5\n"
    "tuned,512,256,128,False,8x8,,,DRAM,DRAM,DRAM,BFLOAT4_B,LoFi,13051.0,0.7,0.5\n";
const char* const power_text =
    "net,layer,power_mw,total_ms,processing_ms,gmac,active_pes,zeros_in_ifmaps,gbuf_mb,dram_mb\nalexnet,"
    "CONV1,332,20.9,16.5,0.42,154,0.01%,18.5,5.0\n";
const char* const tasks_text =
    "round,commit,division,submitter,system,task,mode,inf_per_s,ms,uj_per_inf\nv0.7,64,closed,s,chip,kws,"
    "energy,227.1,4.4,35.3\n";

/// Each form is told by its columns.
TEST(Forms, Rows) {
    const auto copy = read(copies_text);
    EXPECT_EQ(copy[0].name(), "matmul_1 copy 512x1024");
    EXPECT_EQ(copy[0].layer_class, LayerClass::short_copy);
    EXPECT_EQ(copy[1].layer_class, LayerClass::long_copy);
    EXPECT_EQ(copy[1].kernels.at(0).m, 33554432);
    const auto product = read(products_text);
    EXPECT_EQ(product[0].name(), "small gemm 128x192x256");
    EXPECT_EQ(product[0].kernels.at(0).k, 256);
    EXPECT_EQ(product[0].others.at(0).second, 2039);
    EXPECT_NEAR(product[0].noise(), 0.2, 1e-9);
    EXPECT_TRUE(product[0].in_total);
    EXPECT_FALSE(product[1].in_total);
    const auto work = read(vector_work_text);
    EXPECT_EQ(work[0].kernels.at(0).m, 16 * 16 * 128);  // lines of 128: 32 of them used
    EXPECT_EQ(work[1].kernels.at(0).m, 6 * 640);
    EXPECT_EQ(work[1].kernels.at(0).n, 512);
    const auto workload = read(workloads_text);
    EXPECT_EQ(workload[0].kernels.at(0).n, 64);
    EXPECT_EQ(workload[0].others.size(), 4u);
    EXPECT_EQ(workload[1].kernels.size(), 7u);
    EXPECT_THAT(workload[1].unknown, HasSubstr("one layer"));
    const auto mapping = read(mappings_text);
    EXPECT_TRUE(mapping[0].mapped.has_value());
    EXPECT_EQ(mapping[0].layer_class, LayerClass::small_mapped);  // 4 pixels
    EXPECT_FALSE(mapping[1].mapped.has_value());
    EXPECT_EQ(mapping[1].not_counted, "an array of another side");
    const auto mapped = read(mapped_layers_text);
    EXPECT_EQ(mapped[0].layer_class, LayerClass::mapped);
    EXPECT_EQ(mapped[0].cycles, 800.5);
    EXPECT_EQ(mapped[0].group, "net C32 K16 P8 Q4 R1 s1");
    const auto grid = read(grids_text);
    EXPECT_TRUE(grid[0].kernels.at(0).left_is_here);
    EXPECT_TRUE(grid[0].not_counted.empty());
    EXPECT_NEAR(grid[0].cycles, 13.051, 1e-9);  // microseconds
    EXPECT_EQ(grid[1].not_counted, "timed by the host");
    EXPECT_EQ(read(power_text)[0].traffic_times, 4);
    EXPECT_EQ(read(power_text)[0].work.out_width, 55);
    EXPECT_EQ(read(power_text)[0].others.at(1).second, 5.0);
    EXPECT_EQ(read(tasks_text)[0].others.at(0).second, 35.3);
}

TEST(Forms, MicrosecondsAreCyclesOfThePlatform) {
    MeasuredRow row = read(copies_text)[0];
    to_cycles(row, platforms::load("tpu_v4_core"));
    EXPECT_DOUBLE_EQ(row.cycles, 1.5 * 1050);
    EXPECT_FALSE(row.in_microseconds);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Forms, Refusals) {
    EXPECT_THAT(error_of(replaced(copies_text, "1048576", "0")),
                HasSubstr("rows.csv:2:1: error: column `bytes` has `0`"));
    EXPECT_THAT(error_of(replaced(copies_text, "1.5", "1.5us")), HasSubstr("give a number of microseconds"));
    EXPECT_THAT(error_of(replaced(copies_text, "us,gb", "ns,gb")), HasSubstr("unknown column `ns`"));
    EXPECT_THAT(error_of(replaced(products_text, "128,192", "128,")), HasSubstr("column `N` is empty"));
    EXPECT_THAT(error_of(replaced(vector_work_text, "add,", "ad,")), HasSubstr("did you mean `add`"));
    EXPECT_THAT(error_of(replaced(vector_work_text, "16, 32", "16, x")),
                HasSubstr("give the sizes in brackets"));
    EXPECT_THAT(error_of(replaced(vector_work_text, "640", "640000000")),
                HasSubstr("give the sizes in brackets"));
    EXPECT_THAT(error_of(replaced(workloads_text, "gemm_", "gem_")), HasSubstr("give gemm_MxKxN"));
    EXPECT_THAT(error_of(replaced(mappings_text, "P4", "P3")),
                HasSubstr("factors of P make 3, the layer has 4"));
    EXPECT_THAT(error_of(replaced(mappings_text, "1,1,1,1,L3", "1,1,1,2,L3")),
                HasSubstr("column `N` has `2`"));
    EXPECT_THAT(error_of(replaced(grids_text, "HiFi2", "HiFi3")), HasSubstr("give BFLOAT16 with HiFi2"));
    EXPECT_THAT(error_of(replaced(mappings_text, "L0[W] N1", "L0[W] P1048576 P1048576 P1048576 P1048576")),
                HasSubstr("factors of P make 1099511627776, the layer has 4"));
    EXPECT_THAT(
        error_of(replaced(workloads_text, "gemm_256x128x64", "conv_131072x131072x131072x131072x9x3x1x1")),
        HasSubstr("give gemm_MxKxN"));
    EXPECT_THAT(error_of("net,kind,index,C,K,in_dim,out_dim,kernel,stride,pad,a_load,median\n"
                         "n,conv,1,9999999,9999999,9999999,9999999,1,1,0,1,50\n"),
                HasSubstr("leave rows of over 1e12 multiply-adds"));
    EXPECT_THAT(error_of(replaced(power_text, "20.9", "")), HasSubstr("column `total_ms` is empty"));
}

/// Bytes that are turned, cut and doubled give rows or one error, never anything else.
TEST(Forms, AnyInputIsReadOrRefused) {
    constexpr uint32_t seed = 9;
    RecordProperty("seed", seed);
    std::mt19937 random(seed);
    size_t refused = 0, taken = 0;
    for (const std::string whole : {copies_text, products_text, vector_work_text, workloads_text,
                                    mappings_text, mapped_layers_text, grids_text, power_text, tasks_text}) {
        for (int i = 0; i < 60; ++i) {
            std::string text = whole;
            for (int change = 0; change <= i % 4; ++change) {
                const size_t at = random() % text.size();
                constexpr char signs[] = "0x-,()\"\n[ X";
                switch (random() % 3) {
                    case 0:
                        text[at] = signs[random() % (sizeof signs - 1)];
                        break;
                    case 1:
                        text.erase(at, 1 + random() % 4);
                        break;
                    default:
                        text.insert(at, text.substr(at, random() % 9));
                }
                if (text.empty()) text = "x";
            }
            try {
                read(text);
                ++taken;
            } catch (const UserError& error) {
                ++refused;
                EXPECT_THAT(error.what(), HasSubstr("Fix: ")) << text;
            }
        }
    }
    EXPECT_GT(refused, 100u);
    EXPECT_GT(taken, 20u);
}

}  // namespace
}  // namespace kpu::validation
