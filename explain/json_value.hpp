#pragma once
// Only json.cpp and html.cpp include this.

#include <nlohmann/json.hpp>

#include "explain/explanation.hpp"

namespace kpu::explain {

/// Returns everything but the segments of the critical path and the slack, whose size is that of the run.
nlohmann::json summary_of(const Explanation& explanation);

}  // namespace kpu::explain
