// Sweeps of layers over devices, one CSV row for each; sweep.py runs it and makes tables.
//
// usage: sweep gemms|cliffs|more|mappings PLATFORM TYPE COUNT PART PARTS [EFFORT]
#include <fmt/format.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/diagnostics.hpp"
#include "tests/mapping_sweeps/layers.hpp"

namespace kpu::sweeps {
namespace {

struct Part {
    size_t number, of;
    int effort;
    bool has(size_t i) const { return i % of == number; }
};

void gemms(const std::string& name, ElemType elem, size_t count, Part part) {
    const platforms::Platform platform = platforms::load(name);
    const std::vector<Layer> layers = random_products(count, 12);
    for (size_t i = 0; i < layers.size(); ++i) {
        if (!part.has(i)) continue;
        const Layer& layer = layers[i];
        const Bounds bounds = bounds_of(layer, elem, platform);
        const Times times = times_of(graph_of({layer}, elem), platform, part.effort);
        fmt::print("{},{},{},{:.0f},{:.0f},{:.0f},{:.0f},{:.0f},{:.0f}\n", layer.m, layer.n, layer.k,
                   bounds.macs, bounds.padded, bounds.dram, bounds.ends, times.predicted, times.simulated);
        std::fflush(stdout);
    }
}

/// One channel more, along each dimension of a product and of convolutions.
void cliffs(const std::string& name, ElemType elem, Part part) {
    const platforms::Platform platform = platforms::load(name);
    size_t number = 0;
    for (const int64_t c : {15, 16, 31, 32, 48, 63, 64, 65, 96, 127, 128, 129, 200, 255, 256, 511, 512}) {
        for (int kind = 0; kind < channel_kinds; ++kind) {
            if (!part.has(number++)) continue;
            double cycles[2], padded[2];
            for (int more = 0; more < 2; ++more) {
                const Layer layer = layer_with(kind, c + more);
                padded[more] = bounds_of(layer, elem, platform).padded;
                cycles[more] = times_of(graph_of({layer}, elem), platform, part.effort).simulated;
            }
            fmt::print("{},{},{:.0f},{:.0f},{:.4f},{:.4f}\n", layer_with(kind, c).name(),
                       layer_with(kind, c + 1).name(), cycles[0], cycles[1], cycles[1] / cycles[0],
                       std::max(1.0, padded[1] / padded[0]));
            std::fflush(stdout);
        }
    }
}

/// Layers and chains of them, with twice as much of one resource.
void more(const std::string& name, ElemType elem, size_t count, Part part) {
    const platforms::Platform platform = platforms::load(name);
    std::vector<std::vector<Layer>> networks = small_networks();
    for (const Layer& layer : random_layers(count)) networks.push_back({layer});
    for (size_t i = 0; i < networks.size(); ++i) {
        if (!part.has(i)) continue;
        const graph::Graph graph = graph_of(networks[i], elem);
        const double before = times_of(graph, platform, part.effort).simulated;
        for (const auto& [what, overrides] : twice(platform)) {
            const double after = times_of(graph, platforms::load(name, overrides), part.effort).simulated;
            fmt::print("{}{},{},{:.0f},{:.0f},{:.4f}\n", networks[i][0].name(),
                       networks[i].size() > 1 ? " ..." : "", what, before, after, after / before);
            std::fflush(stdout);
        }
    }
}

void mappings(const std::string& name, ElemType elem, size_t count, Part part) {
    const platforms::Platform platform = platforms::load(name);
    const std::vector<Layer> layers = tiny_layers(count);
    for (size_t i = 0; i < layers.size(); ++i) {
        if (!part.has(i)) continue;
        const Mappings of = simulate_mappings(layers[i], elem, platform);
        fmt::print("{},{},{:.0f},{:.0f},{:.4f},{}\n", layers[i].name(), of.legal, of.chosen, of.best,
                   of.chosen / of.best, of.best_tiles);
        std::fflush(stdout);
    }
}

int run(const std::vector<std::string>& args) {
    const auto number = [&](size_t i) { return static_cast<size_t>(std::stoul(args.at(i))); };
    const std::string& what = args.at(0);
    const std::string& platform = args.at(1);
    const ElemType elem = parse_elem_type(args.at(2)).value();
    const size_t count = number(3);
    const Part part{number(4), number(5), args.size() > 6 ? std::stoi(args[6]) : 2};
    if (what == "gemms") return gemms(platform, elem, count, part), 0;
    if (what == "cliffs") return cliffs(platform, elem, part), 0;
    if (what == "more") return more(platform, elem, count, part), 0;
    if (what == "mappings") return mappings(platform, elem, count, part), 0;
    throw std::invalid_argument("there is no sweep " + what);
}

}  // namespace
}  // namespace kpu::sweeps

int main(int count, char** words) {
    try {
        return kpu::sweeps::run({words + 1, words + count});
    } catch (const std::exception& error) {
        fmt::print(stderr, "sweep: {}\n", error.what());
        return 1;
    }
}
