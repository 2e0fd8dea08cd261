#include "model/accounting/work_table.hpp"

#include <algorithm>
#include <boost/functional/hash.hpp>
#include <cstdlib>

namespace kpu::model {

namespace {

uint64_t runs_of(const StreamSide& side) {
    if (!side.is_memory) return 0;
    uint64_t runs = side.repeat;
    for (int d = 0; d < side.pattern.dims; ++d) runs *= static_cast<uint64_t>(side.pattern.count[d]);
    return runs;
}

uint64_t bytes_of(const StreamSide& side) {
    return side.is_memory ? runs_of(side) * side.pattern.run_bytes : 0;
}

/// Returns the first dimension, in which the bytes that follow each other lie.
traces::StreamWork::Rows rows_of(const values::Footprint& pattern) {
    if (pattern.dims == 0) return {1, pattern.run_bytes, 0};
    const auto stride = static_cast<uint64_t>(std::abs(pattern.stride_bytes[0]));
    return {static_cast<uint64_t>(pattern.count[0]), pattern.run_bytes, stride};
}

traces::StreamWork::End end_of(const StreamSide& side) { return {side.is_memory, side.level, side.engine}; }

void fill(traces::StreamWork& work, const StreamUse& use, const TaskPlan& plan) {
    const StreamRequest& request = *use.request;
    using Role = traces::StreamWork::Role;
    work.role = plan.moves() ? Role::move : use.is_result ? Role::result : Role::operand;
    work.source = end_of(request.source);
    work.destination = end_of(request.destination);
    work.bytes = std::max(bytes_of(request.source), bytes_of(request.destination));
    work.runs = std::max(runs_of(request.source), runs_of(request.destination));
    work.dram_rows = {};
    for (const StreamSide* side : {&request.source, &request.destination})
        if (side->is_memory && side->level == Level::ddr) work.dram_rows = rows_of(side->pattern);
    work.port_bytes_per_cycle = request.port_bytes_per_cycle;
    work.burst_bytes = request.burst_bytes;
    work.max_outstanding = request.max_outstanding;
    work.descriptor_cycles = request.descriptor_cycles;
    work.row_cycles = request.row_cycles;
    work.due = use.is_result ? plan.first_result : use.due;
}

void fill(traces::TaskWork& work, const TaskCommand& command) {
    const TaskReport& report = command.report;
    const TaskPlan& plan = *command.plan;
    work.mover = plan.moves();
    work.overlaps = plan.overlap;
    work.lead = plan.lead;
    work.fill = plan.fill;
    work.steady = plan.steady;
    work.drain = plan.drain;
    work.uneven = plan.uneven;
    work.occupancy = plan.occupancy;
    work.work = plan.work + plan.repeated;
    work.peak_q16 = plan.peak_q16;
    work.macs = command.task->task->macs;
    work.streams.resize(report.streams.size());
    for (size_t i = 0; i < report.streams.size(); ++i) fill(work.streams[i], report.streams[i], plan);
}

size_t hash_of(const traces::TaskWork& work) {
    size_t seed = work.streams.size();
    for (const uint64_t field : {uint64_t{work.mover}, work.fill, work.steady, work.work, work.peak_q16})
        boost::hash_combine(seed, field);
    for (const traces::StreamWork& stream : work.streams) {
        boost::hash_combine(seed, stream.bytes);
        boost::hash_combine(seed, stream.runs);
        boost::hash_combine(seed, stream.source.engine);
        boost::hash_combine(seed, stream.destination.engine);
    }
    return seed;
}

}  // namespace

uint32_t WorkTable::index_of(const TaskCommand& command) {
    fill(scratch_, command);
    const auto [last, first_time] = of_statement_.try_emplace(command.task->statement, 0);
    if (!first_time && works_[last->second].same_request(scratch_)) return last->second;
    const size_t hash = hash_of(scratch_);
    const auto [from, to] = by_hash_.equal_range(hash);
    const auto found = std::find_if(
        from, to, [&](const auto& entry) { return works_[entry.second].same_request(scratch_); });
    if (found != to) return last->second = found->second;
    const auto index = static_cast<uint32_t>(works_.size());
    works_.push_back(scratch_);
    by_hash_.emplace(hash, index);
    return last->second = index;
}

StreamRequest request_like(const traces::StreamWork& work) {
    StreamRequest request;
    const auto side = [](const traces::StreamWork::End& end) {
        StreamSide result;
        result.is_memory = end.is_memory;
        result.level = end.level;
        result.engine = end.engine;
        return result;
    };
    request.source = side(work.source);
    request.destination = side(work.destination);
    return request;
}

}  // namespace kpu::model
