#include "compiler/quantize/equalise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "compiler/graph/data.hpp"
#include "compiler/quantize/channel_classes.hpp"
#include "compiler/quantize/observe.hpp"
#include "values/scalar.hpp"

namespace kpu::quantize {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

using Factors = std::vector<double>;  ///< indexed by channel

constexpr double least_factor = 0x1p-6;  // later weights stay normal numbers of f16
constexpr double room = 2;               // other inputs may exceed what the samples show of a single channel

// ---- what channels hold

/// The numbers of a value's channels; 0 is always among them.
struct Seen {
    std::vector<float> lows, highs;
    std::vector<double> squares;  ///< sums
    double count = 0;             ///< number of a channel's numbers

    void add(const float* numbers, uint64_t elements, size_t channels) {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        resize(channels);
        for (uint64_t i = 0; i < elements; i += channels) {
            for (size_t c = 0; c < channels; ++c) {
                const float number = std::fabs(numbers[i + c]) < infinity ? numbers[i + c] : 0;
                lows[c] = std::min(lows[c], number);
                highs[c] = std::max(highs[c], number);
                squares[c] += double(number) * double(number);
            }
        }
        count += double(elements / channels);
    }
    void add(const Seen& other) {
        resize(other.lows.size());
        for (size_t c = 0; c < lows.size(); ++c) {
            lows[c] = std::min(lows[c], other.lows[c]);
            highs[c] = std::max(highs[c], other.highs[c]);
            squares[c] += other.squares[c];
        }
        count += other.count;
    }
    double power(size_t c) const { return squares[c] / count; }

  private:
    void resize(size_t channels) {
        lows.resize(channels, 0);
        highs.resize(channels, 0);
        squares.resize(channels, 0);
    }
};

using AllSeen = std::map<ValueId, Seen>;

AllSeen look(const Graph& graph, const Samples& samples, const std::vector<ChannelClass>& classes) {
    std::map<ValueId, size_t> channels;
    for (const ChannelClass& one : classes) {
        for (const ValueId id : one.values) channels.emplace(id, static_cast<size_t>(one.channels));
    }
    using BySample = std::map<std::pair<ValueId, size_t>, Seen>;  // added up in order, whoever executes which
    const auto notes = observe(graph, samples, BySample(),
                               [&](BySample& seen, size_t sample, ValueId id, const values::Tensor& tensor) {
                                   const auto found = channels.find(id);
                                   if (found == channels.end() || tensor.type != ElemType::f32) return;
                                   seen[{id, sample}].add(reinterpret_cast<const float*>(tensor.data),
                                                          tensor.elements(), found->second);
                               });
    BySample whole;
    for (const BySample& some : notes) whole.insert(some.begin(), some.end());
    AllSeen all;
    for (const auto& [key, seen] : whole) all[key.first].add(seen);
    return all;
}

// ---- the noise that int8 adds

/// The weights of a product that reads a class.
class Reader {
  public:
    Reader(const Graph& graph, const Node& node, const ChannelClass& of, const Seen& x)
        : channels_(static_cast<size_t>(of.channels)),
          weights_(graph::aligned(graph.value(node.inputs[1]).data, sizeof(float))),
          squares_(channels_, 0),
          largest_(channels_, 0) {
        const Value& weights = graph.value(node.inputs[1]);
        const Dims& shape = weights.shape;
        inputs_ = static_cast<size_t>(shape[shape.rank - 2U]);
        for (int64_t o = 0; o < shape[shape.rank - 1U]; ++o)
            first_.push_back(static_cast<size_t>(input_channel(graph, node, 0, o)));
        rows_ = weights.elements() / first_.size();
        each_weight([this](size_t, size_t c, double weight) {
            squares_[c] += weight * weight;
            largest_[c] = std::max(largest_[c], weight);
        });
        for (size_t c = 0; c < channels_; ++c) {
            powers_.push_back(x.power(c));
            signal_ += squares_[c] * powers_[c];
        }
    }

    /// Returns the power of the noise over that of the sums: of operands rounded to steps whose squares are
    /// `steps` in all, and of weights rounded to 127 steps for each output channel.
    double noise(const Factors& factors, double steps) const {
        double sum = 0, power = 0;
        for (size_t c = 0; c < channels_; ++c) sum += steps * factors[c] * factors[c] * squares_[c];
        std::vector<double> most(first_.size(), 0);
        each_weight(
            [&](size_t o, size_t c, double weight) { most[o] = std::max(most[o], weight * factors[c]); });
        for (size_t o = 0; o < first_.size(); ++o) {
            if (o == 0 || first_[o] != first_[o - 1]) power = power_of_operands(o, factors);
            sum += most[o] * most[o] / (127.0 * 127.0) * power;
        }
        return signal_ > 0 ? sum / 12 / signal_ : 0;
    }
    /// Returns the greatest weight of an input channel.
    double largest(size_t c) const { return largest_[c]; }

