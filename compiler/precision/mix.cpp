#include "compiler/precision/mix.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "compiler/graph/supports.hpp"

namespace kpu::precision {
namespace {

constexpr size_t layer_samples = 2, whole_samples = 8;
constexpr size_t most_tries = 24;  ///< limit of layers tried one by one

class Search {
  public:
    Search(const Question& question, const compiler::Target& target, const quantize::Samples& samples)
        : question_(question), yardstick_(*question.exact, samples, whole_samples) {
        mix_.layers = layers_of(*question.exact, question.precision, target);
    }

    Mix measured() {
        const size_t count = mix_.layers.size();
        mix_.wide.assign(count, false);
        mix_.noise.assign(count, 0);
        mix_.wide_noise.assign(count, 0);
        for (size_t i = 0; i < count; ++i) {
            mix_.noise[i] = noise_alone(i, ElemType::none);
            const ElemType wide = mix_.layers[i].wide;
            const bool exact = wide == ElemType::f32 && !mix_.layers[i].sums_only;
            mix_.wide_noise[i] = wide == ElemType::none ? mix_.noise[i] : exact ? 0 : noise_alone(i, wide);
        }
        mix_.narrow_noise = mix_.mixed_noise = noise_of({});
        return mix_;
    }

    Mix run() {
        measured();
        mix_.met = decibel(mix_.narrow_noise) >= question_.bound_db;
        if (mix_.met) return mix_;
        const std::vector<size_t> allowed = candidates();
        std::vector<size_t> chosen = allowed;
        double reached = noise_of(allowed);
        mix_.met = decibel(reached) >= question_.bound_db;
        if (!mix_.met) {
            const auto [helpful, left] = helpful_of(allowed);
            if (left < reached) {
                chosen = helpful;
                reached = left;
            }
            mix_.met = decibel(reached) >= question_.bound_db;
        }
        size_t below = 0, enough = chosen.size();
        const std::vector<size_t> order = chosen;
        while (mix_.met && enough - below > 1) {
            const size_t middle = below + (enough - below) / 2;
            const std::vector<size_t> fewer(order.begin(), order.begin() + std::ptrdiff_t(middle));
            const double noise = noise_of(fewer);
            if (decibel(noise) >= question_.bound_db) {
                enough = middle;
                chosen = fewer;
                reached = noise;
            } else {
                below = middle;
            }
        }
        for (const size_t i : chosen) mix_.wide[i] = true;
        mix_.mixed_noise = reached;
        return mix_;
    }

  private:
    /// Returns, of layers tried one after the other, those that take noise from what is left, and what then
    /// is left. Some add noise: a wider product no longer takes back the mean shift of what it reads.
    std::pair<std::vector<size_t>, double> helpful_of(const std::vector<size_t>& layers) const {
        std::vector<size_t> helpful;
        double left = mix_.narrow_noise;
        for (size_t i = 0; i < std::min(layers.size(), most_tries); ++i) {
            helpful.push_back(layers[i]);
            const double noise = noise_of(helpful);
            if (noise < left) {
                left = noise;
            } else {
                helpful.pop_back();
            }
        }
        return {std::move(helpful), left};
    }

    /// Returns the noise with all layers but one in f32; that one in `type`, none: as the network is
    /// compiled.
    double noise_alone(size_t layer, ElemType type) const {
        graph::Graph marked = *question_.exact;
        for (graph::Node& node : marked.nodes) node.kept = ElemType::f32;
        for (const graph::NodeId n : mix_.layers[layer].nodes) {
            graph::Node& node = marked.nodes[n];
            // a product that is widened by its sums alone still has narrow factors
            const bool narrow_factors = type == ElemType::f32 && graph::is_product(node.spec());
            node.kept = narrow_factors ? ElemType::none : type;
        }
        return yardstick_.noise(question_.alone(marked), layer_samples, question_.corrects_means);
    }

    double noise_of(const std::vector<size_t>& wide) const {
        graph::Graph marked = *question_.exact;
        Mix choice;
        choice.layers = mix_.layers;
        choice.wide.assign(mix_.layers.size(), false);
        for (const size_t i : wide) choice.wide[i] = true;
        mark(marked, choice);
        return yardstick_.noise(question_.compiled(marked));
    }

    /// Returns the layers that may become wider, those first that take most error away for their cycles,
    /// within the share.
    std::vector<size_t> candidates() const {
        std::vector<size_t> order(mix_.layers.size());
        std::iota(order.begin(), order.end(), size_t{0});
        const auto worth = [this](size_t i) {
            const Layer& layer = mix_.layers[i];
            const double gain = mix_.noise[i] - mix_.wide_noise[i];
            return gain / std::max(layer.wide_cycles - layer.narrow_cycles, 1.0);
        };
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return worth(a) > worth(b); });
        double macs = 0;
        size_t light = 0;
        for (const Layer& layer : mix_.layers) {
            macs += double(layer.macs);
            light += layer.macs == 0 ? 1 : 0;
        }
        double macs_left = macs * question_.wide_share;
        auto light_left = static_cast<size_t>(std::ceil(double(light) * question_.wide_share));
        std::vector<size_t> chosen;
        for (const size_t i : order) {
            const Layer& layer = mix_.layers[i];
            if (layer.kept || layer.wide == ElemType::none || !(worth(i) > 0)) continue;
            if (double(layer.macs) > macs_left || (layer.macs == 0 && light_left == 0)) continue;
            macs_left -= double(layer.macs);
            light_left -= layer.macs == 0 ? 1 : 0;
            chosen.push_back(i);
        }
        return chosen;
    }

    const Question& question_;
    Yardstick yardstick_;
    Mix mix_;
};

}  // namespace

Mix find_mix(const Question& question, const compiler::Target& target, const quantize::Samples& samples) {
    return Search(question, target, samples).run();
}

Mix measure(const Question& question, const compiler::Target& target, const quantize::Samples& samples) {
    return Search(question, target, samples).measured();
}

void mark(graph::Graph& graph, const Mix& mix) {
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        if (!mix.wide[i]) continue;
        for (const graph::NodeId n : mix.layers[i].nodes) graph.nodes[n].kept = mix.layers[i].wide;
    }
}

const Layer& worst(const Mix& mix) {
    size_t found = 0;
    double most = -1;
    for (size_t i = 0; i < mix.layers.size(); ++i) {
        const double left = mix.wide[i] ? mix.wide_noise[i] : mix.noise[i];
        if (left <= most) continue;
        most = left;
        found = i;
    }
    return mix.layers.at(found);
}

}  // namespace kpu::precision
