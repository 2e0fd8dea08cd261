// SCALE-Sim files: what they say becomes the layers and the platform, what is wrong is named with its line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <random>

#include "base/read_file.hpp"
#include "compiler/scale_sim/topology.hpp"
#include "model/timing/systolic.hpp"
#include "platforms/platform.hpp"
#include "runtime/simulation.hpp"
#include "tests/reference/systolic_rows.hpp"

namespace kpu::compiler {
namespace {

using ::testing::HasSubstr;

std::vector<Layer> parse(const std::string& text) {
    Diagnostics diagnostics;
    auto layers = parse_topology(text, "net.csv", diagnostics);
    EXPECT_FALSE(diagnostics.has_errors()) << diagnostics.to_string();
    return layers;
}

std::string findings(const std::string& text) {
    Diagnostics diagnostics;
    parse_topology(text, "net.csv", diagnostics);
    return diagnostics.to_string();
}

// A comma at the end of a line closes its last field; without it the field is there all the same.
TEST(Topology, TrailingCommaIsOptional) {
    for (const char* text : {"Layer, M, N, K,\nfc, 8, 10, 512,\n", "Layer,M,N,K\r\nfc,8,10,512\r\n"}) {
        const auto layers = parse(text);
        ASSERT_EQ(layers.size(), 1u);
        EXPECT_EQ(layers[0].name, "fc");
        EXPECT_EQ(layers[0].m, 8u);
        EXPECT_EQ(layers[0].n, 10u);
        EXPECT_EQ(layers[0].k, 512u);
        EXPECT_FALSE(layers[0].convolution);
    }
}

// The tool's own parser: what follows the last comma is no field, and a name with DP is a layer a channel. A
// column called Batch is one; without that name the ninth field is the stride of columns.
TEST(Topology, FollowsTheToolsParser) {
    const auto remark = parse("h,,\nConv1, 10, 9, 3, 2, 5, 7, 2, first layer\nfc, 8, 10, 512, last\n");
    ASSERT_EQ(remark.size(), 2u);
    EXPECT_EQ(remark[0].m, 5u * 5);
    EXPECT_EQ(remark[1].k, 512u);
    EXPECT_THAT(findings("h,,\nfc, 8, 10, 512, last\n"), HasSubstr("`last` after the last comma is ignored"));
    EXPECT_EQ(parse("h,,\nc, 10, 9, 3, 2, 5, 7, 2, 3\n")[0].m, 5u * 5);   // 3 stands after the last comma
    EXPECT_EQ(parse("h,,\nc, 10, 9, 3, 2, 5, 7, 2, 3,\n")[0].m, 5u * 4);  // and here it does not
    const char* header = "Layer, H, W, R, S, C, K, Stride, Batch,\n";
    EXPECT_EQ(parse(header + std::string("c, 10, 9, 3, 2, 5, 7, 2, 3,\n"))[0].m, 3u * 5 * 5);
    const auto depthwise = parse("h,,\nDP1, 10, 10, 3, 3, 4, 1, 1,\n");
    ASSERT_EQ(depthwise.size(), 4u);
    EXPECT_EQ(depthwise[3].name, "DP1Channel_3");
    EXPECT_EQ(depthwise[3].k, 9u);
    const auto heads = parse("h,,\nscores, 8, 10, 64, 12,\n");
    ASSERT_EQ(heads.size(), 12u);
    EXPECT_EQ(heads[11].name, "scores.batch_11");
    EXPECT_THAT(findings("h,,\nDP1, 10, 10, 3, 3, 1000000, 1, 1,\n"), HasSubstr("at most"));
}

// A convolution is its implicit product; outputs = ceil((H - KH + stride) / stride), per side.
TEST(Topology, ConvolutionIsItsImplicitProduct) {
    const auto layers = parse("header,\nConv1, 224, 224, 11, 11, 3, 96, 4,\nTwo, 10, 9, 3, 2, 5, 7, 2, 3,\n");
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[0].m, 55u * 55);  // ceil(217 / 4)
    EXPECT_EQ(layers[0].n, 96u);
    EXPECT_EQ(layers[0].k, 11u * 11 * 3);
    EXPECT_EQ(layers[1].m, 5u * 4);  // ceil(9 / 2), ceil(10 / 3)
    EXPECT_EQ(layers[1].k, 3u * 2 * 5);
}

// Statements of the file that the model cannot follow are reported; a first line of numbers is no header.
TEST(Topology, ReportsWhatIsNotModelled) {
    EXPECT_THAT(findings("Layer,M,N,K,\nfc,8,10,512,2:4,\n"), HasSubstr("net.csv:2"));
    EXPECT_THAT(findings("Layer,M,N,K,\nfc,8,10,512,2:4,\n"), HasSubstr("sparsity 2:4"));
    EXPECT_THAT(findings("fc,8,10,512,\n"), HasSubstr("not a header"));
    const auto layers = parse("Layer,M,N,K,\nfc,1,1,1,\nfc,1,1,1,\n");
    EXPECT_EQ(layers[1].name, "fc.2");
}

// Every mistake names its line and its fix, and nothing is made of the file.
TEST(Topology, ErrorsNameLineAndFix) {
    const std::map<std::string, std::string> cases{
        {"fc,8,10,\n", "a layer of 3 fields"},
        {"c,8,8,3,3,1,1,1,1,1,1,\n", "a layer of 11 fields"},
        {"fc,8,ten,512,\n", "N is `ten`"},
        {"fc,8,0,512,\n", "N is 0"},
        {"fc,8,-3,512,\n", "N is -3"},
        {"fc,8,,512,\n", "N is ``"},
        {"fc,8,99999999999999999999,512,\n", "N is `99999999999999999999`"},
        {"c,8,8,9,3,1,1,1,\n", "larger than its input"},
        {"c,8,8,3,3,1,1,0,\n", "stride is 0"},
        {"fc,16777216,16777216,1,\n", "more than"}};
    for (const auto& [line, expected] : cases) {
        const std::string text = findings("header,,\n\n" + line);
        EXPECT_THAT(text, HasSubstr(expected));
        EXPECT_THAT(text, HasSubstr("net.csv:3"));
        EXPECT_THAT(text, HasSubstr("Fix: "));
    }
    EXPECT_THAT(findings("header only,\n"), HasSubstr("no layer"));
    EXPECT_THAT(findings(""), HasSubstr("no layer"));
}

class TemporaryFile {
  public:
    TemporaryFile(const std::string& name, const std::string& text)
        : path_(::testing::TempDir() + std::to_string(getpid()) + "_" + name) {
        std::ofstream(path_) << text;
    }
    ~TemporaryFile() { std::remove(path_.c_str()); }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

std::string config_text(const std::string& rows, const std::string& cols, const std::string& dataflow,
                        const std::string& more = "") {
    return "[general]\nrun_name = mine\n\n[architecture_presets]\nArrayHeight:    " + rows +
           "\nArrayWidth : " + cols +
           "\nIfmapSramSzkB: 64\nFilterSramSzkB: 64\nOfmapSramSzkB: 64\nBandwidth : 10\n" +
           "Dataflow : " + dataflow + "\n" + more;
}

// Array and dataflow are taken over, timing is the tool's own; what is ignored is listed.
TEST(Config, BecomesAPlatform) {
    const TemporaryFile file("scale.cfg",
                             config_text("16", "32", "ws", "[run_presets]\nInterfaceBandwidth: CALC\n"));
    Diagnostics notes;
    const auto platform = platforms::load(file.path(), {}, {}, &notes);
    EXPECT_EQ(platform.name(), "mine");
    EXPECT_EQ(platform.engine(0).array().rows(), 16u);
    EXPECT_EQ(platform.engine(0).array().cols(), 32u);
    EXPECT_EQ(platform.engine(0).array().dataflow(), proto::SystolicArray::ws);
    EXPECT_EQ(platform.engine(0).array().timing(), proto::SystolicArray::compat);
    EXPECT_EQ(platform.engine(0).l1().size_bytes(), 192u * 1024);
    EXPECT_THAT(notes.to_string(), HasSubstr("Bandwidth, InterfaceBandwidth"));
    const TemporaryFile other(
        "other.cfg",
        config_text("16", "32", "ws", "ArrayHight: 3\n[run_presets]\nInterfaceBandwidth: USER\n"));
    platforms::load(other.path(), {}, {}, &notes);
    EXPECT_THAT(notes.to_string(), HasSubstr(":12:1: info: unknown key `ArrayHight` is ignored: did you mean "
                                             "`ArrayHeight`"));
    EXPECT_THAT(notes.to_string(), HasSubstr("warning: `InterfaceBandwidth: USER` asks for the stalls"));
    const auto physical = platforms::load(file.path(), {{"engine.array.timing", "physical"}});
    EXPECT_EQ(physical.engine(0).array().timing(), proto::SystolicArray::physical);
}

TEST(Config, ErrorsNameLineAndFix) {
    const std::map<std::string, std::string> cases{
        {config_text("0", "32", "ws"), ":5:1: error: `ArrayHeight` is `0`"},
        {config_text("x", "32", "ws"), ":5:1: error: `ArrayHeight` is `x`"},
        {config_text("8", "-1", "ws"), ":6:1: error: `ArrayWidth` is `-1`"},
        {config_text("8", "8", "rs"), "`Dataflow` is `rs`. Fix: one of os, ws, is"},
        {config_text("8", "8", "os", "[layuot]\n"), "did you mean `layout`"},
        {config_text("8", "8", "os", "garbage\n"), "neither a section nor an entry"},
        {config_text("8", "8", "os", "ArrayWidth: 8\n"), "stands twice"},
        {"ArrayHeight: 8\nArrayWidth: 8\n", ":1:1: error: `ArrayHeight` stands before any section"},
        {"[general]\nrun_name = x\n", "`ArrayHeight` is missing"}};
    for (const auto& [text, expected] : cases) {
        const TemporaryFile file("wrong.cfg", text);
        try {
            platforms::load(file.path());
            ADD_FAILURE() << "accepted: " << expected;
        } catch (const UserError& error) {
            EXPECT_THAT(error.diagnostics().to_string(), HasSubstr(expected));
            EXPECT_THAT(error.diagnostics().to_string(), HasSubstr("Fix: "));
        }
    }
}

using reference::number;

std::string topology_line(const Row& row) {
    std::string line = row.at("layer");
    const auto add = [&](const char* column) { line += ", " + row.at(column); };
    if (row.at("kind") == "gemm") {
        for (const char* column : {"M", "N", "K"}) add(column);
    } else {
        for (const char* column :
             {"ifmap_h", "ifmap_w", "filt_h", "filt_w", "channels", "num_filters", "stride_h", "stride_w"})
            add(column);
    }
    return line + ",\n";
}

/// A run of a topology on a configuration whose L1 holds it.
runtime::Simulation simulate(const std::vector<Layer>& layers, const std::string& config_path,
                             platforms::Overrides changes = {}) {
    changes.emplace_back("engine.l1.size_bytes", std::to_string(topology_l1_bytes(layers)));
    const auto platform = platforms::load(config_path, changes);
    runtime::SimulationOptions options;
    options.mode = runtime::Mode::timing;
    options.hazards = false;
    runtime::Simulation simulation(std::make_shared<Module>(topology_program(layers, "net")), &platform,
                                   options);
    EXPECT_EQ(simulation.run(), runtime::RunStatus::finished);
    return simulation;
}

Cycles cycles_of(const traces::OpRow& row, traces::Cause cause) {
    return row.causes[static_cast<size_t>(cause)];
}

// Nets of the reference tables, written as its files and run on the simulator, take exactly the tool's
// cycles, layer by layer: nothing but the array is in the way. L1 sees the tool's reads (and 4 bytes for each
// write; of os, where the tool counts too many, M x N), and the spatial utilization is its mapping
// efficiency, to the cycle.
TEST(ScaleSim, SimulatedLayersTakeTheReferenceCyclesAndReads) {
    size_t checked = 0;
    for (const char* table : {"conv_nostall.csv", "gemm_nostall.csv"}) {
        std::map<std::string, std::vector<Row>> nets;
        for (const Row& row : reference::systolic_rows(table))
            nets[row.at("dataflow") + " " + row.at("R") + " " + row.at("C") + " " + row.at("net")].push_back(
                row);
        for (const auto& [key, rows] : nets) {
            std::string text = "header,\n";
            for (const Row& row : rows) text += topology_line(row);
            const TemporaryFile config("net.cfg",
                                       config_text(rows[0].at("R"), rows[0].at("C"), rows[0].at("dataflow")));
            const auto layers = parse(text);
            ASSERT_EQ(layers.size(), rows.size());
            auto simulation = simulate(layers, config.path());
            const auto& ops = simulation.op_rows();
            for (size_t i = 0; i < rows.size(); ++i) {
                const Row& row = rows[i];
                SCOPED_TRACE(key + " " + ops[i].id);
                EXPECT_EQ(ops[i].charged_cycles, number(row, "total_cycles"));
                const uint64_t writes = row.at("dataflow") == "os" ? number(row, "M") * number(row, "N")
                                                                   : number(row, "sram_ofmap_writes");
                EXPECT_EQ(ops[i].bytes_l1,
                          number(row, "sram_ifmap_reads") + number(row, "sram_filter_reads") + 4 * writes);
                const auto useful = double(cycles_of(ops[i], traces::Cause::busy_useful)),
                           padding = double(cycles_of(ops[i], traces::Cause::busy_padding));
                EXPECT_NEAR(useful, std::stod(row.at("mapping_eff_pct")) / 100 * (useful + padding), 1);
                ++checked;
            }
        }
    }
    EXPECT_EQ(checked, 875u);
}

// A layer takes the tool's cycles on arrays of every size, alone and among larger and smaller layers.
TEST(ScaleSim, LayersTakeTheToolsCyclesOnLargeArraysWhateverStandsBesideThem) {
    const std::vector<Layer> layers = {{"small", false, 256, 256, 256},
                                       {"odd", false, 300, 500, 700},
                                       {"long", false, 64, 64, 40000},
                                       {"wide", false, 5000, 900, 64},
                                       {"one", false, 1, 1, 1}};
    for (const char* dataflow : {"os", "ws", "is"}) {
        for (const uint64_t side : {128u, 256u, 512u, 1024u, 4096u}) {
            const std::string text = std::to_string(side);
            const TemporaryFile config("large.cfg", config_text(text, text, dataflow));
            const auto platform = platforms::load(config.path());
            const auto array = timing::array_for(platform.engine(0).array(), ElemType::i8, ElemType::i8);
            auto together = simulate(layers, config.path());
            for (size_t i = 0; i < layers.size(); ++i) {
                SCOPED_TRACE(fmt::format("{} {} {}", dataflow, side, layers[i].name));
                const Cycles tools =
                    timing::systolic_time(array, {layers[i].m, layers[i].n, layers[i].k}).total();
                EXPECT_EQ(together.op_rows()[i].charged_cycles, tools);
                EXPECT_EQ(simulate({layers[i]}, config.path()).op_rows()[0].charged_cycles, tools);
            }
        }
    }
}

std::vector<Layer> random_layers(size_t count) {
    std::mt19937_64 random(11);
    const auto size = [&] { return uint64_t{1} + random() % (uint64_t{1} << (1 + random() % 10)); };
    std::vector<Layer> layers;
    for (size_t i = 0; i < count; ++i)
        layers.push_back({"l" + std::to_string(i), false, size(), size(), size()});
    return layers;
}

// 1,000 random layers on every dataflow and six arrays, simulated in physical timing: what the array is busy
// for is its formula's time, layer by layer, and never less than MACs / peak; utilization is spatial x
// temporal, with the stated denominators.
TEST(ScaleSim, RandomLayersAreBusyForTheFormulasTime) {
    const auto layers = random_layers(1000);
    uint64_t macs = 0;
    for (const Layer& layer : layers) macs += layer.m * layer.n * layer.k;
    for (const char* dataflow : {"os", "ws", "is"}) {
        for (const auto& [rows, cols] :
             {std::pair{4, 4}, {8, 8}, {16, 32}, {32, 32}, {64, 128}, {128, 128}}) {
            SCOPED_TRACE(fmt::format("{} {}x{}", dataflow, rows, cols));
            const TemporaryFile config("random.cfg",
                                       config_text(std::to_string(rows), std::to_string(cols), dataflow));
            const platforms::Overrides physical{{"engine.array.timing", "physical"}};
            const auto array = timing::array_for(platforms::load(config.path(), physical).engine(0).array(),
                                                 ElemType::i8, ElemType::i8);
            auto simulation = simulate(layers, config.path(), physical);
            const auto& ops = simulation.op_rows();
            for (size_t i = 0; i < layers.size(); ++i) {
                const Layer& layer = layers[i];
                const auto time = timing::systolic_time(array, {layer.m, layer.n, layer.k});
                const Cycles useful = cycles_of(ops[i], traces::Cause::busy_useful),
                             padding = cycles_of(ops[i], traces::Cause::busy_padding),
                             fill_drain = cycles_of(ops[i], traces::Cause::busy_fill_drain);
                ASSERT_EQ(useful + padding + fill_drain, time.total()) << layer.name;
                ASSERT_EQ(useful + padding, time.steady) << layer.name;
                ASSERT_GE(ops[i].charged_cycles * array.rows * array.cols, layer.m * layer.n * layer.k);
            }
            const traces::StatSet& stats = simulation.stats();
            const auto busy = [&](const char* cause) {
                return double(stats.integer(std::string("units.e0_nmu0.busy.") + cause));
            };
            const auto cycles = double(stats.integer("cycles.total"));
            const double spatial = stats.real("utilization.array.spatial"),
                         temporal = stats.real("utilization.array.temporal"),
                         total = stats.real("utilization.array.total");
            EXPECT_DOUBLE_EQ(spatial, busy("useful") / (busy("useful") + busy("padding")));
            EXPECT_DOUBLE_EQ(temporal, (busy("useful") + busy("padding")) / cycles);
            EXPECT_DOUBLE_EQ(total, spatial * temporal);
            // useful cycles are MACs / peak, to the last remainder
            EXPECT_NEAR(total * cycles, double(macs) / double(rows * cols), 1);
            EXPECT_NEAR(stats.real("utilization.compute"), total, 1 / cycles);
        }
    }
}

// The example is ResNet-18: its published number of MACs, and the sizes of its layers' outputs.
TEST(ScaleSim, TheExampleIsResNet18) {
    const auto layers = parse(read_file(std::string(KPUSIM_SOURCE_DIR) + "/examples/resnet18/resnet18.csv"));
    ASSERT_EQ(layers.size(), 21u);  // 17 convolutions, 3 shortcuts and the classifier
    uint64_t macs = 0;
    for (const Layer& layer : layers) {
        const auto side = static_cast<uint64_t>(std::lround(std::sqrt(double(layer.m))));
        EXPECT_EQ(side * side, layer.m) << layer.name;
        if (layer.n < 1000) {
            EXPECT_EQ(side, layer.name == "Conv1" ? 112u : 56u * 64 / layer.n) << layer.name;
        }
        macs += layer.m * layer.n * layer.k;
    }
    EXPECT_EQ(macs, 1814073344u);
}

}  // namespace
}  // namespace kpu::compiler