  private:
    size_t channel(size_t i, size_t o) const { return (first_[o] + i) % channels_; }

    /// Calls visit(output channel, input channel of the class, size).
    template <class Visit>
    void each_weight(const Visit& visit) const {
        const auto* numbers = reinterpret_cast<const float*>(weights_.bytes);
        for (size_t row = 0; row < rows_; ++row) {
            for (size_t o = 0; o < first_.size(); ++o)
                visit(o, channel(row % inputs_, o), std::fabs(double(*numbers++)));
        }
    }

    /// Returns the power of all that output channel o sums up.
    double power_of_operands(size_t o, const Factors& factors) const {
        double power = 0;
        for (size_t i = 0; i < inputs_; ++i) {
            const size_t c = channel(i, o);
            power += powers_[c] / (factors[c] * factors[c]);
        }
        return power * double(rows_ / inputs_);
    }

    /// Sizes of the class; of an output channel; rows of the weights.
    size_t channels_, inputs_ = 1, rows_ = 0;
    graph::Data weights_;
    std::vector<size_t> first_;  ///< input channel of each output channel
    Factors squares_, largest_;  ///< values of weights, by input channel: sum of squares, greatest size
    Factors powers_;             ///< powers of operands
    double signal_ = 0;
};

/// Chooses the factors of a class.
class Chooser {
  public:
    Chooser(const Graph& graph, const ChannelClass& of, const AllSeen& seen,
            const std::vector<std::vector<NodeId>>& users)
        : channels_(static_cast<size_t>(of.channels)), reach_(channels_, 0) {
        for (const ValueId id : of.values) {
            const auto found = seen.find(id);
            if (found != seen.end() && is_rounded(graph, users[id])) take(found->second);
        }
        for (const NodeId n : of.readers) {
            const auto x = seen.find(graph.nodes[n].inputs[0]);
            if (x != seen.end()) readers_.emplace_back(graph, graph.nodes[n], of, x->second);
        }
    }

    /// Returns the best factors; all 1 when nothing is better.
    Factors run() const {
        Factors best(channels_, 1);
        double least = noise(best);
        for (const double of_range : {0.5, 1.0}) {
            for (const double of_weights : {0.0, 0.5}) {
                const Factors factors = candidate(of_range, of_weights);
                const double found = noise(factors);
                if (found >= least) continue;
                least = found;
                best = factors;
            }
        }
        return best;
    }

  private:
    /// A bound takes the steps of what it makes.
    static bool is_rounded(const Graph& graph, const std::vector<NodeId>& users) {
        const auto is_bound = [&](NodeId n) { return graph.nodes[n].spec().traits.bounds; };
        return users.size() != 1 || !is_bound(users[0]);
    }

    void take(const Seen& seen) {
        const double low = *std::min_element(seen.lows.begin(), seen.lows.end()),
                     high = *std::max_element(seen.highs.begin(), seen.highs.end());
        for (size_t c = 0; c < channels_; ++c) {
            const double part =
                std::max(low < 0 ? seen.lows[c] / low : 0, high > 0 ? seen.highs[c] / high : 0);
            reach_[c] = std::max(reach_[c], std::min(1.0, room * part));
        }
        steps_ += std::pow((high - low) / 255, 2);
    }

    double noise(const Factors& factors) const {
        double sum = 0;
        for (const Reader& reader : readers_) sum += reader.noise(factors, steps_);
        return sum;
    }

    /// Returns factors between the channel's part of the range, so that the tensor's stays, and 1.
    Factors candidate(double of_range, double of_weights) const {
        Factors factors(channels_, 1);
        double most = 0;
        for (size_t c = 0; c < channels_; ++c) {
            double largest = 0;
            for (const Reader& reader : readers_) largest = std::max(largest, reader.largest(c));
            if (!(reach_[c] > 0) || !(largest > 0)) continue;
            factors[c] =
                std::pow(std::max(reach_[c], least_factor), of_range) * std::pow(largest, -of_weights);
            most = std::max(most, factors[c]);
        }
        for (size_t c = 0; c < channels_ && most > 0; ++c)
            factors[c] = std::clamp(factors[c] / most, std::clamp(reach_[c], least_factor, 1.0), 1.0);
        return factors;
    }

    size_t channels_;
    Factors reach_;     ///< the greatest part of a tensor's range that a channel may fill
    double steps_ = 0;  ///< squares of the steps of the values that are rounded
    std::vector<Reader> readers_;
};

// ---- the network with other constants

class Equaliser {
  public:
    explicit Equaliser(const Graph& graph) : graph_(graph) {}

