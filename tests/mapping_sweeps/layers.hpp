#pragma once
// Single layers for sweeps: made, lowered, simulated without values, and what bounds them.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/emit/emit.hpp"
#include "platforms/platform.hpp"

namespace kpu::sweeps {

/// A product M x K by K x N of an input and constant weights, or a convolution of one image by them. Input, weights and
/// result have one type.
struct Layer {
    enum class Kind : uint8_t { product, convolution };
    Kind kind = Kind::product;
    int64_t m = 1, n = 1, k = 1;               ///< product; convolution: n channels of k
    int64_t side = 1, kernel = 1, stride = 1;  ///< convolution
    bool depthwise = false;                    ///< convolution: n is k
    static Layer product(int64_t m, int64_t n, int64_t k);
    static Layer convolution(int64_t side, int64_t k, int64_t n, int64_t kernel, int64_t stride = 1);
    static Layer depthwise_convolution(int64_t side, int64_t channels, int64_t kernel);
    int64_t out_side() const { return (side - 1) / stride + 1; }
    std::string name() const;
};

/// Builds the graph of `layers`, one after the other, each shape fitting to the next.
graph::Graph graph_of(const std::vector<Layer>& layers, ElemType elem);

struct Bounds {
    double macs = 0;  ///< cycles: multiply-accumulates over the peak of all arrays
    double padded =
        0;  ///< cycles: the same of whole arrays, whose next results wait until the last ones have drained
    double dram = 0;  ///< cycles: input, weights and result once, over the peak of the pins, without refresh
    /// Cycles: the operands of one array's results come from DDR to L2 and from there to L1, the array is filled and drained,
    /// the results go back; each hop at its peak, with a descriptor and DDR's latency.
    double ends = 0;
};
Bounds bounds_of(const Layer& layer, ElemType elem, const platforms::Platform& platform);

// ---- layers of fixed seeds

/// Sides from 64 to 2^most, their logarithms evenly distributed.
std::vector<Layer> random_products(size_t count, double most);
/// Returns the products and convolutions of all kinds.
std::vector<Layer> random_layers(size_t count);
/// Chains of layers.
std::vector<std::vector<Layer>> small_networks();
/// With so few sizes of tiles that all their mappings can be simulated.
std::vector<Layer> tiny_layers(size_t count);

/// Kinds of layers that one channel more is tried on: sides of products, channels of convolutions.
constexpr int channel_kinds = 7;
Layer layer_with(int kind, int64_t channels);
/// Devices with twice of one resource: its name, and what to override.
std::vector<std::pair<std::string, platforms::Overrides>> twice(const platforms::Platform& platform);

/// Returns the simulated cycles; a run that takes `most` ends there.
double cycles_of(const std::shared_ptr<const Module>& module, const platforms::Platform& platform,
                 Cycles most = UINT64_MAX);
struct Times {
    double predicted = 0;  ///< cycles by the closed forms that rank mappings
    double simulated = 0;
};
Times times_of(const graph::Graph& graph, const platforms::Platform& platform, int effort = 2);

/// Every legal mapping of one layer: all sizes of tiles along all axes, 1 to 4 iterations in flight.
struct Mappings {
    size_t legal = 0;
    double chosen = 0;  ///< simulated cycles of what the compiler chooses
    double best = 0;    ///< cycles of the fastest
    std::string best_tiles;
};
Mappings simulate_mappings(const Layer& layer, ElemType elem, const platforms::Platform& platform);

}  // namespace kpu::sweeps
