#pragma once
// The cheapest mix of precisions that keeps a network's error below a bound.
#include <functional>

#include "compiler/precision/layers.hpp"
#include "compiler/precision/yardstick.hpp"

namespace kpu::precision {

/// Input of the search: the float graph, and ways to make narrow ones of it. Nodes that are marked
/// (Node::kept) stay in their type.
struct Question {
    const graph::Graph* exact = nullptr;
    ElemType precision = ElemType::none;
    /// The graph that the device would get.
    std::function<graph::Graph(const graph::Graph& marked)> compiled;
    /// The same on a machine that has every type in f32 too: it tells layers apart.
    std::function<graph::Graph(const graph::Graph& marked)> alone;
    bool corrects_means = false;  ///< `compiled` corrects biases, `alone` does not
    double bound_db = 0;      ///< signal to noise of the outputs; infinite: the best that the share allows
    double wide_share = 0.1;  ///< share of the multiply-accumulates, and of the layers without any
};

struct Mix {
    std::vector<Layer> layers;
    std::vector<double> noise;  ///< for each layer: what it alone adds to the outputs in the narrow type
    std::vector<double>
        /// For each layer: the same in its wider type; where it has none, in the narrow one.
        wide_noise;
    std::vector<bool> wide;   ///< for each layer: chosen
    double narrow_noise = 0;  ///< noise of the whole network, before
    double mixed_noise = 0;   ///< and with the choice
    bool met = false;
};

/// Measures what each layer adds, on two samples; then widens those that add most for their cycles, as few as the bound
/// allows, each choice measured on eight samples. Takes about twice as many executions as there are layers, and eight
/// for each of some log2(layers) choices. The same on every machine.
Mix find_mix(const Question& question, const compiler::Target& target, const quantize::Samples& samples);
/// Measures only the errors of layers and of the whole: nothing is chosen.
Mix measure(const Question& question, const compiler::Target& target, const quantize::Samples& samples);

/// Marks the chosen layers.
void mark(graph::Graph& graph, const Mix& mix);
/// Returns the layer that adds most to what is left.
const Layer& worst(const Mix& mix);

}  // namespace kpu::precision
