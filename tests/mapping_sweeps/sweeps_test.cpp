// A part of each sweep of docs/mapping_sweeps.md; sweep.py has all.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/mapping_sweeps/layers.hpp"

namespace kpu::sweeps {
namespace {

double cycles(const std::vector<Layer>& layers, ElemType elem, const platforms::Platform& platform,
              int effort = 2) {
    return times_of(graph_of(layers, elem), platform, effort).simulated;
}

TEST(Sweeps, RandomProductsAreNearTheirBound) {
    const platforms::Platform platform = platforms::load("swkpu-v1");
    for (const ElemType elem : {ElemType::i8, ElemType::f16}) {
        size_t near = 0, near_padded = 0;
        const std::vector<Layer> layers = random_products(40, 10);
        for (const Layer& layer : layers) {
            const Bounds bounds = bounds_of(layer, elem, platform);
            const double simulated = cycles({layer}, elem, platform);
            near += simulated <= 1.15 * (std::max(bounds.macs, bounds.dram) + bounds.ends) ? 1 : 0;
            near_padded += simulated <= 1.15 * (std::max(bounds.padded, bounds.dram) + bounds.ends) ? 1 : 0;
            EXPECT_GE(simulated, std::max(bounds.macs, bounds.dram)) << layer.name();
        }
        EXPECT_GE(near, layers.size() * 85 / 100);
        EXPECT_EQ(near_padded, layers.size());
    }
}

/// Rows of results that are no whole bursts come in no more pieces than they must.
TEST(Sweeps, OddColumnsCostLittleMoreThanEvenOnes) {
    const auto simulated = [](int64_t m, int64_t n, int64_t k, ElemType elem, const char* device) {
        return cycles({Layer::product(m, n, k)}, elem, platforms::load(device));
    };
    EXPECT_LE(simulated(126, 1201, 74, ElemType::i8, "tile32"),
              1.18 * simulated(126, 1216, 74, ElemType::i8, "tile32"));
    EXPECT_LE(simulated(287, 2315, 83, ElemType::bf16, "core128-hbm2"),
              1.35 * simulated(287, 2304, 83, ElemType::bf16, "core128-hbm2"));
}

TEST(Sweeps, OneChannelMoreCostsNoMoreThanPadding) {
    const platforms::Platform platform = platforms::load("swkpu-v1");
    for (const int64_t c : {16, 64, 127, 128}) {
        for (int kind = 0; kind < channel_kinds; ++kind) {
            const Layer before = layer_with(kind, c), after = layer_with(kind, c + 1);
            const double padding = bounds_of(after, ElemType::i8, platform).padded /
                                   bounds_of(before, ElemType::i8, platform).padded;
            EXPECT_LE(cycles({after}, ElemType::i8, platform),
                      1.1 * std::max(1.0, padding) * cycles({before}, ElemType::i8, platform))
                << before.name();
        }
    }
}

TEST(Sweeps, TwiceOfAResourceIsNotSlower) {
    const platforms::Platform platform = platforms::load("swkpu-v1");
    std::vector<std::vector<Layer>> networks = small_networks();
    for (const Layer& layer : random_layers(12)) networks.push_back({layer});
    for (const std::vector<Layer>& network : networks) {
        const double before = cycles(network, ElemType::i8, platform);
        for (const auto& [what, overrides] : twice(platform)) {
            EXPECT_LE(cycles(network, ElemType::i8, platforms::load("swkpu-v1", overrides)), 1.02 * before)
                << network[0].name() << ", twice the " << what;
        }
    }
}

/// Schedules of their tasks see other winners: of these the simulation decides.
TEST(Sweeps, SmallLayersAreNotSlowerWithTwoEngines) {
    for (const Layer& layer : {Layer::convolution(43, 289, 48, 1), Layer::product(10, 326, 100),
                               Layer::convolution(40, 219, 36, 1), Layer::convolution(51, 308, 9, 1)}) {
        const double one = cycles({layer}, ElemType::f16, platforms::load("tile32"));
        const double two = cycles({layer}, ElemType::f16, platforms::load("tile32", {{"engine.count", "2"}}));
        EXPECT_LE(two, 1.02 * one) << layer.name();
    }
}

TEST(Sweeps, TheChoiceIsNearTheFastestOfAllMappings) {
    for (const Layer& layer : tiny_layers(4)) {
        const Mappings of = simulate_mappings(layer, ElemType::i8, platforms::load("swkpu-v1"));
        EXPECT_GT(of.legal, 50u) << layer.name();
        EXPECT_LE(of.chosen, 1.1 * of.best) << layer.name() << ": " << of.best_tiles;
    }
}

TEST(Sweeps, MoreEffortIsNotSlower) {
    std::vector<std::vector<Layer>> networks = small_networks();
    for (const Layer& layer : random_layers(4)) networks.push_back({layer});
    double sum[2] = {0, 0};
    for (const std::vector<Layer>& network : networks) {
        for (const auto& [name, elem] :
             {std::pair("swkpu-v1", ElemType::i8), std::pair("tile32", ElemType::f16)}) {
            const platforms::Platform platform = platforms::load(name);
            const double scheduled = cycles(network, elem, platform),
                         simulated = cycles(network, elem, platform, 3);
            EXPECT_LE(simulated, scheduled) << network[0].name() << " on " << name;
            EXPECT_EQ(simulated, cycles(network, elem, platform, 3)) << "deterministic";
            sum[0] += scheduled, sum[1] += simulated;
        }
    }
    EXPECT_LT(sum[1], sum[0]) << "some layer gains";
}

}  // namespace
}  // namespace kpu::sweeps
