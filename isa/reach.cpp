#include "isa/reach.hpp"

#include <algorithm>

#include "isa/iterations.hpp"

namespace kpu {
namespace {

ByteRange reach_of(const BoundProgram& program, uint32_t statement, const BoundRegion& region) {
    const BoundBuffer& buffer = program.buffers[region.buffer];
    const ByteRange all{0, buffer.size};
    const auto loops = loop_ranges(program, statement);
    if (!loops) return all;
    for (const Interval& loop : *loops)
        if (loop.lo > loop.hi) return {};  // no iteration
    const auto address = bound_of(region.address, *loops);
    if (!address || address->lo < 0) return all;
    const uint64_t lowest = std::max(static_cast<uint64_t>(address->lo), buffer.base) - buffer.base;
    const uint64_t highest = std::max(static_cast<uint64_t>(address->hi), buffer.base) - buffer.base;
    if (highest > buffer.size || region.extent > buffer.size - highest)
        return {std::min(lowest, all.last), all.last};
    return {lowest, highest + region.extent};
}

void merge(std::vector<ByteRange>& ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const ByteRange& a, const ByteRange& b) { return a.first < b.first; });
    std::vector<ByteRange> merged;
    for (const ByteRange& range : ranges) {
        if (range.first >= range.last) continue;
        if (merged.empty() || range.first > merged.back().last) {
            merged.push_back(range);
        } else {
            merged.back().last = std::max(merged.back().last, range.last);
        }
    }
    ranges = std::move(merged);
}

}  // namespace

std::vector<std::vector<ByteRange>> reach_of_buffers(const BoundProgram& program) {
    std::vector<std::vector<ByteRange>> reach(program.buffers.size());
    for (uint32_t s = 0; s < program.statements.size(); ++s) {
        if (program.statements[s].kind != BoundStatement::Kind::task) continue;
        const BoundTask& task = program.tasks[program.statements[s].index];
        for (const auto* list : {&task.inputs, &task.outputs}) {
            for (const uint32_t index : *list) {
                const BoundRegion& region = program.regions[index];
                reach[region.buffer].push_back(reach_of(program, s, region));
            }
        }
    }
    for (auto& ranges : reach) merge(ranges);
    return reach;
}

std::vector<ByteRange> inside(const std::vector<ByteRange>& ranges, uint64_t first, uint64_t last) {
    std::vector<ByteRange> found;
    for (const ByteRange& range : ranges) {
        const ByteRange part{std::max(range.first, first), std::min(range.last, last)};
        if (part.first < part.last) found.push_back(part);
    }
    return found;
}

std::vector<ByteRange> outside(const std::vector<ByteRange>& ranges, uint64_t first, uint64_t last) {
    std::vector<ByteRange> found;
    for (const ByteRange& part : inside(ranges, first, last)) {
        if (first < part.first) found.push_back({first, part.first});
        first = part.last;
    }
    if (first < last) found.push_back({first, last});
    return found;
}

}  // namespace kpu
