#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "explain/run_graph.hpp"

namespace kpu::explain {

/// A part of the platform that could be faster, as the rows of its kinds of units name it (isa/unit_kind.hpp):
/// "DRAM", "arrays". Empty: none.
using Part = std::string_view;
/// Returns the platform fields that set its rate: "ddr.data_rate_mtps", ...
std::string_view fields_of(Part part);

/// The least cycles that the program can take on the device when a part of it moves or computes in no time but
/// keeps its latency. docs/explain.md has the rules.
struct Bound {
    Part part;            ///< empty: the device as it is
    Cycles cycles = 0;    ///< the larger of what follows
    Cycles path = 0;      ///< longest chain of tasks, each as fast as its formula
    Cycles work = 0;      ///< most work of another unit at its peak, with what must come before and after
    std::string busiest;  ///< that unit
};

/// Returns a bound for every part that the run used, the device as it is first.
std::vector<Bound> what_if(const RunGraph& graph);

}  // namespace kpu::explain
