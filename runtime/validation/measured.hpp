#pragma once
// Rows of measurements: what ran, how it was cut, how long it took. The forms of files that are read, each told by its
// columns, are in docs/accuracy_machines.md; lines that begin with # say where a file is from.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/validation/kernel.hpp"
#include "runtime/validation/mapping.hpp"

namespace kpu::validation {

/// A layer. A product is a convolution of one row: `out_height` 1, `out_width` M, kernel 1.
struct Work {
    enum class Kind : uint8_t { product, convolution, sum, unknown };
    Kind kind = Kind::unknown;
    int64_t in_channels = 0, out_channels = 0;
    int64_t in_height = 0, in_width = 0;  ///< pixels
    int64_t out_height = 0, out_width = 0;
    int64_t kernel = 1, stride = 1, pad = 0;
    int64_t pool = 1, pool_stride = 1;  ///< window of a max pool on the way out; 1: none
    int64_t elements = 0;               ///< elements of a sum: bytes of one operand
    int64_t macs() const;               ///< positions of the padding included
};

/// Tiles of the measured schedule, as far as the row says.
struct MeasuredTiles {
    int64_t total = 0;         ///< tiles of the whole layer; 0: the row does not say
    int64_t over_filters = 0;  ///< number of walks over the input
    int64_t over_pixels = 0;   ///< number of walks over the weights
};

/// Classes that errors are reported by, fixed beforehand.
enum class LayerClass : uint8_t {
    window,           ///< convolutions of 3x3 and larger windows
    pointwise,        ///< convolution of 1x1
    first_layer,      ///< layer of at most 4 input channels
    fully_connected,  ///< products of one row
    gemm,             ///< product of more
    element_wise,
    pooling,
    large_gemm,  ///< products with a side above 896
    short_copy,  ///< up to 4 MB
    long_copy,
    activation,
    norm,
    attention,
    network,
    mapped,        ///< explicit mappings whose tiles are no smaller than the array
    small_mapped,  ///< mapping with tiles under its side
    core_grid,     ///< products on a grid of cores
    other_machine  ///< printed beside nothing
};
std::string_view name_of(LayerClass layer_class);

struct MeasuredRow {
    size_t line = 0;  ///< line of the file
    std::string network, kind, index;
    std::string name() const;
    // what ran: one of these
    Work work;                     ///< a layer of a study whose tiles the row counts
    std::vector<Kernel> kernels;   ///< kernels one after the other, in one launch
    std::optional<Mapped> mapped;  ///< a layer with its loops
    MeasuredTiles tiles;
    LayerClass layer_class = LayerClass::window;
    double cycles = 0;             ///< the median of the warm runs
    double least = 0, most = 0;    ///< bounds of the warm runs
    bool in_microseconds = false;  ///< the three above, until the platform's clock is known
    std::string not_counted;       ///< why the row is printed and not counted; empty: it is
    bool in_total = true;          ///< else it counts in its class alone
    std::string unknown;           ///< property that the row leaves open
    std::vector<std::pair<std::string, double>> others;  ///< cycles of other simulators
    /// Number of times that the layer of a row comes whose DRAM traffic is compared and not its time; its
    /// elements have two bytes there.
    int64_t traffic_times = 0;
    /// Group of rows of the same layer: they are compared in pairs by their order; empty: none.
    std::string group;
    double noise() const { return (most - least) / cycles; }
    bool simulates() const { return work.kind != Work::Kind::unknown || !kernels.empty() || mapped; }
    /// Writes all that its time depends on.
    std::string content() const;
};

/// Throws UserError with every finding: the line, the column and the fix.
std::vector<MeasuredRow> read_measured(const std::string& path);

}  // namespace kpu::validation
