#pragma once
// Samples of a model's inputs, from which the quantizer takes the ranges of values.
#include <memory>
#include <string>
#include <vector>

#include "compiler/graph/graph.hpp"

namespace kpu::quantize {

struct SampleOptions {
    size_t least = 4;  ///< fewer are refused
    /// Values of pictures: one for all colours, or one each; empty: 0 and 1.
    std::vector<double> mean, deviation;
};

/// Arrays of the host, as Graph::inputs want them. One sample at a time is in memory.
class Samples {
  public:
    virtual ~Samples() = default;
    virtual size_t count() const = 0;
    /// Loads one array for each input of the graph. Throws UserError that names the file.
    virtual std::vector<graph::Data> load(size_t index) const = 0;
    /// False for random numbers: ranges taken from them say nothing about real inputs.
    virtual bool calibrated() const = 0;
};

/// `from` is a folder of samples, or "random:SEED". The graph must outlive the samples.
///
/// In a folder, every .npy, .png and .jpg file is a sample of the one input; the samples of several inputs lie
/// in folders of their names (characters that no file name has are `_`) and belong together by file name. An
/// array has the input's shape (leading 1s may be missing; a batch repeats a single one) and its host's type. A picture is RGB scaled to
/// 0..1, minus mean, over deviation, in the input's order of dimensions; one colour channel is its luminance;
/// a batch repeats it.
///
/// Throws UserError: no such folder, too few samples, files without partner.
std::unique_ptr<Samples> open_samples(const graph::Graph& graph, const std::string& from,
                                      const SampleOptions& options = {});

/// Samples that the caller has: arrays of the host for each input.
std::unique_ptr<Samples> given_samples(const graph::Graph& graph,
                                       std::vector<std::vector<graph::Data>> arrays,
                                       const SampleOptions& options = {});

/// Throws "INT8 calibration requires at least N samples".
void require_samples(size_t count, const SampleOptions& options, const std::string& origin);

}  // namespace kpu::quantize
