#pragma once
#include <string>

#include "compiler/precision/mix.hpp"

namespace kpu::precision {

/// Cost of a layer on the device as it is compiled.
struct Cost {
    double cycles = 0;     ///< predicted
    double energy_pj = 0;  ///< predicted, dynamic
};

/// Returns the error that each layer adds to the outputs, in either precision, with its share of cycles and
/// energy: one page, those first that add most. `csv`: the same in columns, in the order of the network.
std::string report(const Mix& mix, ElemType precision, const std::vector<Cost>& costs, bool csv);

}  // namespace kpu::precision
