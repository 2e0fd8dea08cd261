// Layers of fixed seeds. The standard's distributions differ between libraries, so none is used.
#include <cmath>
#include <random>

#include "tests/mapping_sweeps/layers.hpp"

namespace kpu::sweeps {
namespace {

class Numbers {
  public:
    explicit Numbers(uint32_t seed) : random_(seed) {}
    int64_t between(int64_t least, int64_t most) {
        return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
    }
    /// 2^least to 2^most, the logarithm evenly distributed.
    int64_t log_between(double least, double most) {
        return static_cast<int64_t>(std::exp2(least + (most - least) * double(random_()) / 4294967296.0));
    }

  private:
    std::mt19937 random_;
};

}  // namespace

std::vector<Layer> random_products(size_t count, double most) {
    Numbers numbers(7);
    std::vector<Layer> result;
    for (size_t i = 0; i < count; ++i) {
        const int64_t m = numbers.log_between(6, most), n = numbers.log_between(6, most),
                      k = numbers.log_between(6, most);
        result.push_back(Layer::product(m, n, k));
    }
    return result;
}

std::vector<Layer> random_layers(size_t count) {
    Numbers numbers(11);
    std::vector<Layer> result;
    for (size_t i = 0; i < count; ++i) {
        const int64_t k = numbers.log_between(3, 9.5), n = numbers.log_between(3, 9.5);
        const int64_t side = numbers.between(6, 72);
        if (i % 4 == 0) result.push_back(Layer::product(numbers.log_between(3, 10), n, k));
        if (i % 4 == 1) result.push_back(Layer::convolution(side, k, n, 3, numbers.between(1, 2)));
        if (i % 4 == 2) result.push_back(Layer::convolution(side, k, n, 1));
        if (i % 4 == 3) result.push_back(Layer::depthwise_convolution(side, n, 3));
    }
    return result;
}

std::vector<std::vector<Layer>> small_networks() {
    return {{Layer::convolution(56, 16, 64, 3), Layer::convolution(56, 64, 64, 3),
             Layer::convolution(56, 64, 128, 3, 2), Layer::convolution(28, 128, 256, 1)},
            {Layer::convolution(56, 24, 144, 1), Layer::depthwise_convolution(56, 144, 3),
             Layer::convolution(56, 144, 32, 1), Layer::convolution(56, 32, 192, 1)},
            {Layer::product(197, 768, 192), Layer::product(197, 192, 768), Layer::product(197, 1000, 192)}};
}

std::vector<Layer> tiny_layers(size_t count) {
    constexpr int64_t most_tiles = 300;
    Numbers numbers(13);
    std::vector<Layer> result;
    while (result.size() < count) {
        const int64_t kind = numbers.between(0, 3), n = numbers.log_between(1, 6),
                      k = numbers.log_between(1, 6);
        const int64_t m = numbers.log_between(1, 6), side = numbers.between(3, 12);
        const int64_t sizes = kind == 0 ? m * n * k : side * side * n * (kind == 1 ? 1 : k);
        if (sizes > most_tiles || sizes < most_tiles / 8) continue;
        if (kind == 0) result.push_back(Layer::product(m, n, k));
        if (kind == 1) result.push_back(Layer::depthwise_convolution(side, n, 3));
        if (kind == 2) result.push_back(Layer::convolution(side, k, n, 1));
        if (kind == 3) result.push_back(Layer::convolution(side, k, n, 3));
    }
    return result;
}

Layer layer_with(int kind, int64_t channels) {
    if (kind == 0) return Layer::product(channels, 256, 256);
    if (kind == 1) return Layer::product(256, channels, 256);
    if (kind == 2) return Layer::product(256, 256, channels);
    if (kind == 3) return Layer::convolution(28, channels, 96, 3);
    if (kind == 4) return Layer::convolution(28, 96, channels, 3);
    if (kind == 5) return Layer::convolution(28, channels, channels, 1);
    return Layer::depthwise_convolution(28, channels, 3);
}

std::vector<std::pair<std::string, platforms::Overrides>> twice(const platforms::Platform& platform) {
    const std::string l2 = std::to_string(2 * platform.l2().size_bytes());
    const std::string channels = std::to_string(2 * platform.ddr().channels());
    return {{"L2", {{"l2.size_bytes", l2}}},
            {"DRAM", {{"ddr.channels", channels}}},
            {"engines", {{"engine.count", "2"}}}};
}

}  // namespace kpu::sweeps
