#pragma once
// Front end: SCALE-Sim topology files. A line is a layer; the first line is a header; a comma at the end of a
// line closes its last field. A convolution, of whose strides the second (of columns) may be left out, or a product:
//
//     name, input height, input width, filter height, filter width, channels, filters, stride, stride of columns,
//     name, M, N, K,
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.hpp"
#include "isa/module.hpp"

namespace kpu::compiler {

/// A layer as the product that an array computes: M output pixels, N filters, K filter window x channels.
struct Layer {
    std::string name;
    bool convolution = false;
    uint64_t m = 0, n = 0, k = 0;
};

/// Findings go to `diagnostics` with file and line; a result with errors is empty. What the file says and the
/// program cannot is reported as info.
std::vector<Layer> parse_topology(std::string_view text, const std::string& origin, Diagnostics& diagnostics);

/// Layers back to back, one operation each. Operands (i8, a convolution's as the matrix of its windows) and
/// results (i32) stand in L1[0] from the start: the file knows no memory.
Module topology_program(const std::vector<Layer>& layers, const std::string& name);
/// Returns the L1 that the program allocates, bytes.
uint64_t topology_l1_bytes(const std::vector<Layer>& layers);

}  // namespace kpu::compiler
