#pragma once

#include <array>
#include <string>
#include <vector>

#include "explain/run_graph.hpp"

namespace kpu::explain {

/// What could be made faster: units and memories that one part of the platform describes.
enum class Resource : uint8_t { none, ddr, links, l2, l1, system_dma, engine_dma, arrays, vector_units };
constexpr int resource_count = 9;
std::string_view name_of(Resource resource);
/// The platform fields that set its rate: "ddr.data_rate_mtps", ...
std::string_view fields_of(Resource resource);
/// What a unit belongs to; none: sequencers, the device.
Resource resource_of_unit(traces::UnitClass unit);

/// The least cycles that the program can take on the device when a resource moves or computes in no time but
/// keeps its latency. docs/explain.md has the rules.
struct Bound {
    Resource resource = Resource::none;  ///< none: the device as it is
    Cycles cycles = 0;                   ///< the larger of what follows
    Cycles path = 0;                     ///< longest chain of tasks, each as fast as its formula
    Cycles work = 0;      ///< most work of another unit at its peak, with what must come before and after
    std::string busiest;  ///< that unit
};

/// A bound for every resource that the run used, the device as it is first.
std::vector<Bound> what_if(const RunGraph& graph);

}  // namespace kpu::explain
