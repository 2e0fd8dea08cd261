#pragma once
// Rows of measured layers: what ran, how it was cut, how long it took. The columns are those of
// tests/reference/silicon/gemmini16_moca_layers.csv; lines that begin with # say where a file is from.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
    int64_t elements = 0;               ///< of a sum: bytes of one operand
    int64_t macs() const;               ///< positions of the padding included
};

/// How the measured schedule was cut, as far as the row says.
struct MeasuredTiles {
    int64_t total = 0;         ///< tiles of the whole layer; 0: the row does not say
    int64_t over_filters = 0;  ///< how often the input was walked
    int64_t over_pixels = 0;   ///< how often the weights were walked
};

/// Classes that errors are reported by, fixed beforehand.
enum class LayerClass : uint8_t {
    window,           ///< convolutions of 3x3 and larger windows
    pointwise,        ///< of 1x1
    first_layer,      ///< of at most 4 input channels
    fully_connected,  ///< products of one row
    gemm,             ///< of more
    element_wise,
    pooling
};
std::string_view name_of(LayerClass layer_class);

struct MeasuredRow {
    size_t line = 0;  ///< of the file
    std::string network, kind, index;
    std::string name() const { return network + " " + kind + " " + index; }
    Work work;
    MeasuredTiles tiles;
    LayerClass layer_class = LayerClass::window;
    double cycles = 0;           ///< the median of the warm runs
    double least = 0, most = 0;  ///< of the warm runs
    std::string not_counted;     ///< why the row is printed and not counted; empty: it is
    double noise() const { return (most - least) / cycles; }
};

/// Throws UserError with every finding: the line, the column and the fix.
std::vector<MeasuredRow> read_measured(const std::string& path);

}  // namespace kpu::validation
