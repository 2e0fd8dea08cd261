#pragma once
// Calibration: which numbers each value of a float network takes on samples.
#include <vector>

#include "compiler/graph/graph.hpp"
#include "compiler/quantize/samples.hpp"

namespace kpu::quantize {

/// Range of the finite numbers of one value.
struct Range {
    double low = 0, high = 0;
    bool known = false;      ///< some number was finite
    bool all_finite = true;  ///< no infinity, no NaN
    bool empty() const { return !known; }
    void include(double number);
    void include(const Range& other);
};

/// Part of the numbers that int8 steps reach; what lies outside saturates, so that outliers do not make every
/// step coarser. All but minmax count the numbers in a second pass over the samples.
enum class RangeMethod : uint8_t {
    minmax,      ///< from the least to the greatest
    percentile,  ///< the middle that holds a share of them
    mse,         ///< the part, shrunk towards 0, whose steps have the least mean square error
    entropy,  ///< up to the size at which the distribution in steps tells most of that of the numbers (least
              ///< Kullback-Leibler divergence)
};

struct RangeOptions {
    RangeMethod method = RangeMethod::minmax;
    double percentile = 99.99;  ///< share for RangeMethod::percentile
};

/// Ranges of all float values, by ValueId; those of other values are empty. Constants have theirs. One pass
/// over the samples, two for percentiles.
std::vector<Range> calibrate(const graph::Graph& graph, const Samples& samples,
                             const RangeOptions& options = {});

/// Returns the range of floats in the data.
Range range_of(ElemType elem, const uint8_t* bytes, uint64_t elements);

/// Counts how often numbers fall into equal parts of a range.
class Histogram {
  public:
    static constexpr size_t bins = 2048;
    explicit Histogram(const Range& range);
    void add(ElemType elem, const uint8_t* bytes, uint64_t elements);
    /// Adds what another one of the same range has counted.
    void add(const Histogram& other);
    /// Returns the middle part of the range that holds `percentile` percent of the numbers, whole bins.
    Range middle(double percentile) const;
    /// Returns the range times one of 1, 127/128, ... 1/128 with least mean square error, each bin taken at
    /// its middle; the widest of equal ones.
    Range least_error() const;
    /// Returns the numbers up to the size t, for t of 128, 132, ... 2048 of 2048 equal parts of the greatest
    /// size. The distribution of sizes up to t, larger ones counted in the last part, is compared with the
    /// same in 128 levels, each level's count spread evenly over its parts that are not empty; t has the
    /// least divergence, the least of equal ones.
    Range most_information() const;

  private:
    Range range_;
    double middle_of(size_t bin) const {
        return range_.low + (static_cast<double>(bin) + 0.5) / bins_per_unit_;
    }
    std::vector<double> sizes() const;

    double bins_per_unit_ = 0;
    std::vector<uint64_t> counts_;
};

}  // namespace kpu::quantize
