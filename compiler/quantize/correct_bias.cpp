#include "compiler/quantize/correct_bias.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "compiler/graph/data.hpp"
#include "compiler/graph/execute.hpp"
#include "compiler/quantize/plan.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Data;
using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;

constexpr size_t most_samples = 16;  // all their values live at once
constexpr double most_steps = 0x1p30;

using Means = std::vector<double>;  ///< indexed by channel, the last dimension

/// Returns the mean of each channel of numbers in C order.
template <class Number>
Means channel_means(const Number* numbers, uint64_t count, size_t channels) {
    Means means(channels, 0);
    for (uint64_t i = 0; i < count; i += channels) {
        for (size_t c = 0; c < channels; ++c) means[c] += static_cast<double>(numbers[i + c]);
    }
    for (double& mean : means) mean *= static_cast<double>(channels) / static_cast<double>(count);
    return means;
}

/// Returns the part of a mean of samples that is no chance: nothing of one that is below its own standard
/// error.
double agreed(const std::vector<double>& shifts) {
    const auto count = static_cast<double>(shifts.size());
    double mean = 0, scatter = 0;
    for (const double shift : shifts) mean += shift / count;
    for (const double shift : shifts) scatter += (shift - mean) * (shift - mean);
    const double error = count > 1 ? scatter / (count - 1) / count : HUGE_VAL;  // of the mean, squared
    return mean == 0 ? 0 : mean * std::max(0.0, 1 - error / (mean * mean));
}

class Correction {
  public:
    Correction(Graph& steps, const Graph& exact, const Samples& samples)
        : steps_(steps), exact_(exact), samples_(samples), frames_(std::min(samples.count(), most_samples)) {
        for (size_t n = 0; n < steps.nodes.size(); ++n) {
            const Node& node = steps.nodes[n];
            if (is_correctable(node)) products_.emplace(steps.value(node.outputs[0]).name, n);
        }
    }

    void run() {
        if (products_.empty()) return;
        measure_exact();
        find_last_uses();
        for (size_t n = 0; n < steps_.nodes.size(); ++n) {
            const std::string& name = steps_.value(steps_.nodes[n].outputs[0]).name;
            const auto wanted = wanted_.find(name);
            if (wanted != wanted_.end() && products_.at(name) == n) correct(steps_.nodes[n], wanted->second);
            for (std::vector<Data>& frame : frames_) execute(n, frame);
        }
    }

  private:
    /// True for an int8 product with a bias of its own, whose sums can be had before they are rounded.
    bool is_correctable(const Node& node) const {
        if (node.inputs.size() != 3 || graph::sums_opcode(node.spec()).empty()) return false;
        const Value &x = steps_.value(node.inputs[0]), &bias = steps_.value(node.inputs[2]);
        return x.elem == ElemType::i8 && bias.elem == ElemType::i32 && bias.constant() && bias.quant &&
               bias.quant.scales.size() == bias.elements();
    }

    /// Runs the float graph and starts the samples in steps.
    void measure_exact() {
        graph::GraphExecutor executor(exact_, *engine_);
        for (size_t s = 0; s < frames_.size(); ++s) {
            const std::vector<Data> arrays = samples_.load(s);
            std::vector<Data> inputs;
            for (size_t k = 0; k < arrays.size(); ++k)
                inputs.push_back(graph::from_host(exact_, exact_.inputs[k], arrays[k]));
            executor.run(inputs, [this](ValueId id, const values::Tensor& tensor) {
                const auto product = products_.find(exact_.value(id).name);
                if (product == products_.end() || tensor.type != ElemType::f32) return;
                const Node& node = steps_.nodes[product->second];
                const auto channels = static_cast<size_t>(steps_.value(node.inputs[2]).elements());
                if (tensor.elements() % channels != 0) return;
                wanted_[product->first].push_back(
                    channel_means(reinterpret_cast<const float*>(tensor.data), tensor.elements(), channels));
            });
            frames_[s].resize(steps_.values.size());
            for (size_t k = 0; k < arrays.size(); ++k)
                frames_[s][steps_.inputs[k].value] = graph::from_host(steps_, steps_.inputs[k], arrays[k]);
        }
    }

