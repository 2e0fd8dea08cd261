#pragma once
// Distance of a graph's outputs from those of the exact one, on samples.
#include <memory>
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/samples.hpp"
#include "values/compute.hpp"

namespace kpu::precision {

class Yardstick {
  public:
    /// Executes the exact graph on the first `most` samples. Throws UserError where no output is a float.
    Yardstick(const graph::Graph& exact, const quantize::Samples& samples, size_t most);

    /// Returns the power of the outputs' error over their power, of the worst part of an output (parts.hpp),
    /// as boxes and probabilities have powers of their own: 1 is no signal at all. What is not finite counts
    /// as infinite.
    double noise(const graph::Graph& graph) const { return noise(graph, arrays_.size(), false); }
    /// Returns the noise on the first `samples` alone. `scatter`: without the part that is the same in all of
    /// them, which a correction of biases takes away.
    double noise(const graph::Graph& graph, size_t samples, bool scatter) const;

  private:
    using Numbers = std::vector<float>;
    std::vector<Numbers> outputs_of(const graph::Graph& graph, size_t sample) const;

    std::unique_ptr<values::ComputeBackend> engine_ = values::make_fast_backend();
    std::vector<std::vector<graph::Data>> arrays_;  ///< arrays of the host, by sample and input
    std::vector<std::vector<Numbers>> exact_;       ///< indexed by sample and output
    std::vector<std::vector<size_t>> parts_;        ///< indexed by output and element
};

/// Returns 10 log10 of 1 / noise.
double decibel(double noise);

}  // namespace kpu::precision
