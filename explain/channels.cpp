// Channel imbalance of the DRAM in words.
#include "explain/channels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "traces/report.hpp"

namespace kpu::explain {

using traces::grouped;

namespace {

/// Bursts of rows that are looked at: the pattern repeats long before.
constexpr uint64_t most_bursts = 1 << 16;
constexpr uint64_t largest_interleave = uint64_t{1} << 20;

uint64_t channels_of(const RunGraph& graph) {
    const auto& units = graph.info().units;
    return static_cast<uint64_t>(std::count_if(
        units.begin(), units.end(), [](const traces::UnitInfo& u) { return u.kind == UnitKind::ddr; }));
}

}  // namespace

ChannelSpread spread_of(const traces::StreamWork::Rows& rows, uint64_t channels, uint64_t interleave,
                        uint64_t burst) {
    std::vector<uint64_t> counts(channels, 0);
    uint64_t bursts = 0;
    for (uint64_t row = 0; row < rows.count && bursts < most_bursts; ++row) {
        const uint64_t first = row * rows.stride / burst, end = (row * rows.stride + rows.bytes - 1) / burst;
        for (uint64_t b = first; b <= end && bursts < most_bursts; ++b, ++bursts)
            ++counts[b * burst / interleave % channels];
    }
    ChannelSpread spread;
    for (const uint64_t count : counts) {
        spread.reached += count > 0 ? 1 : 0;
        if (bursts > 0) spread.most = std::max(spread.most, double(count) / double(bursts));
    }
    return spread;
}

uint64_t best_interleave(const traces::StreamWork::Rows& rows, uint64_t channels, uint64_t interleave,
                         uint64_t burst) {
    constexpr double same = 0.01;
    uint64_t best = interleave;
    double least = spread_of(rows, channels, interleave, burst).most;
    const auto distance = [&](uint64_t value) {
        return std::abs(std::log2(double(value) / double(interleave)));
    };
    for (uint64_t value = std::max<uint64_t>(64, burst); value <= largest_interleave; value *= 2) {
        const double most = spread_of(rows, channels, value, burst).most;
        const bool nearer = most <= least + same && best != interleave && distance(value) < distance(best);
        if (most < least - same || nearer) best = value;
        if (best == value) least = std::min(least, most);
    }
    return best;
}

std::vector<std::string> channel_advice(const RunGraph& graph, const OpTerms& op) {
    std::vector<std::string> advice;
    const bool held = std::any_of(op.holdups.begin(), op.holdups.end(), [](const Holdup& holdup) {
        return holdup.cause == traces::Cause::stalled_operand_dram_imbalance;
    });
    const uint64_t channels = channels_of(graph), interleave = graph.info().dram_interleave_bytes;
    const uint64_t burst = graph.info().dram_burst_bytes;
    if (!held || channels < 2 || interleave == 0 || burst == 0) return advice;
    std::set<std::string> said;
    for (const WorkTerm& term : op.works) {
        for (const traces::StreamWork& stream : graph.info().works[term.work].streams) {
            const traces::StreamWork::Rows& rows = stream.dram_rows;
            if (rows.count == 0 || rows.bytes == 0) continue;
            const ChannelSpread now = spread_of(rows, channels, interleave, burst);
            if (2 * now.most * double(channels) <= 3) continue;  // it is spread; others camp
            const uint64_t better = best_interleave(rows, channels, interleave, burst);
            const std::string where = rows.count > 1
                                          ? fmt::format("{} rows of {} bytes, {} apart,", grouped(rows.count),
                                                        grouped(rows.bytes), grouped(rows.stride))
                                          : fmt::format("{} bytes in a row", grouped(rows.bytes));
            std::string text = fmt::format("{}: {} in blocks of {} bytes reach {} of {} channels",
                                           graph.info().statements[term.statement].name, where,
                                           grouped(interleave), now.reached, channels);
            if (better != interleave)
                text += fmt::format("; ddr.channel_interleave_bytes={} reaches {}", better,
                                    spread_of(rows, channels, better, burst).reached);
            if (said.insert(text).second) advice.push_back(text);
        }
    }
    return advice;
}

}  // namespace kpu::explain
