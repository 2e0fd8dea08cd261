#pragma once
// Options of a compilation, read once: the command and Python give them as text, what follows takes this.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/option.hpp"
#include "compiler/quantize/ranges.hpp"

namespace kpu::pipeline {

/// Options that every front end of networks has. What decides the shape of a model (dim, bind, positions, batch) is read
/// where it is imported.
std::vector<OptionRow> option_rows();

/// Least signal to noise that is asked for.
struct Accuracy {
    std::string text;    ///< as it was given, for messages
    double decibel = 0;  ///< infinite: the best that there is
};

/// Paths are empty where nothing is read or written.
struct CompileOptions {
    // types
    std::string precision;    ///< a word of option_rows(); empty: the widest float type of the device
    int64_t group_size = 32;  ///< channels that share a scale of int4
    std::string keep;         ///< NAME=TYPE,...
    std::optional<Accuracy> accuracy;
    double wide_share = 0.1;  ///< share of the multiply-accumulates that `accuracy` may widen, 0 to 1
    std::string report_accuracy;

    // samples
    std::string calibrate;  ///< a folder, or random:SEED; empty: there are none
    quantize::RangeOptions ranges;
    std::vector<std::string> of_ranges;  ///< options that decide `ranges`, as far as they were given
    std::vector<double> image_mean, image_deviation;  ///< none, one, or one for each colour

    // the host
    bool boundary_on_device = false;  ///< inputs are quantized by the device
    bool host_layout = true;          ///< pictures are as the model has them, not NHWC
    std::optional<uint64_t> inferences;

    // mappings
    int effort = 2;               ///< 1 to 3
    std::string explain_mapping;  ///< an operation, or "all"
    std::string mapping, write_mapping;

    // what is shown on the way
    std::string print_after;  ///< a pass, or "all"
    std::string print_graph, dot, export_qdq, memory_map;

    /// Whether errors are measured, which takes samples in every precision.
    bool measures() const { return accuracy.has_value() || !report_accuracy.empty(); }
    /// The first option given that needs the values of the model; null: none does.
    const char* needs_values() const;
};

/// Throws UserError for a value that an option does not take, and for options that exclude each other.
CompileOptions compile_options(const OptionValues& given);

}  // namespace kpu::pipeline
