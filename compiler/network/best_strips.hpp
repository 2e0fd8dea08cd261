#pragma once
#include "compiler/lower/lower.hpp"

namespace kpu::network {

/// The graph with those chains in strips that pay: it is lowered with and without, and the estimates of cycles, and of
/// DRAM's time, are compared, chain by chain. Strips that are wished are taken as they are.
graph::Graph in_best_strips(graph::Graph graph, const lower::Target& target, const lower::Guide& guide);

}  // namespace kpu::network
