#pragma once
#include <optional>

#include "compiler/emit/emit.hpp"

namespace kpu::pipeline {

struct InBestStrips {
    graph::Graph graph;
    std::optional<compiler::Lowered> lowered;  ///< its program, if strips were compared
};

/// Returns the graph with those chains in strips that pay: it is lowered with and without, and the estimates
/// of cycles, and of DRAM's time, are compared, chain by chain. Strips that are wished are taken as they are.
InBestStrips in_best_strips(graph::Graph graph, const compiler::Target& target, const compiler::Guide& guide);

}  // namespace kpu::pipeline
