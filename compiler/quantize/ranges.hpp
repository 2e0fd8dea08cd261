#pragma once
// Calibration: which numbers each value of a float network takes on samples.
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

/// Of the finite numbers of one value.
struct Range {
    double low = 0, high = 0;
    bool known = false;      ///< some number was finite
    bool all_finite = true;  ///< no infinity, no NaN
    bool empty() const { return !known; }
    void include(double number);
    void include(const Range& other);
};

struct RangeOptions {
    static constexpr double usual_percentile = 99.99;
    /// 100: from the least to the greatest number. Below: the middle of the numbers that holds this share of
    /// them, so that a few outliers do not make every step coarser. Takes a second pass over the samples.
    double percentile = 100;
};

/// Ranges of all float values, by ValueId; those of other values are empty. Constants have theirs. One pass
/// over the samples, two for percentiles.
std::vector<Range> calibrate(const graph::Graph& graph, const Samples& samples,
                             const RangeOptions& options = {});

/// Of floats in the data.
Range range_of(ElemType elem, const uint8_t* bytes, uint64_t elements);

/// How often numbers fall into equal parts of a range.
class Histogram {
  public:
    static constexpr size_t bins = 2048;
    explicit Histogram(const Range& range);
    void add(ElemType elem, const uint8_t* bytes, uint64_t elements);
    /// What another one of the same range has counted.
    void add(const Histogram& other);
    /// The middle part of the range that holds `percentile` percent of the numbers, whole bins.
    Range middle(double percentile) const;

  private:
    Range range_;
    double bins_per_unit_ = 0;
    std::vector<uint64_t> counts_;
};

}  // namespace kpu::quantize
