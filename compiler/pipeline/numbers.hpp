#pragma once
// The step from a float network to the types of a device: one type, int8 with its scales, or a mix.
#include <optional>

#include "compiler/emit/emit.hpp"
#include "compiler/passes/passes.hpp"
#include "compiler/pipeline/options.hpp"
#include "compiler/precision/mix.hpp"
#include "compiler/quantize/block_formats.hpp"
#include "compiler/quantize/quantize.hpp"

namespace kpu::pipeline {

/// Returns what the device computes; it must outlive the result.
graph::Supports supports_of(const compiler::Target& target);

/// Errors of layers, and the names of the sources of the nodes that they count.
struct Measured {
    precision::Mix mix;
    std::vector<std::string> names;
};

class Numbers {
  public:
    Numbers(const CompileOptions& options, const std::string& origin, const compiler::Target& target,
            Diagnostics& notes)
        : options_(options), origin_(origin), target_(target), notes_(notes) {}

    /// Returns the type for what is no product in float8 or a block format: the narrowest of the device's
    /// that has the range for it.
    static ElemType float_beside(const compiler::Target& target, const std::string& origin);
    /// Chooses the types. `after` is called after each pass. Throws UserError.
    void run(graph::Graph& graph, ElemType precision, const passes::Options& options,
             const passes::AfterPass& after);
    const std::optional<Measured>& measured() const { return measured_; }

  private:
    void check_options(const graph::Graph& graph, bool quantized_already, ElemType precision) const;
    std::unique_ptr<quantize::Samples> open_samples(const graph::Graph& graph) const;
    void warn_of_random(const quantize::Samples& samples) const;
    void warn_of_large_weights(const graph::Graph& graph, ElemType precision) const;
    quantize::QuantizeOptions quantize_options(ElemType precision) const;

    void absorb(graph::Graph& graph, ElemType precision);
    int64_t group_size() const;
    void quantize(graph::Graph& graph, ElemType precision);
    void make_float8(graph::Graph& graph, ElemType precision, const passes::Options& options,
                     const passes::AfterPass& after);
    void make_blocks(graph::Graph& graph, const quantize::BlockFormat& format, const passes::Options& options,
                     const passes::AfterPass& after);
    void equalise(graph::Graph& exact, std::vector<quantize::Range>& ranges, const quantize::Samples& samples,
                  const quantize::QuantizeOptions& options) const;
    void convert(graph::Graph& graph, ElemType precision, const passes::Options& options,
                 const passes::AfterPass& after);
    void choose(graph::Graph& graph, precision::Question question, const quantize::Samples& samples);
    void tell(const precision::Mix& mix) const;
    void take(graph::Graph& graph, quantize::QuantizeResult result) const;
    void tell_of_floats(const std::vector<std::string>& in_floats) const;

    const CompileOptions& options_;
    const std::string& origin_;
    const compiler::Target& target_;
    Diagnostics& notes_;
    std::optional<Measured> measured_;
};

/// Writes what --report-accuracy asks for, once it is known what operations take.
void report_accuracy(const Measured& measured, const std::string& path, const compiler::Lowered& lowered,
                     ElemType precision);

}  // namespace kpu::pipeline
