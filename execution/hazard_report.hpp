#pragma once

#include <string>
#include <vector>

#include "execution/hazards.hpp"

namespace kpu::execution {

/// A mistake in the use of one buffer: most often one dependency is missing, and every pair of statements
/// that it would have ordered is found.
struct HazardCause {
    std::vector<size_t> findings;  ///< findings of the log, first occurrence first
    uint64_t count = 0;            ///< occurrences
};

/// Groups the findings by cause, in order of first occurrence.
std::vector<HazardCause> causes_of(const HazardLog& log);

/// Returns the first finding in full, and in a second line what else there is to the cause.
std::string to_string(const HazardLog& log, const HazardCause& cause);

/// Returns "12 hazards (raw 8, war 4) in L2 buffer `B`, first at gemm.nem:21:7: results may be wrong": one
/// line, for the command and Python alike.
std::string summary(const HazardLog& log);

}  // namespace kpu::execution
