#pragma once

#include <string>
#include <vector>

#include "explain/cycle_terms.hpp"

namespace kpu::explain {

/// Spread of the bursts of rows of bytes over channels.
struct ChannelSpread {
    uint64_t reached = 0;  ///< channels
    double most = 0;       ///< share of the bursts of the channel that gets most of them
};
ChannelSpread spread_of(const traces::StreamWork::Rows& rows, uint64_t channels, uint64_t interleave,
                        uint64_t burst);
/// Returns the interleave, a power of two, that spreads the rows best; of equal ones the nearest to
/// `interleave`.
uint64_t best_interleave(const traces::StreamWork::Rows& rows, uint64_t channels, uint64_t interleave,
                         uint64_t burst);

/// Returns, for each statement of an operation that channel imbalance held up, the stride and the interleave
/// that collide, and the interleave that spreads it over the channels. One sentence each.
std::vector<std::string> channel_advice(const RunGraph& graph, const OpTerms& op);

}  // namespace kpu::explain