    void scale(const ChannelClass& of, const Factors& factors) {
        for (const NodeId n : of.makers) {
            output_.emplace(n, factors);
            if (graph_.nodes[n].inputs.size() > 2) divide(graph_.nodes[n].inputs[2], factors);
        }
        for (const NodeId n : of.readers) input_.emplace(n, factors);
        for (const ValueId id : of.constants) divide(id, factors);
        for (const NodeId n : of.bounds) bounds_.emplace(n, factors);
    }

    Graph run() {
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) scale_weights(n);
        place_bounds();
        return std::move(graph_);
    }

  private:
    void divide(ValueId id, const Factors& factors) {
        Value& value = graph_.value(id);
        std::vector<double> numbers = graph::numbers(value);
        for (size_t i = 0; i < numbers.size(); ++i) numbers[i] /= factors[i % factors.size()];
        value.data = graph::make_numbers(value.elem, numbers);
    }

    void scale_weights(NodeId n) {
        const auto in = input_.find(n), out = output_.find(n);
        if (in == input_.end() && out == output_.end()) return;
        const Node& node = graph_.nodes[n];
        Value& value = graph_.value(node.inputs[1]);
        const int64_t outputs = value.shape[value.shape.rank - 1U],
                      inputs = value.shape[value.shape.rank - 2U];
        const graph::Data old = graph::aligned(value.data, sizeof(float));
        const graph::NewData scaled = graph::new_data(old.size);
        for (int64_t k = 0; k < static_cast<int64_t>(value.elements()); ++k) {
            const int64_t o = k % outputs, i = k / outputs % inputs;
            double number = values::load<float>(old.bytes, k);
            if (in != input_.end()) number *= factor(in->second, input_channel(graph_, node, i, o));
            if (out != output_.end()) number /= factor(out->second, o);
            values::store(scaled.bytes, k, static_cast<float>(number));
        }
        value.data = scaled.data;
    }
    static double factor(const Factors& factors, int64_t channel) {
        return factors[static_cast<size_t>(channel) % factors.size()];
    }

    /// Clamps become a relu, and a min with the bounds of the channels.
    void place_bounds() {
        std::vector<Node> nodes;
        for (NodeId n = 0; n < graph_.nodes.size(); ++n) {
            const auto found = bounds_.find(n);
            Node node = std::move(graph_.nodes[n]);
            if (found == bounds_.end()) {
                nodes.push_back(std::move(node));
                continue;
            }
            const double most = node.attrs.real("max_val", HUGE_VAL);
            node.opcode = *find_opcode("relu");
            node.attrs = {};
            if (std::isfinite(most)) {
                const Value out = graph_.value(node.outputs[0]);
                Node bound = node;
                node.outputs[0] = graph_.add_value(out.name + "/relu", out.elem, out.shape);
                bound.opcode = *find_opcode("min");
                bound.inputs = {node.outputs[0], bounds_of(out, most, found->second)};
                nodes.push_back(std::move(node));
                nodes.push_back(std::move(bound));
            } else {
                nodes.push_back(std::move(node));
            }
        }
        graph_.nodes = std::move(nodes);
    }
    ValueId bounds_of(const Value& out, double most, const Factors& factors) {
        const auto channels = static_cast<size_t>(out.shape[out.shape.rank - 1U]);
        std::vector<double> numbers(channels);
        for (size_t c = 0; c < channels; ++c) numbers[c] = most / factors[c % factors.size()];
        return graph_.add_constant(out.name + "/bounds", out.elem,
                                   graph::dims({static_cast<int64_t>(channels)}),
                                   graph::make_numbers(out.elem, numbers));
    }

    Graph graph_;
    std::map<NodeId, Factors> input_, output_, bounds_;  ///< indexed by node
};

bool are_ones(const Factors& factors) {
    return std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; });
}

}  // namespace

std::optional<Graph> equalise_channels(const Graph& graph, const Samples& samples,
                                       const graph::Supports& supports) {
    std::vector<ChannelClass> classes = channel_classes(graph);
    if (!graph::is_supported(supports, "min", {ElemType::i8, ElemType::i8}, {ElemType::i8})) {
        const auto is_bounded = [](const ChannelClass& one) { return !one.bounds.empty(); };
        classes.erase(std::remove_if(classes.begin(), classes.end(), is_bounded), classes.end());
    }
    if (classes.empty()) return std::nullopt;
    const AllSeen seen = look(graph, samples, classes);
    const auto users = graph::users(graph);
    Equaliser equaliser(graph);
    bool changes = false;
    for (const ChannelClass& one : classes) {
        const Factors factors = Chooser(graph, one, seen, users).run();
        if (are_ones(factors)) continue;
        equaliser.scale(one, factors);
        changes = true;
    }
    if (!changes) return std::nullopt;
    return equaliser.run();
}

}  // namespace kpu::quantize