    std::vector<Data> operands(const Node& node, const std::vector<Data>& frame) const {
        std::vector<Data> list;
        for (const ValueId id : node.inputs)
            list.push_back(steps_.value(id).constant() ? steps_.value(id).data : frame[id]);
        return list;
    }

    void correct(const Node& node, const std::vector<Means>& wanted) {
        Value& bias = steps_.value(node.inputs[2]);
        const std::vector<double> scales = bias.quant.scales;
        std::vector<std::vector<double>> shifts(scales.size());
        for (size_t s = 0; s < frames_.size(); ++s) {
            const Means got = sums(node, frames_[s], scales);
            for (size_t c = 0; c < scales.size(); ++c) shifts[c].push_back(wanted[s][c] - got[c]);
        }
        const graph::NewData changed = graph::new_data(bias.data.size);
        for (size_t c = 0; c < scales.size(); ++c) {
            const auto old =
                static_cast<double>(values::load<int32_t>(bias.data.bytes, static_cast<int64_t>(c)));
            const double steps =
                std::clamp(old + std::round(agreed(shifts[c]) / scales[c]), -most_steps, most_steps);
            values::store(changed.bytes, static_cast<int64_t>(c), static_cast<int32_t>(steps));
        }
        bias.data = changed.data;
    }

    /// Means of the real numbers that the accumulators of a product stand for.
    Means sums(const Node& node, const std::vector<Data>& frame, const std::vector<double>& scales) {
        Graph one;
        Node twin = node;
        twin.opcode = find_opcode(graph::sums_opcode(node.spec())).value();
        twin.inputs.clear();
        for (const ValueId id : node.inputs) {
            one.values.push_back(steps_.value(id));
            twin.inputs.push_back(static_cast<ValueId>(one.values.size() - 1));
        }
        one.values.push_back(steps_.value(node.outputs[0]));
        one.values.back().elem = ElemType::i32;
        one.values.back().quant = {};
        twin.outputs = {static_cast<ValueId>(one.values.size() - 1)};
        const Data made = graph::execute_node(one, twin, operands(node, frame), *engine_)[0];
        Means means = channel_means(reinterpret_cast<const int32_t*>(made.bytes), made.size / sizeof(int32_t),
                                    scales.size());
        for (size_t c = 0; c < means.size(); ++c) means[c] *= scales[c];
        return means;
    }

    void find_last_uses() {
        last_use_.assign(steps_.values.size(), 0);
        for (size_t n = 0; n < steps_.nodes.size(); ++n) {
            for (const ValueId id : steps_.nodes[n].inputs) last_use_[id] = n;
        }
    }

    void execute(size_t n, std::vector<Data>& frame) {
        const Node& node = steps_.nodes[n];
        std::vector<Data> made = graph::execute_node(steps_, node, operands(node, frame), *engine_);
        for (size_t o = 0; o < made.size(); ++o) frame[node.outputs[o]] = std::move(made[o]);
        for (const ValueId id : node.inputs) {
            if (last_use_[id] == n) frame[id] = {};
        }
    }

    Graph& steps_;
    const Graph& exact_;
    const Samples& samples_;
    std::unique_ptr<values::ComputeBackend> engine_ = values::make_fast_backend();
    std::map<std::string, size_t, std::less<>> products_;            ///< nodes by the name of their result
    std::map<std::string, std::vector<Means>, std::less<>> wanted_;  ///< indexed by result and sample
    std::vector<std::vector<Data>> frames_;                          ///< indexed by sample and value
    std::vector<size_t> last_use_;
};

}  // namespace

void correct_biases(Graph& steps, const Graph& exact, const Samples& samples) {
    Correction(steps, exact, samples).run();
}

}  // namespace kpu::quantize
